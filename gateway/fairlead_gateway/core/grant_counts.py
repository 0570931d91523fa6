"""Counters of requests for access tokens of servers. Pure module."""

from __future__ import annotations

from typing import Final

from fairlead_api.meta import ServerKey

GRANTED: Final = "ok"
"""Outcome of a request that was answered with a token; all others are `fairlead_mcp.oauth.errors.GRANT_CAUSES`."""


class GrantCounts:
    """Counters of one gateway by server and outcome, never by person."""

    def __init__(self) -> None:
        self.by_outcome: dict[tuple[ServerKey, str], int] = {}
        self.seconds: dict[ServerKey, float] = {}
        """Time spent on requests for tokens."""

    def count(self, server: ServerKey, outcome: str, seconds: float) -> None:
        key = server, outcome
        self.by_outcome[key] = self.by_outcome.get(key, 0) + 1
        self.seconds[server] = self.seconds.get(server, 0.0) + seconds
