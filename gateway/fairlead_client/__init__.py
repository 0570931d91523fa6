"""The Python API: tools of MCP servers and of this process as one registry, for agents that run in Python.

    from fairlead_client import Server, ToolRegistry

    with ToolRegistry([Server(name="time", package="pypi:mcp-server-time==2026.10.19")]) as registry:
        outcome = registry.execute("time__get_current_time", {"timezone": "Europe/Berlin"})

`registry` has the asynchronous registry, `blocking` the synchronous one for programs without an event loop. The
registry connects to servers directly, without a gateway, catalog or cluster. See docs/connect/python.md.
"""

from __future__ import annotations

try:
    from fairlead_client.blocking import ToolRegistry
    from fairlead_client.definitions import Definitions
    from fairlead_client.messages import Executed
    from fairlead_client.outcomes import (
        ExecutionError,
        InvalidArguments,
        Outcome,
        ToolCallError,
        ToolFailed,
        UnknownFunction,
    )
    from fairlead_client.registry import AsyncToolRegistry
    from fairlead_client.retry_policy import ParallelWithLimit, Request, Retry, parallel_with_limit
    from fairlead_client.servers import BadServer, Server
    from fairlead_client.tools import Tool
    from fairlead_formats.registry import UnknownFormat
    from fairlead_tools.handlers.context import Context
    from fairlead_tools.handlers.tool import CustomTool, tool
except ModuleNotFoundError as error:
    if (error.name or __name__).startswith("fairlead"):
        raise
    from fairlead_api.extras import install_command

    raise ImportError(f"{__name__} needs the package {error.name}: {install_command('gateway')}") from error

__all__ = [
    "AsyncToolRegistry",
    "BadServer",
    "Context",
    "CustomTool",
    "Definitions",
    "Executed",
    "ExecutionError",
    "InvalidArguments",
    "Outcome",
    "ParallelWithLimit",
    "Request",
    "Retry",
    "Server",
    "Tool",
    "ToolCallError",
    "ToolFailed",
    "ToolRegistry",
    "UnknownFormat",
    "UnknownFunction",
    "parallel_with_limit",
    "tool",
]
