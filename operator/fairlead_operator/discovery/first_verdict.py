"""Verdict for the condition Verified of a server that has not answered its first discovery yet. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_api.documents.catalog import ChildEndpoint, TcpEndpoint
from fairlead_api.v1alpha1.causes import Cause, cause_of
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServerStatus
from fairlead_mcp.child import SILENT_SECONDS
from fairlead_operator.discovery.state import STILL_SILENT, DiscoveryState
from fairlead_operator.ports import ConditionVerdict

FIRST_DISCOVERY: Final = ConditionVerdict(None, Cause.NOT_DISCOVERED, "the server is being asked for the first time")
SILENT: Final = ConditionVerdict(
    None,
    Cause.SILENT,
    f"the server was asked for its tools {SILENT_SECONDS:g} s ago and has not answered: check whether it runs, and "
    "whether the URL is its MCP endpoint",
)
PROCESS_SILENT: Final = ConditionVerdict(None, Cause.SILENT, STILL_SILENT)
_CAUSES_BEFORE_ANSWER: Final = frozenset({Cause.PENDING, Cause.NOT_DISCOVERED, Cause.SILENT})
"""Causes of the condition Verified before the first answer."""


def before_first_answer(status: McpServerStatus, state: DiscoveryState, now: float) -> ConditionVerdict | None:
    """Verdict before the first answer; None if the condition in `status` is about an earlier answer and remains."""
    condition = status.condition(ConditionType.VERIFIED)
    if condition is not None and cause_of(condition)[0] not in _CAUSES_BEFORE_ANSWER:
        return None
    if state.failure is not None:
        return state.failure.verdict()
    if until_silent(state, now) > 0:
        return FIRST_DISCOVERY
    return PROCESS_SILENT if isinstance(state.target.endpoint, ChildEndpoint | TcpEndpoint) else SILENT


def until_silent(state: DiscoveryState, now: float) -> float:
    """Seconds until the first answer counts as late; infinite while no discovery is running."""
    return float("inf") if state.task is None else state.began_at + SILENT_SECONDS - now
