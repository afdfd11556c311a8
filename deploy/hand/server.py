"""The server: reads requests, waits for their replies, and sends them."""

import http.server
import json
import select
import socket
import time
import urllib.parse

from parts import to_json
from play import Inbox
from protocols import PROTOCOLS, sse
from reply import Reply
from request import Request

# Seconds between two looks for a reply.
POLL = 0.05
COUNT = "/count_tokens"
MODEL = {"id": "hand", "object": "model", "type": "model", "display_name": "hand", "owned_by": "hand", "created": 0,
         "created_at": "1970-01-01T00:00:00Z"}  # fmt: skip


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port, play, timeout, ping):
        self.play, self.timeout_of_reply, self.ping = play, timeout, ping
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """A client that breaks off is no error of the server."""
        self.play.log("a connection broke")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        """The log has events, not lines of HTTP."""

    def route(self):
        path = urllib.parse.urlsplit(self.path).path.rstrip("/")
        return path[len("/v1") :] if path.startswith("/v1/") else path

    def do_GET(self):
        if self.route() == "/models":
            return self.send_json(200, {"object": "list", "data": [MODEL], "has_more": False})
        return self.refuse_address()

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            return self.send_json(411, {"error": {"message": "a request needs a Content-Length"}})
        data, route = self.rfile.read(int(length)), self.route()
        is_count = route.endswith(COUNT)
        protocol = PROTOCOLS.get(route[: -len(COUNT)] if is_count else route)
        if not protocol:
            return self.refuse_address()
        try:
            body = json.loads(data)
            if is_count:
                request = Request(0, protocol, body)
                request.count(set())
                return self.send_json(200, {"input_tokens": request.tokens})
            request = self.server.play.add(protocol, body)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"the request cannot be read: {error!r}"
            self.server.play.log(problem)
            return self.send_json(400, protocol.fault(400, problem))
        return self.answer(request)

    def refuse_address(self):
        self.close_connection = True
        problem = f"{self.path} is not served; addresses: /v1/models, /v1/chat/completions, /v1/messages"
        self.server.play.log(problem)
        self.send_json(404, {"error": {"message": problem, "type": "not_found_error"}})

    def answer(self, request):
        play, self.is_begun = self.server.play, False
        try:
            reply = self.wait(request)
            if reply:
                self.send_reply(request, reply)
        except OSError:
            return play.end(request, "the client left", is_gone=True)
        if not reply:
            self.close_connection = True
            return play.end(request, "not answered, because the server ends")
        if reply.error:
            return play.end(request, f"answered with status {reply.error[0]}: {reply.error[1]}")
        calls = ", ".join(name for name, _ in reply.calls)
        return play.end(request, f"answered with {len(reply.text)} characters, calls: {calls or 'none'}")

    def wait(self, request):
        """The reply; none if the server ends.

        Raises ConnectionError if the client leaves.
        """
        inbox, ping, play = Inbox(self.server.play, request), self.server.ping, self.server.play
        begun = pinged = time.monotonic()
        while time.monotonic() < begun + self.server.timeout_of_reply:
            reply = inbox.take()
            if reply:
                return reply
            if play.is_over.wait(POLL):
                return None
            if self.has_left():
                raise ConnectionError
            if request.is_streamed and ping and time.monotonic() >= pinged + ping:
                self.begin_stream()
                self.wfile.write(request.protocol.ping)
                pinged = time.monotonic()
        late = f"no reply within {self.server.timeout_of_reply:g} s"
        play.write(request, "gone", late + "\n")
        return Reply(error=(504, late))

    def has_left(self):
        """Whether the client closed the connection. It says nothing before the reply comes."""
        is_readable = bool(select.select([self.connection], [], [], 0)[0])
        return is_readable and not self.connection.recv(1, socket.MSG_PEEK)

    def begin_stream(self):
        if not self.is_begun:
            self.is_begun = self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()

    def send_reply(self, request, reply):
        protocol = request.protocol
        if reply.error and not self.is_begun:
            self.send_json(reply.error[0], protocol.fault(*reply.error))
        elif reply.error:
            self.wfile.write(sse(protocol.fault(*reply.error)))
        elif request.is_streamed:
            self.begin_stream()
            for event in protocol.events(request, reply):
                self.wfile.write(sse(event))
        else:
            self.send_json(200, protocol.whole(request, reply))

    def send_json(self, status, value):
        data = to_json(value).encode(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
