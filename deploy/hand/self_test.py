"""Tries the server as a client and a writer do: deploy/model-by-hand --self-test."""

import contextlib
import http.client
import io
import json
import os
import pathlib
import tempfile
import threading
import time

import server as server_module
from play import Inbox, Play
from protocols import PROTOCOLS
from request import Request, common_parts
from server import Server

CALL = "I look.\n\n```call read_file\n{\"path\": \"docs/one.md\",\n \"why\": \"two\nlines\"}\n```\nThen I say  more.\n"
TEXT, ARGUMENTS = "I look.\n\nThen I say  more.", {"path": "docs/one.md", "why": "two\nlines"}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "description": "Which."}}, "required": ["path"]}
PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


def body_of(protocol, stream, *more, question="What is a lease?"):
    """A request with one tool, whose last message is marked for the cache where the protocol has marks."""
    mark = {"cache_control": {"type": "ephemeral"}} if protocol == "anthropic" else {}
    user = {"role": "user", "content": [{"type": "text", "text": question, **mark}]}
    body = {"model": "hand", "stream": stream, "max_tokens": 9, "messages": [user, *more]}
    if protocol == "anthropic":
        tool = {"name": "read_file", "description": "Reads.", "input_schema": SCHEMA}
        return {**body, "tools": [tool], "system": [{"type": "text", "text": "Be brief."}]}
    function = {"name": "read_file", "description": "Reads.", "parameters": SCHEMA}
    body["messages"].insert(0, {"role": "system", "content": "Be brief."})
    return {**body, "tools": [{"type": "function", "function": function}], "stream_options": {"include_usage": True}}


