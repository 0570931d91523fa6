"""Decides which failed attempts are retried, and when. No I/O.

If nothing was sent, any call may be retried; if the server may have received the call, only a call of an idempotent
tool is retried. After its deadline a call is never retried.
"""

from __future__ import annotations

from typing import Final

from fairlead_mcp.errors import ConnectFailed, ConnectionLost, HttpRefused, McpError

BASE_SECONDS: Final = 0.05
"""Largest random part of the delay before the first retry; it doubles with each attempt."""
MAX_SECONDS: Final = 1.0
"""Largest random part of the delay before any retry."""
MAX_RETRY_AFTER_SECONDS: Final = 5
"""Longest `Retry-After` that an attempt waits for; with a longer one the caller decides when to call again."""
_TRANSIENT: Final = frozenset({502, 503, 504})
"""HTTP statuses by which a proxy says that its server is temporarily unavailable."""


def worth_retrying(error: Exception, *, idempotent: bool) -> bool:
    """Whether a retry is safe and may succeed."""
    if isinstance(error, ConnectFailed):
        return error.reason not in ("Closed", "NotCallable", "CommandNotFound", "UnknownHost", "TLSFailed")
    if isinstance(error, ConnectionLost):
        return idempotent or not error.sent
    return idempotent and isinstance(error, HttpRefused) and error.status in _TRANSIENT


def delay(attempt: int, random: float) -> float:
    """Return the seconds to wait after attempt number `attempt` (from 1), with full jitter by `random` in [0, 1)."""
    return BASE_SECONDS / 2 + random * min(MAX_SECONDS, BASE_SECONDS * 2.0 ** (attempt - 1))


def next_delay(
    error: McpError, *, attempt: int, retries: int, idempotent: bool, left: float, random: float
) -> float | None:
    """Return the seconds until the next attempt, at least the seconds of `Retry-After`; None for no retry.

    `left` is the call's remaining time in seconds.
    """
    if attempt > retries or not worth_retrying(error, idempotent=idempotent):
        return None
    wait = delay(attempt, random)
    server_wait = error.retry_after_s if isinstance(error, HttpRefused) else None
    if server_wait is not None:
        if server_wait > MAX_RETRY_AFTER_SECONDS:
            return None
        wait = max(wait, server_wait)
    return wait if wait < left else None
