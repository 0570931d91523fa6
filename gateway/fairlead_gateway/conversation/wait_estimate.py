"""Waiting time that a tier means for a person in a conversation, and how to bridge it. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.policy.view import View

FILLER_ABOVE_MS: Final = 1000
"""An answer that takes longer is worth a few words at once ("let me see …")."""
SPEECH_TURN_MS: Final = 1500
"""Longest wait for a tool without a pause that people notice in a speech-to-speech session."""


class Outlook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Waiting time of one tier."""

    expected_ms: int | None
    """The slowest of its tools, by measured median, else the declared one; None where nothing is known."""
    filler: bool
    """Whether to say something at once and the answer afterwards."""
    route: str
    """`direct`: the tools fit a speech turn. `cascaded`: hand the turn to a text model with speech behind it."""


def outlook(view: View, snapshot: Snapshot, limit_ms: int | None, speech_turn_ms: int = SPEECH_TURN_MS) -> Outlook:
    """How long a tier's tools may keep a person waiting: parallel calls cost the slowest of them."""
    expected = _slowest(view, snapshot)
    longest = limit_ms if expected is None else expected
    return Outlook(
        expected_ms=expected,
        filler=longest is None or longest > FILLER_ABOVE_MS,
        route="direct" if longest is not None and longest <= speech_turn_ms else "cascaded",
    )


def _slowest(view: View, snapshot: Snapshot) -> int | None:
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
