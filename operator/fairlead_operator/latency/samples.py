"""Sample of one attempt to call a tool, from a gateway's report or a probe. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

LATEST_S: Final = 253_402_300_799.0
"""Unix time of the last second of the year 9999, the latest time in RFC 3339."""


class AttemptOutcome(Enum):
    """Outcome of an attempt, with its effect on speed and health."""

    OK = "ok"
    """Answered: counts for speed, and as a good call for health."""
    RUNNING = "running"
    """Not ended yet; reported when it exceeds the limit of a tier."""
    BAD = "bad"
    """Transport error, time-out or internal error: counts against health."""
    UNREADABLE = "unreadable"
    """Answered with invalid MCP: counts against health, and not for speed."""
    NEUTRAL = "neutral"
    """Refused arguments, a result with `isError`, or cancelled: does not count."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One attempt, measured by the gateway from the first byte sent to the final message."""

    attempt: str
    """ID, unique among all replicas, and the same for a running attempt and its end."""
    at: float
    """Unix time in seconds when the attempt ended, or was reported as running."""
    duration_ms: float
    outcome: AttemptOutcome
    probe: bool = False
    """Whether the attempt was a probe of the operator, not a call of an agent."""


def rfc3339(seconds: float) -> str:
    """Format a Unix time as RFC 3339 in UTC, with seconds."""
    return datetime.fromtimestamp(min(max(seconds, 0.0), LATEST_S), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
