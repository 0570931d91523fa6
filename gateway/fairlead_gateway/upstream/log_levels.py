"""Log level of one legacy session with a server, computed from the levels of its clients (MCP 2025-11-25, "Logging").

Pure module. A server has one log level per session. All clients without a session of their own at the server share a
session. The level of the shared session is the least severe level that any of its clients has recently requested, and
never more severe than the default, which clients without a level expect. `calls.questions.message_relay` filters the
messages for each client.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Levels of log messages, least severe first (RFC 5424)."""
DEFAULT_LEVEL: Final = "info"
"""Level of a client that has not requested one."""
CLIENT_LEVEL_SECONDS: Final = 600.0
"""Time after a client's last request for which its level counts."""
MAX_CLIENTS: Final = 256


class LogLevels:
    """Log levels that clients requested, for one session with a server. Times are in seconds of one clock.

    `shared`: whether several clients use the session, so that some may expect the default level.
    """

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._levels_by_client: OrderedDict[bytes, tuple[int, float]] = OrderedDict()
        self._current: int | None = None

    def level_to_set(self, client: bytes | None, level: str, now: float) -> str | None:
        """The level to set at the server before it gets a request of a client that has set `level`; None if the
        server's level need not change.

        The returned level is recorded as set. `client` identifies the client; all clients without an id (None) count as
        one client.
        """
        self._levels_by_client[client or b""] = LEVELS.index(level), now
        self._levels_by_client.move_to_end(client or b"")
        while (
            len(self._levels_by_client) > MAX_CLIENTS
            or next(iter(self._levels_by_client.values()))[1] < now - CLIENT_LEVEL_SECONDS
        ):
            self._levels_by_client.popitem(last=False)
        lowest_level = min(level for level, _ in self._levels_by_client.values())
        if self._shared:
            lowest_level = min(lowest_level, LEVELS.index(DEFAULT_LEVEL))
        if lowest_level == self._current:
            return None
        self._current = lowest_level
        return LEVELS[lowest_level]
