"""A hook as a service: `cairn.hook.v1.HookHostService` in Python.

Cairn asks it before and after each call of a tool. It blocks commands that force-push, and takes e-mail addresses out of
results. In the settings of the server that asks it:

    [[hooks]]
    name = "office"
    points = ["PreToolCall", "PostToolCall"]
    url = "http://127.0.0.1:9099"

It is served with:

    services/cairn/examples/python/run hook-host 127.0.0.1:9099
"""

from __future__ import annotations

import re
import sys
from concurrent import futures

import grpc
from cairn.event.v1 import hook_pb2 as event
from cairn.hook.v1 import hook_pb2 as pb
from cairn.hook.v1 import hook_pb2_grpc

ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")


class Office(hook_pb2_grpc.HookHostServiceServicer):
    """Answers from the question alone, so a repetition with the same key gets the same answer."""

    def Ask(self, request: pb.AskRequest, context: grpc.ServicerContext) -> pb.AskResponse:
        print(f"{request.key[:12]}  {event.HookPoint.Name(request.point)}", flush=True)
        if request.point == event.HOOK_POINT_PRE_TOOL_CALL:
            return self._before(request.call)
        if request.point == event.HOOK_POINT_POST_TOOL_CALL:
            return self._after(request.result)
        return pb.AskResponse(proceed=pb.Proceed())

    def _before(self, call: pb.CallPayload) -> pb.AskResponse:
        command = call.arguments["command"] if "command" in call.arguments else ""
        if "push --force" in str(command):
            return pb.AskResponse(block=pb.Block(reason="no force pushes"))
        return pb.AskResponse(proceed=pb.Proceed())

    def _after(self, result: pb.ResultPayload) -> pb.AskResponse:
        output = ADDRESS.sub("[address]", result.output)
        if output == result.output:
            return pb.AskResponse(proceed=pb.Proceed())
        return pb.AskResponse(mutate=event.HookMutation(output=output))


def serve(address: str) -> None:
    """Serves until the process ends."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    hook_pb2_grpc.add_HookHostServiceServicer_to_server(Office(), server)
    if server.add_insecure_port(address) == 0:
        sys.exit(f"nothing can listen on {address}")
    server.start()
    print(f"hooks are served on {address}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    serve(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9099")
