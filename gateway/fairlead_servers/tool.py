"""Base of the tools of all bundled servers: strict arguments, errors as sentences, and progress notifications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import ValidationError

from fairlead_servers.sentences import quote, sentence

__all__ = ["READS", "LatencyDeclaration", "StrictTool", "ToolError", "tool", "writing_annotations"]

READS: Final = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
"""Annotations of a tool that only reads its own data."""
FIRST_PROGRESS_S: Final = 2.0
"""Seconds before the first progress notification."""
PROGRESS_INTERVAL_S: Final = 1.0
"""Seconds between two progress notifications."""


class StrictTool(Tool):
    """Tool that rejects unknown arguments, and whose errors are sentences without the SDK's prefix."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Run the tool, with progress notifications from `FIRST_PROGRESS_S` on.

        Raises ToolError with one sentence for invalid arguments and for errors of the tool.
        """
        properties = self.parameters.get("properties", {})
        for name in arguments:
            if name not in properties:
                valid_names = ", ".join(properties) or "none"
                problem = f"unknown argument {quote(name)}; valid: {valid_names}"
                raise ToolError(f"the arguments of {self.name} are invalid: {problem}.")
        try:
            async with _report_progress(context, self.title or self.name):
                return await super().run(arguments, context, convert_result)
        except UnexpectedToolError as error:
            # an UnexpectedToolError, so that the SDK logs the traceback
            raise UnexpectedToolError(
                f"{self.name} failed because of an internal error; the server's log has the details."
            ) from error.__cause__
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                raise ToolError(sentence(f"the arguments of {self.name}", cause)) from error
            raise ToolError(str(cause or error)) from error


@dataclass(frozen=True)
class LatencyDeclaration:
    """Latency that a tool declares in `_meta` of its definition."""

    estimated_ms: int
    """Median duration."""
    max_ms: int
    """Maximum duration in milliseconds; gateways use it as the timeout."""
    min_tier: str
    """The fastest latency tier that may show the tool."""


def tool(
    function: Callable[..., Any], annotations: ToolAnnotations, title: str, latency: LatencyDeclaration
) -> StrictTool:
    """Tool from a function or a bound method, whose name, docstring and annotated parameters become the definition."""
    meta = {
        "fairlead.dev/estimated_duration_ms": latency.estimated_ms,
        "fairlead.dev/max_duration_ms": latency.max_ms,
        "fairlead.dev/min_tier": latency.min_tier,
    }
    strict_tool = StrictTool.from_function(function, annotations=annotations, title=title, meta=meta)
    strict_tool.parameters = {**strict_tool.parameters, "additionalProperties": False}
    assert isinstance(strict_tool, StrictTool)
    return strict_tool


def writing_annotations(
    *, destructive: bool = False, idempotent: bool = False, open_world: bool = False
) -> ToolAnnotations:
    """Annotations of a tool that is not read-only."""
    return ToolAnnotations(
        read_only_hint=False, destructive_hint=destructive, idempotent_hint=idempotent, open_world_hint=open_world
    )


@asynccontextmanager
async def _report_progress(context: Context[Any, Any], activity: str) -> AsyncIterator[None]:
    """Send progress notifications within the context, with the elapsed seconds and the description `activity`.

    Clients without a progress token receive none.
    """

    async def report() -> None:
        elapsed = FIRST_PROGRESS_S
        await asyncio.sleep(FIRST_PROGRESS_S)
        while True:
            await context.report_progress(elapsed, None, f"{activity}: {elapsed:.0f} s")
            await asyncio.sleep(PROGRESS_INTERVAL_S)
            elapsed += PROGRESS_INTERVAL_S

    report_task = asyncio.create_task(report())
    try:
        yield
    finally:
        report_task.cancel()
        await asyncio.gather(report_task, return_exceptions=True)  # errors of notifications to a disconnected client
