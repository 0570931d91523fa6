"""Errors of requests to models, independent of the wire format. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from fairlead_formats.wire.errors import LlmError
from fairlead_gateway.limits.limiter import LimitRefusal
from fairlead_models.model_breakers import ModelClosed
from fairlead_offers.problems import RATE_LIMITED, Problem
from fairlead_web.problem_responses import seconds_of

NO_RETRY: Final = {"x-should-retry": "false"}
"""Headers of errors after tool calls, which keep SDKs from repeating the request and thereby the calls."""


def llm_error(problem: Problem) -> LlmError:
    """Convert a problem of the REST API to an error of a model API."""
    document, headers = problem.document, dict(problem.headers)
    if document.retry_after_ms is not None:
        headers["retry-after"] = seconds_of(document.retry_after_ms)
    return LlmError(document.status, document.detail, document.code, headers=headers)


def budget_error(reached_quota: LimitRefusal) -> LlmError:
    """Error 429 for an agent that has used up its tokens of the day. The error tells SDKs not to retry, because they
    would wait until midnight.
    """
    retry_after_s = ceil(reached_quota.retry_after or 0)
    return LlmError(429, reached_quota.message, RATE_LIMITED, headers={"retry-after": str(retry_after_s), **NO_RETRY})


def closed_error(closed_model: ModelClosed, extra_headers: Mapping[str, str]) -> LlmError:
    """Error for a model whose circuit breaker is open or which requested a pause, with additional headers."""
    headers = {"retry-after": str(max(ceil(closed_model.retry_after), 1)), **extra_headers}
    return LlmError(closed_model.status, str(closed_model), "provider_unavailable", headers=headers)
