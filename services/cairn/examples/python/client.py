"""A connection to Cairn that outlives its server.

Each call carries the server's token. Two rules make a client that does not notice when the server is
killed and started again:

* Every call that changes something carries a `request_id`, made once. Whoever gets no answer
  repeats the call with the same id, and gets the answer to the first.
* Every watch knows the number of the last event that it has seen, and goes on after it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any, Callable, TypeVar

import grpc
from cairn.event.v1 import event_pb2
from cairn.memory.v1 import session_memory_pb2_grpc
from cairn.orchestrator.v1 import orchestrator_pb2 as pb
from cairn.orchestrator.v1 import orchestrator_pb2_grpc

from errors import CairnError
from tokens import find_token

Response = TypeVar("Response")

# How long one attempt at a call may take. Short, because an attempt costs nothing to repeat.
DEADLINE = 5.0
# How long one watch may last before it is opened again. It catches what pings do not: a server
# that is there and says nothing.
WATCH_DEADLINE = 30.0

_CHANNEL_OPTIONS = [
    # The tree of a run of thousands of steps is larger than the 4 MiB that gRPC takes by default.
    ("grpc.max_receive_message_length", 64 << 20),
    # A peer that vanished without a word (power, network) is noticed by pings, also while a watch
    # has nothing to say.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # The channel's own pause between attempts to connect grows to two minutes if nobody says no.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]


class Patience:
    """Waits between attempts, longer each time, and has an end."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        """There was progress: begin anew."""
        self._end = time.monotonic() + self._seconds
        self._pause = 0.05

    def left(self) -> float:
        """Seconds until it ends."""
        return max(self._end - time.monotonic(), 0.0)

    def wait(self, error: CairnError | None) -> None:
        """Waits as the server told, else as long as it takes; raises what keeps failing."""
        told = error.retry_after if error else None
        # The chance in it keeps a thousand clients from coming back in the same instant.
        pause = told if told is not None else self._pause * random.uniform(0.5, 1.0)
        if pause >= self.left():
            raise error or TimeoutError(f"nothing came for {self._seconds:g} s")
        time.sleep(pause)
        self._pause = min(self._pause * 2, 1.0)


class Client:
    """The public services at one address."""

    def __init__(self, address: str, patience: float) -> None:
        # `cairn serve` prints its address as a URL; a channel wants host and port.
        target = address.removeprefix("http://").rstrip("/")
        self._target = target
        self._channel = grpc.insecure_channel(target, options=_CHANNEL_OPTIONS)
        self._patience = patience
        self.orchestrator = orchestrator_pb2_grpc.OrchestratorServiceStub(self._channel)
        self.memory = session_memory_pb2_grpc.SessionMemoryServiceStub(self._channel)
        self.repeats = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def patience(self) -> Patience:
        """A fresh portion of it."""
        return Patience(self._patience)

    def metadata(self) -> list[tuple[str, str]]:
        """What each call carries. A server that starts later than this program makes its token then."""
        token = find_token(self._target)
        return [("authorization", f"Bearer {token}")] if token else []

    def has_new_token(self, error: CairnError, sent: list[tuple[str, str]]) -> bool:
        """Whether a call was refused for want of a token that is there by now."""
        return error.code is grpc.StatusCode.UNAUTHENTICATED and self.metadata() != sent

    def call(self, method: Callable[..., Response], request: Any) -> Response:
        """The answer to a request, repeated until there is one or patience ends.

        Only for requests that may be repeated. That is all of Cairn's: reads change nothing, and
        what changes something has a `request_id` or is the same the second time.
        """
        patience = self.patience()
        while True:
            try:
                # wait_for_ready: with no server there, wait for one instead of failing at once.
                deadline = min(DEADLINE, patience.left())
                sent = self.metadata()
                return method(request, timeout=deadline, wait_for_ready=True, metadata=sent)
            except grpc.RpcError as rpc_error:
                error = CairnError(rpc_error)
            if not error.may_be_repeated and not self.has_new_token(error, sent):
                raise error
            patience.wait(error)
            self.repeats += 1


class Watch:
    """The events of a session from a cursor on: none missed, none twice, whatever breaks."""

    def __init__(self, client: Client, session: str, after: int = 0, cut_every: int = 0) -> None:
        """With `cut_every`, cuts its own line each time that many events have come."""
        self._client = client
        self._session = session
        self._cut_every = cut_every
        self.cursor = after
        self.cuts = 0
        self.losses = 0

    def events(self) -> Iterator[tuple[int, event_pb2.Event]]:
        """Numbers and events, without end: the reader says when it has seen enough."""
        patience = self._client.patience()
        while True:
            error = None
            sent = self._client.metadata()
            try:
                for event in self._one_stream(min(WATCH_DEADLINE, patience.left()), sent):
                    patience.renew()
                    yield event
                # Ended without an error: cut by us, or the server stops, or the session is gone.
                # Asking again tells which.
            except grpc.RpcError as rpc_error:
                error = CairnError(rpc_error)
                if not error.may_be_repeated and not self._client.has_new_token(error, sent):
                    raise error from None
                self.losses += 1
            patience.wait(error)

    def _one_stream(
        self, deadline: float, metadata: list[tuple[str, str]]
    ) -> Iterator[tuple[int, event_pb2.Event]]:
        request = pb.WatchSessionRequest(session=self._session, after_seq=self.cursor)
        stream = self._client.orchestrator.WatchSession(
            request, timeout=deadline, wait_for_ready=True, metadata=metadata
        )
        came = 0
        try:
            for message in stream:
                if not message.HasField("event"):
                    continue  # Only says that the stream has caught up with the journal.
                if message.seq != self.cursor + 1:
                    raise RuntimeError(f"event {message.seq} came after {self.cursor}")
                # The cursor moves before the event is handed out. A program that keeps results
                # stores the cursor together with them, in one transaction of its own.
                self.cursor = message.seq
                yield message.seq, message.event
                came += 1
                if came == self._cut_every:
                    self.cuts += 1
                    return
        finally:
            stream.cancel()
