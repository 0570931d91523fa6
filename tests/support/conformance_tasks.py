"""An MCP server with everything that the official conformance suite asks of the tasks extension, written with FastMCP.

    python tests/support/conformance_tasks.py PORT

On http://127.0.0.1:PORT/mcp. It needs `fastmcp[tasks]` 4.1, which stands in no extra of the project: `uv run --with`
brings it. What the tools are called, and what they do, is the suite's.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension  # type: ignore[import-not-found]  # no package of the project: see above
from fastmcp_tasks.creation import create_task  # type: ignore[import-not-found]  # as above
from mcp.shared.exceptions import MCPError

OPTIONAL, REQUIRED = TaskConfig(mode="optional"), TaskConfig(mode="required")
INTERNAL_ERROR = -32603
Questions = types.InputRequests


def question(message: str, **properties: str) -> types.ElicitRequest:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return types.ElicitRequest(method="elicitation/create", params=params)


def answered(ctx: Context, key: str, member: str) -> Any:
    """Member of the answer that the client gave to a question; None where it gave none."""
    response = (ctx.input_responses or {}).get(key)
    content = getattr(response, "content", None)
    if isinstance(content, dict):
        return content.get(member, next(iter(content.values()), None))
    return None


class Tasks(TasksExtension):  # type: ignore[misc]  # its library is not there where types are checked
    """FastMCP creates a task before it asks; of one tool the suite wants to be asked before there is a task."""

    async def intercept_tool_call(self, params: Any, context: Context, call_next: Any) -> Any:
        if params.name == "test_tool_with_task":
            name = answered(context, "name", "name")
            if name is not None:
                helper = await context.fastmcp.get_tool("greet_slowly")
                assert helper is not None
                return await create_task(helper, {"name": str(name)}, context)
        return await super().intercept_tool_call(params, context, call_next)


server = FastMCP("tasks-subject", instructions="Tools that go on by themselves.")
server.add_extension(Tasks())


@server.tool(description="Greets, at once.")
async def greet(name: str = "you") -> str:
    return f"Hello, {name}!"


@server.tool(description="Computes for as long as it is told to.", task=OPTIONAL)
async def slow_compute(seconds: float = 1, label: str = "") -> str:
    await asyncio.sleep(seconds)
    return f"computed {label} in {seconds:g} s"


@server.tool(description="Fails after a second.", task=REQUIRED)
async def failing_job() -> str:
    await asyncio.sleep(1)
    raise ToolError("the job failed")


@server.tool(description="Ends with an error of the protocol.", task=OPTIONAL)
async def protocol_error_job() -> str:
    await asyncio.sleep(0.2)
    raise MCPError(code=INTERNAL_ERROR, message="the job broke the protocol")


@server.tool(description="Deletes nothing, once that is confirmed.", task=OPTIONAL)
async def confirm_delete(ctx: Context, filename: str = "file") -> Any:
    confirmed = answered(ctx, "confirm", "confirm")
    if confirmed is None:
        questions: Questions = {"confirm": question(f"Delete {filename}?", confirm="boolean")}
        return types.InputRequiredResult(input_requests=questions)
    return f"{filename} was deleted" if confirmed else f"{filename} stays"


@server.tool(description="Asks two questions at once.", task=OPTIONAL)
async def multi_input(ctx: Context) -> Any:
    name, color = answered(ctx, "name", "name"), answered(ctx, "color", "color")
    if name is None or color is None:
        questions: Questions = {
            "name": question("Your name?", name="string"),
            "color": question("Your color?", color="string"),
        }
        return types.InputRequiredResult(input_requests=questions)
    return f"{name} likes {color}"


@server.tool(description="Asks a name, then goes on by itself.")
async def test_tool_with_task() -> Any:
    return types.InputRequiredResult(input_requests={"name": question("Your name?", name="string")})


@server.tool(description="Greets, after a moment.", task=OPTIONAL)
async def greet_slowly(name: str = "you") -> str:
    await asyncio.sleep(0.5)
    return f"Hello, {name}!"


if __name__ == "__main__":
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
