"""How often and how long a call is tried, and what of a failure may be tried again. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from fairlead_client.outcomes import ExecutionError, InvalidArguments, ToolCallError
from fairlead_client.restart_backoff import RestartDelayed
from fairlead_mcp.errors import ConnectFailed, HttpRefused, McpError, PoolFull, RpcError, Timeout
from fairlead_mcp.jsonrpc import INVALID_PARAMS
from fairlead_mcp.retries import is_retryable
from fairlead_tools.refusal import (
    BREAKER_OPEN,
    CONNECTION_LOST,
    INVALID_ARGUMENTS,
    META_ERROR,
    RATE_LIMITED,
    TIMEOUT,
    UPSTREAM_ERROR,
)
from fairlead_tools.refusals import refusal_for

CALL_SECONDS: Final = 60.0
MAX_PARALLEL: Final = 64
"""Calls that `parallel` makes at a time: as many as there are connections to one server, so that none spends its time
waiting for one.
"""

_NOT_TAKEN: Final = frozenset({429, 503})
"""HTTP refusals before any work was done."""
_NOT_BEGUN: Final = frozenset({RATE_LIMITED, BREAKER_OPEN})
"""Codes of a gateway that did not pass the call on."""
_BROKEN_OFF: Final = frozenset({CONNECTION_LOST, TIMEOUT})
"""Codes of a gateway behind which the call may have been carried out."""


@dataclass(frozen=True)
class Retry:
    """Further attempts after failures that may be tried again; `attempts` counts the first one.

    The pause before the second attempt is `first` seconds, doubled for each further one up to `longest`, cut by up to a
    half at random; a server that asks for a longer one gets it up to `longest`, and beyond it ends the attempts.
    """

    attempts: int = 3
    first: float = 0.2
    longest: float = 5.0
    repeatable: bool = False
    """Set it where the tool may be called twice: then lost connections and timeouts are tried again, too.
    Otherwise they are only where the tool says so (`readOnlyHint`, `idempotentHint`) and is trusted.
    """

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first < 0 or self.longest < self.first:
            raise ValueError("Retry needs at least one attempt, and 0 <= first <= longest")


ONCE: Final = Retry(attempts=1)


@dataclass(frozen=True)
class Request:
    """One call of several. `timeout` (seconds of one attempt) and `retry` stand in place of those of the batch."""

    name: str
    arguments: Mapping[str, Any] | None = None
    timeout: float | None = None
    retry: Retry | None = None


@dataclass(frozen=True)
class ParallelWithLimit:
    """At most `limit` calls at a time, begun in their order."""

    limit: int

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError("ParallelWithLimit needs a limit of at least 1")


Strategy: TypeAlias = Literal["sequential", "parallel"] | ParallelWithLimit


def parallel_with_limit(limit: int) -> ParallelWithLimit:
    """The strategy of at most `limit` calls at a time."""
    return ParallelWithLimit(limit)


def at_once(strategy: Strategy, calls: int) -> int:
    """How many of `calls` run at a time. Raises ValueError for what is not a strategy."""
    if isinstance(strategy, ParallelWithLimit):
        return strategy.limit
    if strategy == "sequential":
        return 1
    if strategy == "parallel":
        return min(max(calls, 1), MAX_PARALLEL)
    raise ValueError(f"there is no strategy {strategy!r}; known are sequential, parallel, parallel_with_limit(n)")


def handler_failure(tool: str, cause: BaseException) -> ToolCallError:
    """Error for an exception of a local handler. An error of this registry's own is returned unchanged; one of the
    system (a file, a connection, a timeout) may be tried again, for a program that asks for retries knows the handler.
    """
    if isinstance(cause, ToolCallError):
        return cause
    message = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    return ExecutionError(
        tool, message, code=UPSTREAM_ERROR, cause=cause, retryable=isinstance(cause, OSError)
    )  # a TimeoutError and a ConnectionError are OSErrors


def failure(tool: str, error: McpError, *, repeatable: bool) -> ToolCallError:
    """Error for a failed connection; `repeatable`: the call may be made twice."""
    refusal = refusal_for(error)
    message = str(error) if isinstance(error, ConnectFailed) else refusal.message  # users may see addresses
    if isinstance(error, RpcError) and error.code == INVALID_PARAMS:
        refused = InvalidArguments(tool, refusal.message, (error.message,))
        refused.__cause__ = error
        return refused
    after = None if refusal.retry_after_ms is None else refusal.retry_after_ms / 1000
    if isinstance(error, RestartDelayed):
        after = error.retry_after
    return ExecutionError(
        tool,
        message,
        code=refusal.code,
        cause=error,
        retryable=_retryable(error, repeatable=repeatable),
        retry_after=after,
    )


def refusal_of(tool: str, result: Mapping[str, Any], *, repeatable: bool) -> ToolCallError | None:
    """Refusal of a gateway in place of the tool's result, when the server is one: a result with a code. None for
    every other result. A server that writes such a code itself is believed.
    """
    meta = result.get("_meta")
    error = meta.get(META_ERROR) if isinstance(meta, Mapping) and result.get("isError") is True else None
    if not isinstance(error, Mapping) or not isinstance(error.get("code"), str):
        return None
    code, message, after = error["code"], str(error.get("message", "")), error.get("retryAfterMs")
    if code == INVALID_ARGUMENTS:
        return InvalidArguments(tool, message, tuple(message.splitlines()))
    return ExecutionError(
        tool,
        message,
        code=code,
        retryable=code in _NOT_BEGUN or (repeatable and code in _BROKEN_OFF),
        retry_after=after / 1000 if isinstance(after, int) else None,
    )


def _retryable(error: McpError, *, repeatable: bool) -> bool:
    """As for the gateway's own retries, and what a caller can afford to wait for: a place, and another full timeout."""
    if isinstance(error, Timeout):
        return repeatable or not error.sent
    if isinstance(error, PoolFull) or (isinstance(error, HttpRefused) and error.status in _NOT_TAKEN):
        return True
    return is_retryable(error, idempotent=repeatable)
