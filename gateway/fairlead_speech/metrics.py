"""Counters of speech sessions, recorded as they go; `fairlead_app.metrics.speech` shows them. Pure recording."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from fairlead_gateway.telemetry import Histogram

OK: Final = "ok"
ERROR: Final = "error"
CANCELLED: Final = "cancelled"
DUPLICATE: Final = "duplicate"
"""Outcome of a call whose id came before: it was not run."""
FAILED_RESUMPTION: Final = "failed"
FIRST: Final = "first"
"""The first audio after a turn of the user's, of a phrase that fills the time perhaps."""
ANSWER: Final = "answer"
"""The first audio of the answer."""
TO_PROVIDER: Final = "to_provider"
TO_CLIENT: Final = "to_client"


class SpeechMetrics:
    """All figures of one gateway. Engines, outcomes and directions are closed sets."""

    def __init__(self) -> None:
        self.active: Counter[str] = Counter()
        """By engine."""
        self.sessions: Counter[tuple[str, str]] = Counter()
        """By engine and outcome."""
        self.frames: Counter[tuple[str, str]] = Counter()
        """By engine and direction."""
        self.delays: dict[str, Histogram] = {TO_PROVIDER: Histogram(), TO_CLIENT: Histogram()}
        """Time that a frame spends in the gateway, by direction."""
        self.calls: Counter[tuple[str, str]] = Counter()
        """By engine and outcome."""
        self.tier_changes: Counter[tuple[str, str]] = Counter()
        """By engine and new tier."""
        self.tier_waits: Counter[tuple[str, str]] = Counter()
        """By engine and reason."""
        self.resumptions: Counter[tuple[str, str]] = Counter()
        """By engine and outcome."""

        self.routed: Counter[str] = Counter()
        """Turns that a cascaded engine answered in the provider's place, by outcome."""
        self.fillers: Counter[str] = Counter()
        """Phrases said while an answer took longer, by engine."""
        self.transcribed_seconds: defaultdict[str, float] = defaultdict(float)
        """Audio that was transcribed, by name of the cascaded engine. Servers of speech charge for it."""
        self.synthesized_characters: Counter[str] = Counter()
        """Text that was synthesized, by name of the cascaded engine."""
        self.first_audio: dict[str, Histogram] = {FIRST: Histogram(), ANSWER: Histogram()}
        """Time from the end of a turn to audio of cascaded engines, by what it is."""

    def begin_session(self, engine: str) -> None:
        """A session begins."""
        self.active[engine] += 1

    def end_session(self, engine: str, outcome: str) -> None:
        """A session that began is over."""
        self.active[engine] -= 1
        self.sessions[engine, outcome] += 1

    def refuse_session(self, engine: str, outcome: str) -> None:
        """A session was refused before it began."""
        self.sessions[engine, outcome] += 1

    def count_call(self, engine: str, outcome: str) -> None:
        """A call of a tool of the gateway is over."""
        self.calls[engine, outcome] += 1

    def count_tier_change(self, engine: str, tier: str) -> None:
        """A session goes on in another tier, one of the installation's."""
        self.tier_changes[engine, tier] += 1
