"""A server by the official Python SDK, which speaks 2026-07-28: over stdio, or HTTP on the port given."""
import sys

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("sdk")


@server.tool()
def echo(message: str) -> str:
    """Returns the message."""
    return message


@server.tool()
async def meta(ctx: Context) -> str:
    """Returns the metadata of the request."""
    return repr(ctx.request_context.meta)


@server.tool()
async def deploy(ctx: Context, env: str) -> str | types.InputRequiredResult:
    """Deploys once a person has answered."""
    answers = ctx.input_responses
    if answers:
        return f"deployed {env}: {answers!r}, state {ctx.request_state!r}"
    form = types.ElicitRequestFormParams(
        message=f"Deploy to {env}?",
        requested_schema={
            "type": "object",
            "properties": {"confirm": {"type": "boolean"}},
            "required": ["confirm"],
        },
    )
    request = types.ElicitRequest(params=form)
    return types.InputRequiredResult(input_requests={"confirm": request}, request_state="state-1")


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")
