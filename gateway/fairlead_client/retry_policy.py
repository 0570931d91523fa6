"""Retry policy of calls, strategies for several calls, and conversion of failures to errors. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from fairlead_client.outcomes import ExecutionError, InvalidArguments, ToolCallError
from fairlead_client.restart_backoff import RestartDelayed
from fairlead_mcp.errors import ConnectFailed, HttpRefused, McpError, PoolFull, RpcError, Timeout
from fairlead_mcp.jsonrpc import INVALID_PARAMS
from fairlead_mcp.retries import worth_retrying
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
"""Most calls at once with the strategy `parallel`. It equals the number of connections to one server, so that the
timeout of a call does not include waiting for a connection.
"""

_NOT_TAKEN: Final = frozenset({429, 503})
"""HTTP statuses of requests that were rejected before any work was done."""
_NOT_BEGUN: Final = frozenset({RATE_LIMITED, BREAKER_OPEN})
"""Codes with which a gateway refuses calls that it did not send to the server, so that a retry does no harm."""
_BROKEN_OFF: Final = frozenset({CONNECTION_LOST, TIMEOUT})
"""Codes with which a gateway answers calls that the server may have executed, so that a retry may repeat an effect."""


@dataclass(frozen=True)
class Retry:
    """Retries after failures; `attempts` is the total number of attempts.

    The pause before the second attempt is `first` seconds. It doubles for each further attempt up to `longest`, and is
    shortened randomly by up to a half. A longer pause that the server requests is respected up to `longest`; a request
    beyond `longest` ends the attempts.
    """

    attempts: int = 3
    first: float = 0.2
    longest: float = 5.0
    repeatable: bool = False
    """Set this if the tool may be called twice: then calls are also repeated after lost connections and timeouts.
    Otherwise such calls are repeated only if a trusted tool has `readOnlyHint` or `idempotentHint`.
    """

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first < 0 or self.longest < self.first:
            raise ValueError("Retry is not valid: attempts must be at least 1, and 0 <= first <= longest")


ONCE: Final = Retry(attempts=1)


@dataclass(frozen=True)
class Request:
    """One call of several. `timeout` (seconds of one attempt) and `retry` override those of the batch."""

    name: str
    arguments: Mapping[str, Any] | None = None
    timeout: float | None = None
    retry: Retry | None = None


@dataclass(frozen=True)
class ParallelWithLimit:
    """Strategy with at most `limit` calls at once, started in order."""

    limit: int

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"ParallelWithLimit is not valid: limit is {self.limit}, but must be at least 1")


Strategy: TypeAlias = Literal["sequential", "parallel"] | ParallelWithLimit


def parallel_with_limit(limit: int) -> ParallelWithLimit:
    """Create the strategy with at most `limit` calls at once."""
    return ParallelWithLimit(limit)


def at_once(strategy: Strategy, calls: int) -> int:
    """Most calls at once for a strategy and a number of calls. Raises ValueError for an invalid strategy."""
    if isinstance(strategy, ParallelWithLimit):
        return strategy.limit
    if strategy == "sequential":
        return 1
    if strategy == "parallel":
        return min(max(calls, 1), MAX_PARALLEL)
    raise ValueError(f"{strategy!r} is not a valid strategy: use 'sequential', 'parallel' or parallel_with_limit(n)")


def handler_failure(tool: str, cause: BaseException) -> ToolCallError:
    """Convert an exception of a local tool's function to an error. A `ToolCallError` is returned unchanged. An OSError
    (files, connections, timeouts) is retryable: a program that enables retries knows its own function.
    """
    if isinstance(cause, ToolCallError):
        return cause
    message = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    return ExecutionError(
        tool, message, code=UPSTREAM_ERROR, cause=cause, retryable=isinstance(cause, OSError)
    )  # a TimeoutError and a ConnectionError are OSErrors


def failure(tool: str, error: McpError, *, repeatable: bool) -> ToolCallError:
    """Convert a failed connection to an error; `repeatable` says whether the call may be executed twice."""
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
    """Error for a result by which a server refuses a call with a code in `_meta`, as gateways do. None for all other
    results.
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
    """Whether a failed call may be repeated. The gateway repeats calls under the same conditions, except that here
    calls are also repeated after timeouts and when no connection was free.
    """
    if isinstance(error, Timeout):
        return repeatable or not error.sent
    if isinstance(error, PoolFull) or (isinstance(error, HttpRefused) and error.status in _NOT_TAKEN):
        return True
    return worth_retrying(error, idempotent=repeatable)
