"""What Cairn says when it says no, as one exception."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

# How a description is divided: "what is wrong; allowed: what is allowed".
_ALLOWED = "; allowed: "


@dataclass(frozen=True)
class Violation:
    """A field of the request, what is wrong with it, and what is allowed if that can be said."""

    field: str
    problem: str
    allowed: str


class CairnError(Exception):
    """A call that failed, with the details that came with the status.

    Programs decide by `code` and `reason`, which are stable. `message` and `violations` are for
    people.
    """

    def __init__(self, raised: grpc.RpcError) -> None:
        # What grpcio raises is the failed call itself.
        error = cast(grpc.Call, raised)
        self.code: grpc.StatusCode = error.code()
        self.message: str = error.details() or ""
        self.reason: str = ""
        self.violations: list[Violation] = []
        self.retry_after: float | None = None
        self._read_details(error)
        super().__init__(f"{self.code.name} {self.reason}: {self.message}")

    @property
    def may_be_repeated(self) -> bool:
        """Whether the same request may get its answer later.

        A server that is being restarted gives UNAVAILABLE, or nothing at all until the deadline.
        Both leave open whether the request was carried out. RetryInfo is the server's own word,
        whatever the code.
        """
        waits = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        return self.code in waits or self.retry_after is not None

    def _read_details(self, error: grpc.Call) -> None:
        # The details travel in the trailer grpc-status-details-bin. A status that was made on this
        # side of the wire has none.
        try:
            status = rpc_status.from_call(error)
        except ValueError:
            return  # A proxy in between has put in another status than the details tell of.
        for detail in status.details if status else ():
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                info = error_details_pb2.ErrorInfo()
                detail.Unpack(info)
                self.reason = info.reason
            elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
                bad = error_details_pb2.BadRequest()
                detail.Unpack(bad)
                self.violations = [_violation(one) for one in bad.field_violations]
            elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                retry = error_details_pb2.RetryInfo()
                detail.Unpack(retry)
                self.retry_after = retry.retry_delay.ToNanoseconds() / 1e9


def _violation(one: error_details_pb2.BadRequest.FieldViolation) -> Violation:
    problem, _, allowed = one.description.partition(_ALLOWED)
    return Violation(one.field, problem, allowed)
