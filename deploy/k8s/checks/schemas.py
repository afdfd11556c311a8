"""The schemas of Kubernetes and of compose, both from packages, both without a network."""

import json
from importlib.resources import files

import jsonschema
import kubernetes_validate

# The oldest version that has all that is used, and the newest that is known.
VERSIONS = ["1.31", kubernetes_validate.latest_version()]


def kubernetes(world):
    """every object fits the schema of its kind strictly, in the oldest version and the newest"""
    for one in world.objects:
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(one, version, strict=True)
            except kubernetes_validate.ValidationError as fault:
                where = ".".join(str(part) for part in fault.path)
                name = f"{one['kind']} {one['metadata']['name']}"
                yield f"{name}, {version}: {where}: {fault.message[:200]}"
            except (kubernetes_validate.SchemaNotFoundError, kubernetes_validate.InvalidSchemaError):
                yield f"{one.get('kind')} is unknown in {version}"


def compose(document, *_):
    """the file fits the schema of compose files"""
    schema = json.loads(files("check_jsonschema.builtin_schemas").joinpath("vendor/compose-spec.json").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    for fault in validator.iter_errors(document):
        yield f"{'.'.join(str(part) for part in fault.path)}: {fault.message[:200]}"
