"""The parts of a request, as a reader sees them: texts, calls, results and tools."""

import contextlib
import json
import typing

# Media are named only: their bytes say nothing to a reader.
MEDIA, MEDIA_TOKENS = "[media: ", 1500


class Part(typing.NamedTuple):
    title: str
    text: str
    # All of it as JSON, without its cache breakpoint.
    key: str
    is_breakpoint: bool


def part_of(title, text, fields, is_breakpoint=False):
    key = {name: value for name, value in fields.items() if name != "cache_control"}
    return Part(title, text, to_json([title, key]), is_breakpoint or "cache_control" in fields)


def to_json(value, indent=None):
    return json.dumps(value, ensure_ascii=False, indent=indent)


def tokens_of(*texts):
    """The estimate: a quarter of the bytes, and a fixed number for media."""
    sizes = (len(text.encode(errors="replace")) + 4 * MEDIA_TOKENS * text.count(MEDIA) for text in texts)
    return -(-sum(sizes) // 4)


def text_of(content):
    """The text of a content: a text, or a list of texts and others."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n\n".join(one["text"] if one.get("type") == "text" else shown(one) for one in content)


def shown(fields):
    source = fields.get("source") or {}
    kind, data = source.get("media_type"), source.get("data")
    if fields.get("type") == "image_url":
        kind, _, data = fields["image_url"]["url"].partition(";base64,")
    return f"{MEDIA}{kind}, {len(data) * 3 // 4} bytes]" if data else to_json(fields)


def arguments_of(text):
    """Arguments for reading. What a model wrote may be no JSON."""
    with contextlib.suppress(ValueError):
        return to_json(json.loads(text), 2)
    return text


def tool_of(name, description, schema, fields, is_breakpoint=False):
    """A tool, its parameters a line each. What the lines cannot say follows as JSON."""
    schema = dict(schema or {})
    required, lines = schema.pop("required", []), [description or "", ""]
    for field, rules in schema.pop("properties", {}).items():
        rules = dict(rules) if isinstance(rules, dict) else {"schema": rules}
        kind, about = rules.pop("type", "any"), rules.pop("description", "")
        kind = kind if isinstance(kind, str) else to_json(kind)
        need = ", required" if field in required else ""
        more = f", {to_json(rules)}" if rules else ""
        lines.append(f"- {field}: {kind}{need}{more}{': ' if about else ''}{about}")
    usual = {"type": "object", "additionalProperties": False}
    if any(usual.get(name) != value for name, value in schema.items()):
        lines.append(f"- more of the schema: {to_json(schema)}")
    return part_of(name, "\n".join(lines).strip(), fields, is_breakpoint)
