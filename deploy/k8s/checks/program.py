"""What the program itself says of the manifests."""

import os
import re
import subprocess
import tempfile

from manifests import container


def accepts(program):
    """A check with this program: it takes the settings, the variables and the flags of every service."""

    def accepted(world):
        """the program takes the settings, the variables and the flags of every service"""
        for name, one in world.services().items():
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(world.settings(one))
                file.flush()
                given = {k: file.name if k.endswith("_FILE") else v for k, v in variables(one).items()}
                told = run(program, ["--config", file.name, "check-config"], given)
            if told.returncode != 0:
                yield f"{name}: {told.stderr.strip()}"
            for line in told.stdout.splitlines():
                if "passed over" in line:
                    yield f"{name}: {line.removeprefix('# ')}"
            told = run(program, [*container(one)["args"], "--help"], {})
            if told.returncode != 0:
                yield f"{name}: {told.stderr.strip().splitlines()[0]}"

    return accepted


def variables(deployment):
    """The variables of a container, with something in the place of secrets."""
    given = {}
    for one in container(deployment).get("env", []):
        value = one.get("value", "something")
        given[one["name"]] = re.sub(r"\$\((\w+)\)", lambda used: given[used[1]], value)
    if "envFrom" in container(deployment):
        given |= {"OPENAI_API_KEY": "something", "ANTHROPIC_API_KEY": "something"}
    return given


def run(program, arguments, given):
    return subprocess.run(
        [program, *arguments],
        env={"PATH": os.environ["PATH"], **given},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
