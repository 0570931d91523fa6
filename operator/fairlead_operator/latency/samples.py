"""Sample of one attempt to call a tool, from a gateway's report or a probe. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class AttemptOutcome(Enum):
    """How an attempt ended, as far as speed and health are concerned."""

    OK = "ok"
    """Answered. Counts for speed, and as good for health."""
    RUNNING = "running"
    """Not ended yet; reported once it is past the limit of a tier."""
    BAD = "bad"
    """Transport error, time-out or internal error: counts against health."""
    UNREADABLE = "unreadable"
    """Answered with what is not MCP: counts against health, and says nothing of speed."""
    NEUTRAL = "neutral"
    """Refused arguments, a result that says `isError`, cancelled: says nothing about the tool."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One attempt, seen from the gateway: first byte out to final message."""

    attempt: str
    """Unique among replicas; the same for a running attempt and its end."""
    at: float
    """Seconds, when it ended or was seen running."""
    duration_ms: float
    outcome: AttemptOutcome
    probe: bool = False
