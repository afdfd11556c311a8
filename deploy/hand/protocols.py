"""The two protocols: how a request is read, and how a reply and an error are written."""

import contextlib
import json
import re
import time

from parts import arguments_of, part_of, text_of, to_json, tool_of

# How a reply ends, by the names of OpenAI and Anthropic.
FINISH = {
    "stop": ("stop", "end_turn"),
    "calls": ("tool_calls", "tool_use"),
    "length": ("length", "max_tokens"),
    "refusal": ("content_filter", "refusal"),
}
ERRORS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
          413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error"}  # fmt: skip


class OpenAi:
    """Every message ends a beginning that can be cached."""

    name, path, column = "openai", "/chat/completions", 0
    ping = b": ping\n\n"

    def tools(self, body):
        tools = [(tool["function"], tool) for tool in body.get("tools") or []]
        return [tool_of(one["name"], one.get("description"), one.get("parameters"), tool, True) for one, tool in tools]

    def messages(self, body):
        names = {}
        for message in body["messages"]:
            rest, role = dict(message), message["role"]
            calls, text = rest.pop("tool_calls", None) or [], text_of(message.get("content"))
            if role == "tool":
                call = message["tool_call_id"]
                yield part_of(f"result of {names.get(call, 'an unknown call')} ({call})", text, rest, True)
            elif text or not calls:
                yield part_of(role, text, rest, True)
            for call in calls:
                name, arguments = call["function"]["name"], arguments_of(call["function"]["arguments"])
                names[call["id"]] = name
                yield part_of(f"{role} calls {name} ({call['id']})", arguments, call, True)

    def fault(self, status, message):
        return {"error": {"message": message, "type": ERRORS.get(status, "api_error"), "code": status}}

    def usage(self, request, reply):
        plain, cached, written, output = request.usage(reply)
        given = plain + cached + written
        return {"prompt_tokens": given, "completion_tokens": output, "total_tokens": given + output,
                "prompt_tokens_details": {"cached_tokens": cached}}  # fmt: skip

    def answer(self, request, kind, **fields):
        model = request.body.get("model")
        return {"id": f"hand-{request.number}", "object": kind, "created": int(time.time()), "model": model, **fields}

    def whole(self, request, reply):
        message = {"role": "assistant", "content": reply.text or None}
        for at, (name, arguments) in enumerate(reply.calls):
            function = {"name": name, "arguments": arguments}
            call = {"id": f"call_{request.number}_{at}", "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(call)
        choice = {"index": 0, "message": message, "finish_reason": finish_of(self, reply)}
        return self.answer(request, "chat.completion", choices=[choice], usage=self.usage(request, reply))

    def events(self, request, reply):
        def chunk(delta, finish=None):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return self.answer(request, "chat.completion.chunk", choices=[choice])

        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces(reply.text):
            yield chunk({"content": piece})
        for at, (name, arguments) in enumerate(reply.calls):
            call = {"id": f"call_{request.number}_{at}", "type": "function"}
            yield chunk({"tool_calls": [{"index": at, **call, "function": {"name": name, "arguments": ""}}]})
            for piece in pieces(arguments):
                yield chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
        yield chunk({}, finish_of(self, reply))
        if (request.body.get("stream_options") or {}).get("include_usage"):
            usage = self.usage(request, reply)
            yield self.answer(request, "chat.completion.chunk", choices=[], usage=usage)
        yield "[DONE]"


class Anthropic:
    """A beginning that ends at a cache breakpoint can be cached."""

    name, path, column = "anthropic", "/messages", 1
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'

    def tools(self, body):
        tools = body.get("tools") or []
        return [tool_of(tool["name"], tool.get("description"), tool.get("input_schema"), tool) for tool in tools]

    def messages(self, body):
        names, messages = {}, [(message["role"], message["content"]) for message in body["messages"]]
        for role, content in [("system", body.get("system") or []), *messages]:
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                kind = part["type"]
                title, text = role if kind == "text" else f"{role}: {kind}", text_of([part])
                if kind == "tool_use":
                    names[part["id"]] = part["name"]
                    title, text = f"{role} calls {part['name']} ({part['id']})", to_json(part["input"], 2)
                elif kind == "tool_result":
                    call, what = part["tool_use_id"], "error" if part.get("is_error") else "result"
                    title = f"{what} of {names.get(call, 'an unknown call')} ({call})"
                    text = text_of(part.get("content"))
                yield part_of(title, text, part)

    def fault(self, status, message):
        return {"type": "error", "error": {"type": ERRORS.get(status, "api_error"), "message": message}}

    def usage(self, request, reply):
        plain, cached, written, output = request.usage(reply)
        return {"input_tokens": plain, "cache_read_input_tokens": cached, "cache_creation_input_tokens": written,
                "output_tokens": output}  # fmt: skip

    def message(self, request, content, finish, usage):
        return {"id": f"msg_hand_{request.number}", "type": "message", "role": "assistant",
                "model": request.body.get("model"), "content": content, "stop_reason": finish, "stop_sequence": None,
                "usage": usage}  # fmt: skip

    def blocks(self, request, reply):
        """Each block with the text that a stream sends in pieces."""
        if reply.text:
            yield {"type": "text", "text": reply.text}, reply.text
        for at, (name, text) in enumerate(reply.calls):
            arguments = text
            with contextlib.suppress(ValueError):
                arguments = json.loads(text)
            yield {"type": "tool_use", "id": f"toolu_{request.number}_{at}", "name": name, "input": arguments}, text

    def whole(self, request, reply):
        content = [block for block, _ in self.blocks(request, reply)]
        return self.message(request, content, finish_of(self, reply), self.usage(request, reply))

    def events(self, request, reply):
        usage = self.usage(request, reply)
        begun = self.message(request, [], None, {**usage, "output_tokens": 1})
        yield {"type": "message_start", "message": begun}
        for index, (block, text) in enumerate(self.blocks(request, reply)):
            is_text = block["type"] == "text"
            kind, field = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
            empty = {**block, "text": ""} if is_text else {**block, "input": {}}
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            for piece in pieces(text):
                yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}}
            yield {"type": "content_block_stop", "index": index}
        end = {"stop_reason": finish_of(self, reply), "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": usage["output_tokens"]}}
        yield {"type": "message_stop"}


PROTOCOLS = {protocol.path: protocol for protocol in (OpenAi(), Anthropic())}


def finish_of(protocol, reply):
    return FINISH[reply.finish or ("calls" if reply.calls else "stop")][protocol.column]


def pieces(text):
    """A text in pieces of a few words, or of a few characters where it has no words."""
    return re.findall(r"\s*(?:\S{1,24}\s*){1,4}|\s+", text)


def sse(event):
    """An event of a stream. Those of Anthropic have a name, which is their type."""
    data = event if isinstance(event, str) else to_json(event)
    name = event.get("type") if isinstance(event, dict) else None
    return ((f"event: {name}\n" if name else "") + f"data: {data}\n\n").encode(errors="replace")
