"""A server by fastmcp, which speaks both protocols: over stdio, or HTTP on the port given."""
import asyncio
import sys

from fastmcp import Context, FastMCP

server = FastMCP("fast")


@server.tool(annotations={"readOnlyHint": True})
def echo(message: str) -> str:
    """Returns the message."""
    return message


@server.tool
async def slow(ctx: Context, steps: int = 3) -> str:
    """Reports progress."""
    for step in range(steps):
        await ctx.report_progress(step, steps)
        await asyncio.sleep(0.1)
    return "done"


@server.tool
async def ask(ctx: Context) -> str:
    """Asks in the middle of the call."""
    return repr(await ctx.elicit("Your name?", response_type=str))


if len(sys.argv) > 1:
    server.run(transport="http", port=int(sys.argv[1]))
else:
    server.run()
