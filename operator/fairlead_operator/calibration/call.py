"""Calls a tool for a probe, and interprets the answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_mcp.eras import Era
from fairlead_mcp.errors import (
    ConnectFailed,
    ConnectionLost,
    HttpRefused,
    McpError,
    ProtocolError,
    RpcError,
    TransportError,
)
from fairlead_mcp.session import McpSession
from fairlead_operator.calibration.plan import PlannedProbe
from fairlead_operator.calibration.schedule import ProbeOutcome
from fairlead_operator.latency.samples import AttemptOutcome

BASELINE_SECONDS: Final = 10.0
"""Timeout in seconds of the request without a tool call."""
INTERNAL_ERROR: Final = -32603
_MESSAGE_LIMIT: Final = 200


@dataclass(frozen=True)
class ProbeResult:
    """Result of a probe: `outcome` for the schedule, `sample` for the tool's latency record."""

    outcome: ProbeOutcome
    sample: AttemptOutcome | None = None
    """None if the probe is not a measurement of the tool: for instance, its arguments may have caused the error."""
    duration_ms: float = 0.0
    connection_error: McpError | None = None
    """The error by which the connection was lost during the probe; None if it was not lost."""


class _ToolResult(msgspec.Struct, rename="camel"):
    """Members of a `CallToolResult` that decide whether it is a measurement of the tool."""

    is_error: Any = False
    result_type: Any = "complete"
    content: Any = None


_decode = msgspec.json.Decoder(_ToolResult).decode


async def round_trip(session: McpSession, clock: Callable[[], float]) -> float:
    """Milliseconds of a request without a tool call: `ping`, or `server/discover` in the modern era. Raises McpError.

    An error response counts too, because it takes the same round trip.
    """
    method = "server/discover" if session.era is Era.MODERN else "ping"
    began = clock()
    with contextlib.suppress(RpcError, HttpRefused):
        await session.request(method, timeout=BASELINE_SECONDS)
    return (clock() - began) * 1000


async def call(session: McpSession, probe: PlannedProbe, clock: Callable[[], float]) -> ProbeResult:
    """Call the tool, and evaluate the answer. Only the duration of a result without `isError` counts as the tool's
    speed. An error that the probe's arguments may have caused does not count at all.
    """
    began = clock()
    try:
        raw_result = await session.call_tool(probe.tool, probe.arguments, timeout=probe.timeout)
    except McpError as error:
        return _failure(probe, error, (clock() - began) * 1000)
    duration_ms = (clock() - began) * 1000
    try:
        problem = _problem(raw_result)
    except msgspec.DecodeError:
        return _unreadable("the tool's result is not an object", duration_ms)
    if problem:
        return ProbeResult(ProbeOutcome(None, duration_ms, problem))
    return ProbeResult(ProbeOutcome(AttemptOutcome.OK, duration_ms), AttemptOutcome.OK, duration_ms)


def _failure(probe: PlannedProbe, error: McpError, duration_ms: float) -> ProbeResult:
    """The result of a probe whose call failed. Some errors count as a measurement of the tool, others do not."""
    problem = str(error)[:_MESSAGE_LIMIT]
    if isinstance(error, ConnectFailed | ConnectionLost):
        return ProbeResult(ProbeOutcome(None, duration_ms, problem), AttemptOutcome.BAD, duration_ms, error)
    if isinstance(error, ProtocolError):
        return _unreadable(problem, duration_ms)
    counts_as_bad = isinstance(error, TransportError)
    counts_as_bad |= isinstance(error, HttpRefused) and error.status >= 500
    counts_as_bad |= isinstance(error, RpcError) and error.code == INTERNAL_ERROR and probe.declared
    outcome = AttemptOutcome.BAD if counts_as_bad else None
    return ProbeResult(ProbeOutcome(outcome, duration_ms, problem), outcome, duration_ms)


def _unreadable(problem: str, duration_ms: float) -> ProbeResult:
    """The result of a probe whose answer is not valid MCP, which counts against the tool's health."""
    outcome = AttemptOutcome.UNREADABLE
    return ProbeResult(ProbeOutcome(outcome, duration_ms, problem), outcome, duration_ms)


def _problem(raw_result: Raw) -> str:
    """Why a result is not a measurement of the tool; empty if it is one. Raises msgspec.DecodeError."""
    result = _decode(raw_result)
    if result.result_type != "complete":
        return f"the tool answered with resultType {str(result.result_type)[:_MESSAGE_LIMIT]!r}"
    if not result.is_error:
        return ""
    for item in result.content if isinstance(result.content, list) else ():
        if isinstance(item, dict) and isinstance(item.get("text"), str):
            return f"isError: {' '.join(item['text'].split())[:_MESSAGE_LIMIT]}"
    return "isError"
