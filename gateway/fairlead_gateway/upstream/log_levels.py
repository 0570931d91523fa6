"""Levels of log messages that a server is to send in one legacy session with it (MCP 2025-11-25, "Logging").

Pure module. In a session that many clients share it is the lowest level that one of them asked for of late, and never
above the default, which clients that asked for none expect. `calls.questions.server_requests` filters for each client.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Levels of log messages, least severe first (RFC 5424)."""
DEFAULT_LEVEL: Final = "info"
"""Level of a client that asked for none."""
REMEMBERED_SECONDS: Final = 600.0
"""How long a client's level counts after its last request."""
MAX_CLIENTS: Final = 256


class LogLevels:
    """Levels that the clients of one session asked for. `now`: seconds of one clock."""

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._wanted: OrderedDict[bytes, tuple[int, float]] = OrderedDict()
        self._current: int | None = None

    def due(self, client: bytes | None, level: str, now: float) -> str | None:
        """Level to set before a request of a client that asked for `level`; None where it is set already.

        What is returned counts as set. Clients without a session count as one.
        """
        self._wanted[client or b""] = LEVELS.index(level), now
        self._wanted.move_to_end(client or b"")
        while len(self._wanted) > MAX_CLIENTS or next(iter(self._wanted.values()))[1] < now - REMEMBERED_SECONDS:
            self._wanted.popitem(last=False)
        lowest = min(wanted_level for wanted_level, _ in self._wanted.values())
        if self._shared:
            lowest = min(lowest, LEVELS.index(DEFAULT_LEVEL))
        if lowest == self._current:
            return None
        self._current = lowest
        return LEVELS[lowest]
