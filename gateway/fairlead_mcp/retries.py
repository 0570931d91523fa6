"""Decides which failed attempts are made again, and when.

Pure module. Where nothing was sent, any call may be made again; where the server may have got it, only one of a tool
that is idempotent. A call whose time is up is never made again.
"""

from __future__ import annotations

from typing import Final

from fairlead_mcp.errors import ConnectFailed, ConnectionLost, HttpRefused, McpError

BASE_SECONDS: Final = 0.05
MAX_SECONDS: Final = 1.0
_PASSING: Final = frozenset({502, 503, 504})
"""Statuses of a proxy in front of a server that is not there for a moment."""


def worth_retrying(error: Exception, *, idempotent: bool) -> bool:
    """Whether the same call may be made again, and may end otherwise."""
    if isinstance(error, ConnectFailed):
        return error.reason not in ("Closed", "NotCallable", "CommandNotFound", "UnknownHost", "TLSFailed")
    if isinstance(error, ConnectionLost):
        return idempotent or not error.sent
    return idempotent and isinstance(error, HttpRefused) and error.status in _PASSING


def delay(attempt: int, random: float) -> float:
    """Seconds before the next attempt after `attempt` (from 1) failed; full jitter by `random`, which is in [0, 1)."""
    return BASE_SECONDS / 2 + random * min(MAX_SECONDS, BASE_SECONDS * 2.0 ** (attempt - 1))


def next_delay(
    error: McpError, *, attempt: int, retries: int, idempotent: bool, left: float, random: float
) -> float | None:
    """Seconds until the next attempt, None where there is none. `left` is the time of the call that remains."""
    if attempt > retries or not worth_retrying(error, idempotent=idempotent):
        return None
    wait = delay(attempt, random)
    return wait if wait < left else None
