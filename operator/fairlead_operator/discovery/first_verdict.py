"""Verdict about a server that was asked for the first time and has not answered. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.causes import Cause, cause_of
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServerStatus
from fairlead_mcp.child import SILENT_SECONDS
from fairlead_operator.discovery.state import DiscoveryState
from fairlead_operator.ports import ConditionVerdict

BEING_ASKED: Final = ConditionVerdict(None, Cause.NOT_DISCOVERED, "it is being asked for the first time")
SILENT: Final = ConditionVerdict(
    None,
    Cause.SILENT,
    f"it was asked for its tools {SILENT_SECONDS:g} s ago and has said nothing since: see whether it runs, and whether "
    "that is its MCP endpoint",
)
_UNASKED: Final = frozenset({Cause.PENDING, Cause.NOT_DISCOVERED, Cause.SILENT})
"""Causes of a condition Verified from before the first answer."""


def of_first_answer(shown: McpServerStatus, round_: DiscoveryState, now: float) -> ConditionVerdict | None:
    """Verdict while there is no answer to go by; None where the condition shown speaks of an earlier one, and stays."""
    condition = shown.condition(ConditionType.VERIFIED)
    if condition is not None and cause_of(condition)[0] not in _UNASKED:
        return None
    if round_.failure is not None:
        return round_.failure.verdict()
    return BEING_ASKED if until_silent(round_, now) > 0 else SILENT


def until_silent(round_: DiscoveryState, now: float) -> float:
    """Seconds until it is to be said that the answer is late; infinite while the server is not being asked."""
    return float("inf") if round_.task is None else round_.asked_at + SILENT_SECONDS - now