class Site:
    """A server with its folder."""

    def __init__(self, folder, **options):
        self.folder, self.play = folder, Play(folder, options.pop("replay", None), options.pop("once", 0))
        self.server = Server(0, self.play, options.pop("timeout", 5), options.pop("ping", 0))
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def write(self, name, text):
        """Puts a whole file there, old enough to be read at once."""
        draft = self.folder / ("." + name)
        draft.write_text(text)
        os.utime(draft, (time.time() - 9, time.time() - 9))
        draft.replace(self.folder / name)

    def file(self, name):
        """The text of a file, once it is there."""
        for _ in range(400):
            with contextlib.suppress(FileNotFoundError):
                return (self.folder / name).read_text()
            time.sleep(0.005)
        raise AssertionError(f"{name} does not appear")

    def ask(self, path, body=None):
        """The status and the text of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=5)
        method, data = ("GET", None) if body is None else ("POST", json.dumps(body))
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def read(protocol, text, stream):
    """What a client gets: text, calls, the reason of the end and the usage."""
    if not stream:
        answer = json.loads(text)
        if protocol == "openai":
            choice = answer["choices"][0]
            calls = [call["function"] for call in choice["message"].get("tool_calls", [])]
            calls = [(call["name"], json.loads(call["arguments"])) for call in calls]
            return choice["message"]["content"], calls, choice["finish_reason"], answer["usage"]
        texts = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
        calls = [(block["name"], block["input"]) for block in answer["content"] if block["type"] == "tool_use"]
        return texts, calls, answer["stop_reason"], answer["usage"]
    lines = [line[len("data: ") :] for line in text.split("\n") if line.startswith("data: ")]
    events, words, name, arguments, finish, usage = [], "", None, "", None, {}
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    assert len(events) > 4, "the stream is not in pieces"
    for event in events:
        choice = (event.get("choices") or [{}])[0]
        delta = choice.get("delta") or event.get("delta") or {}
        words += delta.get("content") or delta.get("text") or ""
        for function in [call["function"] for call in delta.get("tool_calls", [])]:
            name, arguments = function.get("name", name), arguments + function["arguments"]
        name = event.get("content_block", {}).get("name", name)
        arguments += delta.get("partial_json", "")
        finish = choice.get("finish_reason") or delta.get("stop_reason") or finish
        usage.update((event.get("message") or {}).get("usage") or {})
        usage.update(event.get("usage") or {})
    return words, [(name, json.loads(arguments))] if name else [], finish, usage


def both_protocols(folder):
    for protocol, path in PATHS.items():
        for stream in (False, True):
            site = Site(folder / f"{protocol}-{stream}")
            site.write("1.reply.md", CALL)
            status, text = site.ask(path, body_of(protocol, stream))
            words, calls, finish, usage = read(protocol, text, stream)
            assert (status, words, calls) == (200, TEXT, [("read_file", ARGUMENTS)]), text
            assert finish == ("tool_calls" if protocol == "openai" else "tool_use"), finish
            first = site.file("1.request.md")
            for part in ["Be brief.", "What is a lease?", "tool read_file", "- path: string, required: Which."]:
                assert part in first, first
            follow_up(site, protocol, path, stream, usage)
            site.write("3.reply.json", '{"error": {"status": 529, "message": "overloaded"}}')
            status, text = site.ask(path, body_of(protocol, stream))
            assert status == 529 and "overloaded_error" in text, text


def follow_up(site, protocol, path, stream, before):
    """The next request continues the first, whose tokens are cached; another one does not."""
    usage = {"input": 90, "output": 7, "cached": 80}
    reply = {"text": "  A right.\n\n For a time. ", "finish": "length", "usage": usage}
    site.write("2.reply.json", json.dumps(reply))
    said = {"role": "assistant", "content": "A right."}
    _, text = site.ask(path, body_of(protocol, stream, said, {"role": "user", "content": "Whose?"}))
    words, calls, finish, usage = read(protocol, text, stream)
    assert (words, calls) == (reply["text"], []), text
    if protocol == "openai":
        seen = usage["prompt_tokens"], usage["completion_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
        assert (finish, *seen) == ("length", 90, 7, 80), text
    else:
        seen = usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]
        assert (finish, *seen) == ("max_tokens", 10, 7, 80), text
    shown = site.file("2.request.md")
    new, rest = shown.split("## Where the rest is")
    assert "continues request 1" in new and "Whose?" in new and "What is a lease?" not in new, shown
    assert "===== tool" not in new, shown
    assert "- messages 1 to 2: 1.request.md\n- tools read_file: 1.request.md" in rest, shown
    reported = before.get("prompt_tokens") or before["cache_creation_input_tokens"] + before["input_tokens"]
    request, long = site.play.requests[1], "Why? " * 20
    other = Request(0, PROTOCOLS[path[len("/v1") :]], body_of(protocol, stream, question=long))
    other.count(site.play.cache)
    assert 0 < request.cached == reported < request.tokens and other.cached < reported, (request.cached, before)


def broken_replies(folder):
    site = Site(folder / "broken", ping=0.01)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(site.ask(PATHS["openai"], body_of("openai", True))))
    thread.start()
    site.file("1.request.md")
    problems = {
        "```call read_file\n{\"path\"\n```\n": "not JSON",
        "```call raed_file\n```\n": "no tool here",
        "```call read_file\n{}\n": "has no end",
        "\n": "it is empty",
        "usage: 1\nHi": "two or three",
        "finish: now\nHi": "allowed: stop",
    }
    for text, problem in problems.items():
        site.write("1.reply.md", text)
        while problem not in site.file("1.problem.txt"):
            time.sleep(0.005)
    site.write("1.reply.json", '{"error": {"status": 429, "message": "slowly"}}')
    thread.join()
    assert not (site.folder / "1.problem.txt").exists()
    # The status was sent with the first ping.
    status, text = answers[0]
    assert status == 200 and text.startswith(": ping\n\n"), text
    assert '\n\ndata: {"error": {' in text and '"rate_limit_error"' in text, text


def compaction(folder):
    """A request whose first messages gave way to one shows what is gone, and where the others stand."""
    protocol = PROTOCOLS["/messages"]
    said = [{"role": ("user", "assistant")[at % 2], "content": f"Message {at}."} for at in range(7)]
    before = Request(1, protocol, {"messages": said[:6]})
    after = Request(2, protocol, {"messages": [{"role": "user", "content": "In short."}, *said[3:]]})
    after.follow([before])
    new, rest = after.readable().split("## Where the rest is")
    assert "## Gone since request 1: 3\n\n- 1. user: Message 0.\n- 2." in new, new
    assert "===== 1. user =====\nIn short.\n\n===== 5. user =====\nMessage 6.\n" in new, new
    assert "\n- messages 2 to 4: 1.request.md, where they are 4 to 6\n" in rest, rest
    other = Request(3, protocol, {"messages": [*[{"role": "user", "content": "Else."}] * 3, said[4]]})
    other.follow([after])
    assert other.before is None and "## Messages: 4" in other.readable()
    assert common_parts(after.messages[:2], after.messages[1::-1]) == [(0, 1)]


def waits(folder):
    """A client that leaves, a file that grows, the time that is up, and two requests at a time."""
    site = Site(folder / "leaves")
    connection = http.client.HTTPConnection("127.0.0.1", site.server.server_port)
    connection.request("POST", PATHS["anthropic"], json.dumps(body_of("anthropic", False)))
    site.file("1.request.md")
    connection.close()
    assert "left" in site.file("1.gone")
    site, answers, threads = Site(folder / "waits", timeout=0.7, once=3), {}, []

    def ask(name):
        message = {"role": "user", "content": name}
        answers[name] = site.ask(PATHS["openai"], {"model": "hand", "messages": [message]})

    for number, name in enumerate(["one", "two", "three"], 1):
        threads.append(threading.Thread(target=ask, args=(name,)))
        threads[-1].start()
        site.file(f"{number}.request.md")
    (site.folder / "2.reply.md").write_text("The beg")
    time.sleep(0.1)
    with open(site.folder / "2.reply.md", "a") as file:
        file.write("inning.")
    site.write("1.reply.md", "The first.")
    for thread in threads:
        thread.join()
    assert "The first." in answers["one"][1] and "The beginning." in answers["two"][1], answers
    assert answers["three"][0] == 504 and "no reply" in site.file("3.gone"), answers
    assert site.play.is_over.wait(1), "it does not end after three requests"
    # The time of this file is of another clock.
    inbox, future = Inbox(site.play, site.play.requests[0]), time.time() + 99
    assert not inbox.is_whole("one", future)
    inbox.since -= 1
    assert inbox.is_whole("one", future) and not inbox.is_whole("two", future)


def rest(folder):
    """Recorded replies, the list of models, the count of tokens, and requests that cannot be read."""
    site = Site(folder / "rest", replay=folder / "openai-False")
    for number in (1, 2, 3):
        status, text = site.ask(PATHS["openai"], body_of("openai", False))
        assert status == (200, 200, 529)[number - 1], text
        assert (site.file(f"{number}.reply.md") == CALL) if number == 1 else True
    assert json.loads(site.ask("/v1/models")[1])["data"][0]["id"] == "hand"
    status, text = site.ask("/v1/messages/count_tokens?beta=true", body_of("anthropic", False))
    assert status == 200 and json.loads(text)["input_tokens"] > 10, text
    site.write("4.reply.md", "finish: refusal\nNo.")
    status, text = site.ask("/chat/completions", body_of("openai", False))
    assert status == 200 and read("openai", text, False)[2] == "content_filter", text
    assert site.ask("/v1/elsewhere", {})[0] == 404 and site.ask(PATHS["openai"], {"messages": 3})[0] == 400


def main():
    server_module.POLL = 0.005
    began, log = time.monotonic(), io.StringIO()
    with tempfile.TemporaryDirectory() as name:
        for test in (both_protocols, broken_replies, compaction, waits, rest):
            try:
                with contextlib.redirect_stdout(log):
                    test(pathlib.Path(name))
            except Exception:
                print(log.getvalue())
                raise
            print(f"ok: {test.__name__.replace('_', ' ')}")
    print(f"all hold, in {time.monotonic() - began:.1f} s")
    return 0
