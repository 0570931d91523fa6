"""Counters of speech sessions, recorded as they go; `fairlead_app.metrics.speech` shows them. Pure recording."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from fairlead_gateway.telemetry import Histogram

OK: Final = "ok"
ERROR: Final = "error"
CANCELLED: Final = "cancelled"
DUPLICATE: Final = "duplicate"
"""Outcome of a call that was not run, as its id came before."""
FAILED_RESUMPTION: Final = "failed"
FIRST: Final = "first"
"""First audio after a turn of the user, a filler phrase included."""
ANSWER: Final = "answer"
"""First audio of the answer itself."""
TO_PROVIDER: Final = "to_provider"
TO_CLIENT: Final = "to_client"


class SpeechMetrics:
    """Figures of all speech sessions of one gateway. Engines, outcomes and directions are closed sets."""

    def __init__(self) -> None:
        self.active: Counter[str] = Counter()
        """Open sessions, by engine."""
        self.sessions: Counter[tuple[str, str]] = Counter()
        """By engine and outcome."""
        self.frames: Counter[tuple[str, str]] = Counter()
        """By engine and direction."""
        self.delays: dict[str, Histogram] = {TO_PROVIDER: Histogram(), TO_CLIENT: Histogram()}
        """Nanoseconds that a message spends in the gateway, by direction."""
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
        """Nanoseconds from the end of a turn to audio of a cascaded engine, by FIRST and ANSWER."""

    def begin_session(self, engine: str) -> None:
        """Count a session that begins."""
        self.active[engine] += 1

    def end_session(self, engine: str, outcome: str) -> None:
        """Count a session that ends."""
        self.active[engine] -= 1
        self.sessions[engine, outcome] += 1

    def refuse_session(self, engine: str, outcome: str) -> None:
        """Count a session that was refused before it began."""
        self.sessions[engine, outcome] += 1

    def count_call(self, engine: str, outcome: str) -> None:
        """Count a finished call of a tool of the gateway."""
        self.calls[engine, outcome] += 1

    def count_tier_change(self, engine: str, tier: str) -> None:
        """Count a session that changes to `tier`, one of the installation's."""
        self.tier_changes[engine, tier] += 1
