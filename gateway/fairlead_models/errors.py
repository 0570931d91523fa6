"""Errors of requests to models, before a wire format writes them. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from fairlead_formats.wire.errors import LlmError
from fairlead_gateway.limits.limiter import Limited
from fairlead_models.model_breakers import ModelClosed
from fairlead_offers.problems import RATE_LIMITED, Problem
from fairlead_web.problem_responses import seconds_of

NO_RETRY: Final = {"x-should-retry": "false"}
"""Headers of errors after calls of tools: SDKs would repeat the request, and its tools would run again."""


def llm_error(problem: Problem) -> LlmError:
    """The error for a problem of the REST API."""
    document, headers = problem.document, dict(problem.headers)
    if document.retry_after_ms is not None:
        headers["retry-after"] = seconds_of(document.retry_after_ms)
    return LlmError(document.status, document.detail, document.code, headers=headers)


def budget_error(refused: Limited) -> LlmError:
    """The error (429) for an agent whose tokens of the day are spent. It tells SDKs not to try again: they would wait
    for midnight.
    """
    after = ceil(refused.retry_after or 0)
    return LlmError(429, refused.message, RATE_LIMITED, headers={"retry-after": str(after), **NO_RETRY})


def closed_error(closed: ModelClosed, more: Mapping[str, str]) -> LlmError:
    """The error for a model whose breaker is open, with `more` headers."""
    headers = {"retry-after": str(max(ceil(closed.retry_after), 1)), **more}
    return LlmError(closed.status, str(closed), "provider_unavailable", headers=headers)
