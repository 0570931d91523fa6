"""Sample of one attempt to call a tool, from a gateway's report or a probe. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

LATEST_S: Final = 253_402_300_799.0
"""Unix time of the last second of the year 9999, which is the last one that RFC 3339 can say."""


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
    """Unix time in seconds, when it ended or was seen running."""
    duration_ms: float
    outcome: AttemptOutcome
    probe: bool = False


def rfc3339(seconds: float) -> str:
    """A Unix time as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(min(max(seconds, 0.0), LATEST_S), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
