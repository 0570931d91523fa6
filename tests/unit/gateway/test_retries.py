"""Retries: which failed calls are tried again, and when."""

from __future__ import annotations

import pytest

from fairlead_mcp import retries
from fairlead_mcp.errors import (
    ConnectFailed,
    ConnectionLost,
    HttpRefused,
    McpError,
    PoolFull,
    RpcError,
    Timeout,
    TooLarge,
)

LOST = ConnectionLost("it hung up", sent=True)


@pytest.mark.parametrize(
    ("error", "any_tool", "idempotent"),
    [
        (ConnectFailed("refused"), True, True),
        (ConnectFailed("none", reason="NotCallable"), False, False),
        (ConnectionLost("closed at once", sent=False), True, True),
        (LOST, False, True),
        (ConnectionLost("cut off", sent=True, received=True), False, True),
        (HttpRefused("503", status=503), False, True),
        (HttpRefused("500", status=500), False, False),
        (HttpRefused("429", status=429), False, False),
        (Timeout("late", sent=True), False, False),
        (Timeout("no room", sent=False), False, False),
        (RpcError(-32603, "oops"), False, False),
        (TooLarge("huge"), False, False),
        (PoolFull("full"), False, False),
    ],
)
def test_calls_are_retried_only_where_they_may_have_done_nothing(
    error: McpError, any_tool: bool, idempotent: bool
) -> None:
    assert retries.worth_retrying(error, idempotent=False) is any_tool
    assert retries.worth_retrying(error, idempotent=True) is idempotent


@pytest.mark.parametrize(
    ("attempt", "allowed", "left", "wait"),
    [(1, 1, 9, 0.05), (2, 1, 9, None), (1, 0, 9, None), (1, 1, 0.04, None), (5, 5, 9, 0.425)],
)
def test_retries_wait_for_a_growing_pause_as_often_as_allowed_while_there_is_time(
    attempt: int, allowed: int, left: float, wait: float | None
) -> None:
    delay = retries.next_delay(LOST, attempt=attempt, retries=allowed, idempotent=True, left=left, random=0.5)
    assert delay == (None if wait is None else pytest.approx(wait))


@pytest.mark.parametrize(
    ("after", "wait"),
    [("0", 0.05), ("2", 2), ("5", 5), ("6", None), ("9", None), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.05), ("²", 0.05)],
)
def test_retries_wait_as_long_as_a_busy_server_asks_unless_that_is_too_long(after: str, wait: float | None) -> None:
    error = HttpRefused("503", status=503, retry_after=after)
    delay = retries.next_delay(error, attempt=1, retries=1, idempotent=True, left=8, random=0.5)
    assert delay == (None if wait is None else pytest.approx(wait))
    assert retries.next_delay(error, attempt=1, retries=1, idempotent=True, left=0.01, random=0.5) is None
