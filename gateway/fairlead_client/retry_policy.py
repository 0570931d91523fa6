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
"""Maximum number of concurrent calls with the strategy `parallel`. It equals the maximum number of connections to one
server, so that the timeout of a call does not include waiting for a connection.
"""

_UNPROCESSED_STATUSES: Final = frozenset({429, 503})
"""HTTP statuses of requests that were rejected before any work was done."""
_UNSENT_CODES: Final = frozenset({RATE_LIMITED, BREAKER_OPEN})
"""Codes with which a gateway refuses calls that it did not send to the server, so that a retry is safe."""
_INTERRUPTED_CODES: Final = frozenset({CONNECTION_LOST, TIMEOUT})
"""Codes with which a gateway answers calls that the server may have executed, so that a retry may repeat an effect."""


@dataclass(frozen=True)
class Retry:
    """Retries after failures; `attempts` is the total number of attempts.

    The pause before the second attempt is `first` seconds. It doubles for each further attempt up to `longest` seconds,
    and is shortened randomly by up to a half. If the server requests a longer pause, that is used; if the requested
    pause exceeds `longest`, no further attempt is made.
    """

    attempts: int = 3
    first: float = 0.2
    longest: float = 5.0
    repeatable: bool = False
    """Set this if the tool may be called twice: then calls are also repeated after lost connections and timeouts. By
    default, such calls are repeated only if the tool is trusted and has `readOnlyHint` or `idempotentHint`, or is
    declared idempotent.
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


def max_parallel(strategy: Strategy, calls: int) -> int:
    """Maximum number of concurrent calls for a strategy, if `calls` calls are made. Raises ValueError for an invalid
    strategy.
    """
    if isinstance(strategy, ParallelWithLimit):
        return strategy.limit
    if strategy == "sequential":
        return 1
    if strategy == "parallel":
        return min(max(calls, 1), MAX_PARALLEL)
    raise ValueError(f"{strategy!r} is not a valid strategy: use 'sequential', 'parallel' or parallel_with_limit(n)")


def handler_failure(tool: str, cause: BaseException) -> ToolCallError:
    """Convert an exception of a local tool's function to an error. A `ToolCallError` is returned unchanged. An OSError
    (files, connections, timeouts) is retryable, because a program that enables retries knows its own function.
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
    message = str(error) if isinstance(error, ConnectFailed) else refusal.message  # here, users may see addresses
    if isinstance(error, RpcError) and error.code == INVALID_PARAMS:
        invalid = InvalidArguments(tool, refusal.message, (error.message,))
        invalid.__cause__ = error
        return invalid
    retry_after = None if refusal.retry_after_ms is None else refusal.retry_after_ms / 1000
    if isinstance(error, RestartDelayed):
        retry_after = error.retry_after
    return ExecutionError(
        tool,
        message,
        code=refusal.code,
        cause=error,
        retryable=_retryable(error, repeatable=repeatable),
        retry_after=retry_after,
        claims=refusal.claims,
        sign_in_url=refusal.sign_in_url,
    )


def refusal_of(tool: str, result: Mapping[str, Any], *, repeatable: bool) -> ToolCallError | None:
    """Error for a result that refuses the call with a code in `_meta`, as results of gateways do. None for all other
    results.
    """
    meta = result.get("_meta")
    error = meta.get(META_ERROR) if isinstance(meta, Mapping) and result.get("isError") is True else None
    if not isinstance(error, Mapping) or not isinstance(error.get("code"), str):
        return None
    code, message, retry_after = error["code"], str(error.get("message", "")), error.get("retryAfterMs")
    claims = error.get("claims")
    if code == INVALID_ARGUMENTS:
        return InvalidArguments(tool, message, tuple(message.splitlines()))
    link = error.get("signInUrl")
    return ExecutionError(
        tool,
        message,
        code=code,
        retryable=code in _UNSENT_CODES or (repeatable and code in _INTERRUPTED_CODES),
        retry_after=retry_after / 1000 if isinstance(retry_after, int) else None,
        claims=claims if isinstance(claims, str) else "",
        sign_in_url=link if isinstance(link, str) else "",
    )


def _retryable(error: McpError, *, repeatable: bool) -> bool:
    """Whether a failed call may be repeated. The conditions are those of the gateway, except that a registry also
    repeats calls after timeouts and when no connection was free.
    """
    if isinstance(error, Timeout):
        return repeatable or not error.sent
    if isinstance(error, PoolFull) or (isinstance(error, HttpRefused) and error.status in _UNPROCESSED_STATUSES):
        return True
    return worth_retrying(error, idempotent=repeatable)
