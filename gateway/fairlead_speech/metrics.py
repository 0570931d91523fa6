"""Counters of speech sessions, which `fairlead_app.metrics.speech` exports. Does no I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from fairlead_gateway.telemetry import Histogram

OK: Final = "ok"
ERROR: Final = "error"
CANCELLED: Final = "cancelled"
DUPLICATE: Final = "duplicate"
"""Outcome of a call that was not run, because an earlier call had its id."""
FAILED_RESUMPTION: Final = "failed"
FIRST: Final = "first"
"""Label of the first audio after a turn of the user, which may be a filler."""
ANSWER: Final = "answer"
"""Label of the first audio of the answer, fillers excluded."""
TO_PROVIDER: Final = "to_provider"
TO_CLIENT: Final = "to_client"


class SpeechMetrics:
    """Counters of all speech sessions of one gateway. Engines, outcomes and directions are small, fixed
    sets of labels.
    """

    def __init__(self) -> None:
        self.active: Counter[str] = Counter()
        """Open sessions, by engine."""
        self.sessions: Counter[tuple[str, str]] = Counter()
        """Ended or refused sessions, by engine and outcome."""
        self.frames: Counter[tuple[str, str]] = Counter()
        """Forwarded messages, by engine and direction."""
        self.delays: dict[str, Histogram] = {TO_PROVIDER: Histogram(), TO_CLIENT: Histogram()}
        """Nanoseconds that a message spends in the gateway, by direction."""
        self.calls: Counter[tuple[str, str]] = Counter()
        """Finished calls of the gateway's tools, by engine and outcome."""
        self.tier_changes: Counter[tuple[str, str]] = Counter()
        """Changes of a session's tier, by engine and new tier."""
        self.tier_waits: Counter[tuple[str, str]] = Counter()
        """Changes of a session's tools that had to wait, by engine and reason."""
        self.resumptions: Counter[tuple[str, str]] = Counter()
        """Attempts to resume a session over another connection, by engine and outcome."""

        self.routed: Counter[str] = Counter()
        """Turns that a cascaded engine answered instead of the provider, by outcome."""
        self.fillers: Counter[str] = Counter()
        """Spoken fillers, by engine."""
        self.transcribed_seconds: defaultdict[str, float] = defaultdict(float)
        """Seconds of transcribed audio, for which providers charge, by name of the cascaded engine."""
        self.synthesized_characters: Counter[str] = Counter()
        """Characters of synthesized text, by name of the cascaded engine."""
        self.first_audio: dict[str, Histogram] = {FIRST: Histogram(), ANSWER: Histogram()}
        """Nanoseconds from the end of a turn to audio of a cascaded engine, by the labels FIRST and ANSWER."""

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
        """Count a session that changes to `tier`, which must be a tier of the installation."""
        self.tier_changes[engine, tier] += 1
