"""One probe on the wire, and what its answer says."""

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
INTERNAL_ERROR: Final = -32603
_WORDS: Final = 200


@dataclass(frozen=True)
class ProbeAnswer:
    """`answer` is for the course, `sample` what is told of the tool: None where the fault may be the probe's."""

    answer: ProbeOutcome
    sample: AttemptOutcome | None = None
    duration_ms: float = 0.0
    lost: McpError | None = None
    """The connection is gone with it."""


class _ToolResult(msgspec.Struct, rename="camel"):
    is_error: Any = False
    result_type: Any = "complete"
    content: Any = None


_decode = msgspec.json.Decoder(_ToolResult).decode


async def round_trip(session: McpSession, clock: Callable[[], float]) -> float:
    """Milliseconds of a request that calls no tool: `ping`, which the stateless revision has no more. Raises McpError.

    A refusal has travelled as far as an answer.
    """
    method = "server/discover" if session.era is Era.MODERN else "ping"
    began = clock()
    with contextlib.suppress(RpcError, HttpRefused):
        await session.request(method, timeout=BASELINE_SECONDS)
    return (clock() - began) * 1000


async def call(session: McpSession, probe: PlannedProbe, clock: Callable[[], float]) -> ProbeAnswer:
    """Make the call. Only a result without `isError` counts for speed; errors that arguments can be to blame for say
    nothing about the tool.
    """
    began = clock()
    try:
        raw = await session.call_tool(probe.tool, probe.arguments, timeout=probe.timeout)
    except McpError as error:
        return _failure(probe, error, (clock() - began) * 1000)
    took = (clock() - began) * 1000
    try:
        words = _refusal(raw)
    except msgspec.DecodeError:
        return _unreadable("its result is not an object", took)
    if words:
        return ProbeAnswer(ProbeOutcome(None, took, words))
    return ProbeAnswer(ProbeOutcome(AttemptOutcome.OK, took), AttemptOutcome.OK, took)


def _failure(probe: PlannedProbe, error: McpError, took: float) -> ProbeAnswer:
    words = str(error)[:_WORDS]
    if isinstance(error, ConnectFailed | ConnectionLost):
        return ProbeAnswer(ProbeOutcome(None, took, words), AttemptOutcome.BAD, took, error)
    if isinstance(error, ProtocolError):
        return _unreadable(words, took)
    bad = isinstance(error, TransportError)
    bad |= isinstance(error, HttpRefused) and error.status >= 500
    bad |= isinstance(error, RpcError) and error.code == INTERNAL_ERROR and probe.given
    outcome = AttemptOutcome.BAD if bad else None
    return ProbeAnswer(ProbeOutcome(outcome, took, words), outcome, took)


def _unreadable(words: str, took: float) -> ProbeAnswer:
    return ProbeAnswer(ProbeOutcome(AttemptOutcome.UNREADABLE, took, words), AttemptOutcome.UNREADABLE, took)


def _refusal(raw: Raw) -> str:
    """Why a result says nothing, in words; empty for one that does. Raises msgspec.DecodeError."""
    result = _decode(raw)
    if result.result_type != "complete":
        return f"it answered with {str(result.result_type)[:_WORDS]!r}"
    if not result.is_error:
        return ""
    for item in result.content if isinstance(result.content, list) else ():
        if isinstance(item, dict) and isinstance(item.get("text"), str):
            return f"isError: {' '.join(item['text'].split())[:_WORDS]}"
    return "isError"
