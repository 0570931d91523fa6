"""Retries of failed calls: which failures are retried, and how often."""

from __future__ import annotations

import pytest

from fairlead_client.retry_policy import Retry, failure, max_parallel, parallel_with_limit
from fairlead_mcp.errors import (
    ConnectFailed,
    ConnectionLost,
    HttpRefused,
    McpError,
    NotMcp,
    PoolFull,
    RpcError,
    Timeout,
    TooLarge,
)


@pytest.mark.parametrize(
    ("error", "once", "repeatable"),
    [
        (ConnectFailed("x", reason="ConnectionRefused"), True, True),
        (ConnectFailed("x", reason="CommandNotFound"), False, False),
        (ConnectFailed("x", reason="Closed"), False, False),
        (ConnectionLost("x", sent=False), True, True),
        (ConnectionLost("x", sent=True), False, True),
        (Timeout("x", sent=False), True, True),
        (Timeout("x", sent=True), False, True),
        (PoolFull("x"), True, True),
        (TooLarge("x"), False, False),
        (HttpRefused("x", status=429), True, True),
        (HttpRefused("x", status=503), True, True),
        (HttpRefused("x", status=502), False, True),
        (HttpRefused("x", status=500), False, False),
        (HttpRefused("x", status=401), False, False),
        (NotMcp("x"), False, False),
        (RpcError(-32603, "x"), False, False),
        (RpcError(-32602, "x"), False, False),
    ],
)
def test_a_failure_may_be_tried_again_where_nothing_was_done_or_the_tool_may_be_called_twice(
    error: McpError, once: bool, repeatable: bool
) -> None:
    assert failure("t", error, repeatable=False).retryable is once
    assert failure("t", error, repeatable=True).retryable is repeatable
    assert failure("t", error, repeatable=True).__cause__ is error


@pytest.mark.parametrize(("attempts", "first", "longest"), [(0, 1, 1), (1, -1, 1), (1, 2, 1)])
def test_a_retry_that_makes_no_sense_is_refused(attempts: int, first: float, longest: float) -> None:
    with pytest.raises(ValueError, match="attempts must be at least 1"):
        Retry(attempts=attempts, first=first, longest=longest)


def test_a_strategy_is_a_number_of_calls_at_a_time() -> None:
    assert [max_parallel(strategy, 5) for strategy in ("sequential", "parallel", parallel_with_limit(2))] == [1, 5, 2]
    assert (max_parallel("parallel", 1000), max_parallel("parallel", 0), max_parallel(parallel_with_limit(100), 5)) == (
        64,
        1,
        100,
    )
