"""A reply as a person or an agent writes it: text with blocks for calls, or JSON."""

import json
import re
import typing

from parts import to_json
from protocols import FINISH

FIELDS = {"text": str, "calls": list, "finish": str, "usage": dict, "error": dict}
USAGE = ("input", "output", "cached")


class Unreadable(Exception):
    """Why a reply cannot be read, and what is allowed."""


class Reply(typing.NamedTuple):
    text: str = ""
    # Names and arguments, both texts.
    calls: tuple = ()
    # Empty for the usual end.
    finish: str = ""
    # Input with cached, output, cached; empty for the estimate.
    usage: tuple = ()
    # Status and message of an error; empty for a reply.
    error: tuple = ()


def read_text(text, tools):
    """Reads N.reply.md. Only tools that are offered can be called: another name is a slip of the writer."""
    lines, headers, texts, calls = text.replace("\r\n", "\n").split("\n"), {}, [[]], []
    while re.match(r"finish:\s*\S*\s*$|usage:", lines[0] if lines else ""):
        name, _, value = lines.pop(0).partition(":")
        headers[name] = value.strip()
    while lines:
        line = lines.pop(0)
        fence = re.match(r"(```+)\s*call\b(.*)", line)
        if fence:
            calls.append(read_call(fence[1], fence[2].strip(), lines, tools))
            texts.append([])
        else:
            texts[-1].append(line)
    texts = ["\n".join(lines).strip() for lines in texts]
    text = "\n\n".join(text for text in texts if text)
    if not text and not calls and "finish" not in headers:
        raise Unreadable("it is empty; an empty reply is a line `finish: stop`")
    usage = headers.get("usage")
    if usage is not None and not re.fullmatch(r"\d+\s+\d+(\s+\d+)?", usage, re.ASCII):
        raise Unreadable("a header `usage:` has two or three numbers: INPUT OUTPUT [CACHED]")
    return checked(text, calls, headers.get("finish"), usage and [int(number) for number in usage.split()])


def read_call(fence, name, lines, tools):
    """Takes the lines of a call, its end included."""
    if name not in tools:
        raise Unreadable(f"a block calls {name!r}, which is no tool here; tools: {', '.join(tools) or 'none'}")
    block = []
    while lines and not re.match(fence + r"`*\s*$", lines[0]):
        block.append(lines.pop(0))
    if not lines:
        raise Unreadable(f"the block that calls {name} has no end; it ends with a line {fence}")
    lines.pop(0)
    try:
        # Line breaks inside of texts are easier to write as they are.
        arguments = json.loads("\n".join(block).strip() or "{}", strict=False)
    except ValueError as error:
        raise Unreadable(f"the arguments of {name} are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise Unreadable(f"the arguments of {name} are JSON, but no object")
    return name, to_json(arguments)


def read_json(text):
    """Reads N.reply.json."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"it is not JSON: {error}") from error
    if not isinstance(given, dict) or not given or not set(given) <= set(FIELDS):
        raise Unreadable(f"it is not a JSON object with some of the fields {', '.join(FIELDS)}")
    for name, value in given.items():
        if not isinstance(value, FIELDS[name]):
            raise Unreadable(f"{name} is not a {FIELDS[name].__name__}")
    if "error" in given:
        status, message = given["error"].get("status"), given["error"].get("message")
        if len(given) > 1 or type(status) is not int or not 400 <= status <= 599 or not isinstance(message, str):
            raise Unreadable("an error stands alone, and has a status from 400 to 599 and a message")
        return Reply(error=(status, message))
    calls = []
    for call in given.get("calls", []):
        arguments = call.get("arguments", {}) if isinstance(call, dict) else None
        if not isinstance(arguments, (dict, str)) or not isinstance(call.get("name"), str):
            raise Unreadable("a call is an object with a name, and with arguments: an object or a text")
        calls.append((call["name"], arguments if isinstance(arguments, str) else to_json(arguments)))
    usage = given.get("usage")
    if usage is not None:
        numbers = [usage.get(name, 0) for name in USAGE]
        if set(usage) - set(USAGE) or any(type(number) is not int or number < 0 for number in numbers):
            raise Unreadable(f"usage has whole numbers of tokens: {', '.join(USAGE)}")
        usage = numbers
    return checked(given.get("text", ""), calls, given.get("finish"), usage)


def checked(text, calls, finish, usage):
    if finish is not None and finish not in FINISH:
        raise Unreadable(f"finish is {finish!r}; allowed: {', '.join(FINISH)}")
    if finish == "calls" and not calls:
        raise Unreadable("finish is calls, and there is no call")
    given, output, cached = (*usage, 0)[:3] if usage else (0, 0, 0)
    if cached > given:
        raise Unreadable("more tokens are cached than there are; INPUT includes CACHED")
    return Reply(text, tuple(calls), finish or "", (given, output, cached) if usage else ())
