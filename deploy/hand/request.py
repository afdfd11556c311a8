"""A request: which earlier one it continues, what of it is cached, and how it is shown."""

import hashlib

from parts import to_json, tokens_of

FORM = "Write the reply to {number}.reply.md: text{calls}.{block}"
CALLS, BLOCK = ", and a block like this for each call", "\n\n```call NAME\n{JSON arguments}\n```"


class Request:
    def __init__(self, number, protocol, body):
        self.number, self.protocol, self.body = number, protocol, body
        self.tools, self.messages = protocol.tools(body), list(protocol.messages(body))
        self.is_streamed = body.get("stream") is True
        # Where a message stands: the request in whose file, and its number there. Tools have no numbers.
        self.places = [(number, at) for at in range(1, len(self.messages) + 1)]
        self.tool_places = {tool.key: number for tool in self.tools}
        # The request that this one continues, and its messages that are here too: positions here and there.
        self.before, self.common = None, []
        self.tokens = self.cached = self.written = 0

    def follow(self, earlier):
        """Finds the request that this one continues: the newest of those with the most messages in common."""
        talk = [at for at, message in enumerate(self.messages) if message.title != "system"]
        most = 1
        for other in earlier:
            common = common_parts(self.messages, other.messages) if other.protocol is self.protocol else []
            told = [pair for pair in common if self.messages[pair[0]].title != "system"]
            # The first message is the same, or at least half are, as after a compaction. Instructions do not count.
            is_one = told[:1] == [(at, at) for at in talk[:1]] or 2 * len(told) >= len(talk)
            if is_one and len(told) >= most:
                self.before, self.common, most = other, common, len(told)
        for here, there in self.common:
            # Long conversations are in memory once.
            self.messages[here], self.places[here] = self.before.messages[there], self.before.places[there]
        if self.before:
            places = self.before.tool_places
            self.tool_places = {key: places.get(key, place) for key, place in self.tool_places.items()}

    def count(self, cache):
        """Counts tokens. The cache has a digest of each beginning that an earlier request left there."""
        digest = hashlib.sha256(to_json([self.protocol.name, self.body.get("model")]).encode())
        cached, end, new = 0, 0, []
        for part in self.tools + self.messages:
            digest.update(part.key.encode(errors="replace"))
            self.tokens += tokens_of(part.title, part.text)
            if digest.digest() in cache:
                cached = self.tokens
            if part.is_breakpoint:
                new.append(digest.digest())
                self.cached, end = cached, self.tokens
        self.written = end - self.cached
        cache.update(new)

    def usage(self, reply):
        """Tokens: neither cached nor written to the cache, cached, written, and of the reply."""
        if reply.usage:
            given, output, cached = reply.usage
            return given - cached, cached, 0, output
        output = tokens_of(reply.text, *(text for call in reply.calls for text in call))
        return self.tokens - self.cached - self.written, self.cached, self.written, output

    def readable(self):
        about = f"{self.protocol.name}, {'streamed' if self.is_streamed else 'whole'}, about {self.tokens} tokens"
        lines = [f"# Request {self.number}: {about}, {self.cached} of them cached", ""]
        calls, block = (CALLS, BLOCK) if self.tools else ("", "")
        lines += [FORM.format(number=self.number, calls=calls, block=block), ""]
        if self.before:
            lines += self.new_parts()
        else:
            lines += shown("Messages", numbered(self.messages)) + shown("Tools", named(self.tools))
        options = {name: value for name, value in self.body.items() if name not in ("system", "messages", "tools")}
        lines += ["## Options", "", *(f"- {name}: {to_json(value)}" for name, value in options.items()), ""]
        return "\n".join(lines)

    def new_parts(self):
        before, old = self.before, {tool.title for tool in self.tools}
        here, there = ({pair[side] for pair in self.common} for side in (0, 1))
        new = [part for at, part in enumerate(numbered(self.messages)) if at not in here]
        gone = [part for at, part in enumerate(numbered(before.messages)) if at not in there]
        gone += named(tool for tool in before.tools if tool.title not in old)
        tools = [tool for tool in self.tools if self.tool_places[tool.key] == self.number]
        verb = "continues" if new or gone or tools else "is the same as"
        lines = [f"It {verb} request {before.number}.", ""]
        if gone:
            lines += [f"## Gone since request {before.number}: {len(gone)}", ""]
            lines += [*(f"- {title}: {' '.join(text.split())[:80]}" for title, text in gone), ""]
        lines += shown("New messages", new) if new else []
        lines += shown("New tools", named(tools)) if tools else []
        return [*lines, "## Where the rest is", "", *self.rest(), f"- all of it: {self.number}.request.json", ""]

    def rest(self):
        """The files of the messages and the tools that are not new."""
        ranges = []
        for at, (place, there) in enumerate(self.places, 1):
            if ranges and ranges[-1][0] == place and ranges[-1][2:] == (at - 1, there - 1):
                ranges[-1] = (place, ranges[-1][1], at, there)
            elif place != self.number:
                ranges.append((place, at, at, there))
        for place, first, last, there in ranges:
            numbers = "" if last == there else f", where they are {there - last + first} to {there}"
            yield f"- messages {first} to {last}: {place}.request.md{numbers}"
        for place in sorted({*self.tool_places.values()} - {self.number}):
            names = ", ".join(tool.title for tool in self.tools if self.tool_places[tool.key] == place)
            yield f"- tools {names}: {place}.request.md"


def common_parts(parts, others):
    """The positions of the parts that both lists have, in the same order."""
    positions, common, last = {}, [], -1
    for at, part in enumerate(others):
        positions.setdefault(part.key, []).append(at)
    for at, part in enumerate(parts):
        there = next((there for there in positions.get(part.key, []) if there > last), None)
        if there is not None:
            common.append((at, there))
            last = there
    return common


def numbered(messages):
    return [(f"{at}. {message.title}", message.text) for at, message in enumerate(messages, 1)]


def named(tools):
    return [(f"tool {tool.title}", tool.text) for tool in tools]


def shown(heading, parts):
    lines = [f"## {heading}: {len(parts) or 'none'}", ""]
    for title, text in parts:
        lines += [f"===== {title} =====", text, ""]
    return lines
