"""Counts access tokens of servers that were granted, and calls that got none. Pure module."""

from __future__ import annotations

from typing import Final

from fairlead_api.meta import ServerKey

GRANTED: Final = "ok"
"""Outcome of a grant that returned a token. The other outcomes are `fairlead_mcp.oauth.errors.GRANT_CAUSES`, for calls
without a token.
"""
MAX_COUNTED: Final = 500
"""Maximum number of servers with counters. At the limit, the counters of the server that was counted longest ago are
dropped, because that server may have been removed.
"""


class GrantCounts:
    """Counters of one gateway by server and outcome, never by user."""

    def __init__(self) -> None:
        self.by_outcome: dict[tuple[ServerKey, str], int] = {}
        self.seconds: dict[ServerKey, float] = {}
        """Total seconds of the grants that returned a token, and of the waits of calls that got none."""

    def count(self, server: ServerKey, outcome: str, seconds: float) -> None:
        key = server, outcome
        self.by_outcome[key] = self.by_outcome.get(key, 0) + 1
        self.seconds[server] = self.seconds.pop(server, 0.0) + seconds  # moves the server to the end
        if len(self.seconds) > MAX_COUNTED:
            oldest = next(iter(self.seconds))
            del self.seconds[oldest]
            for key_to_drop in [each for each in self.by_outcome if each[0] == oldest]:
                del self.by_outcome[key_to_drop]
