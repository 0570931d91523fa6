"""The SDK's server over stdio, with a tool `grow(name)` that adds another tool and announces it."""

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("growing", version="1")


def answer() -> str:
    return "grown"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    server.add_tool(answer, name=name)
    await ctx.notify_tools_changed()
    return name


if __name__ == "__main__":
    server.run()
