"""Estimates how long a person waits for a spoken answer in a tier, and recommends how to bridge the wait. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.policy.view import View

FILLER_ABOVE_MS: Final = 1000
"""Expected wait in milliseconds beyond which the agent should say a few words first ("let me see …")."""
SPEECH_TURN_MS: Final = 1500
"""Maximum wait for a tool, in milliseconds, that people do not notice as a pause in a speech-to-speech session."""


class Outlook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Expected wait in one tier, with recommendations."""

    expected_ms: int | None
    """Median duration of the tier's slowest tool, in milliseconds: measured, or declared if not measured. None if no
    duration is known."""
    filler: bool
    """Whether to say a filler first and the answer afterwards."""
    route: str
    """`direct`: the tools fit into a speech turn. `cascaded`: use a text model followed by speech synthesis."""


def outlook(view: View, snapshot: Snapshot, limit_ms: int | None, speech_turn_ms: int = SPEECH_TURN_MS) -> Outlook:
    """Estimate the wait for the tools that a tier shows. Tools are called in parallel, so the slowest tool counts.

    `limit_ms` is the tier's latency limit. It is used as the estimate if no duration is known.
    """
    slowest_ms = _slowest_ms(view, snapshot)
    wait_ms = limit_ms if slowest_ms is None else slowest_ms
    return Outlook(
        expected_ms=slowest_ms,
        filler=wait_ms is None or wait_ms > FILLER_ABOVE_MS,
        route="direct" if wait_ms is not None and wait_ms <= speech_turn_ms else "cascaded",
    )


def _slowest_ms(view: View, snapshot: Snapshot) -> int | None:
    slowest: int | None = None
    for name in view.routes:
        merged = snapshot.merged.get(name)
        if merged is None:
            continue
        server, tool = merged
        state = snapshot.states.get(server.key, {}).get(tool.name)
        measured = state.quantiles if state is not None else None
        duration = tool.estimated_duration_ms if measured is None else round(measured.p50_ms)
        if duration is not None and (slowest is None or duration > slowest):
            slowest = duration
    return slowest
