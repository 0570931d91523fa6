"""Refusals and failures, before they are written in the form of an API. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from fairlead_formats.wire.errors import LlmError
from fairlead_gateway.limits.limiter import Limited
from fairlead_models.breakers import ModelClosed
from fairlead_offers.problems import RATE_LIMITED, Problem
from fairlead_web.problem_responses import seconds_of

NO_RETRY: Final = {"x-should-retry": "false"}
"""For errors behind calls of tools: SDKs would send the request again, and its tools would run again."""


def of_problem(problem: Problem) -> LlmError:
    """A refusal of the REST API as an error of these endpoints."""
    document, headers = problem.document, dict(problem.headers)
    if document.retry_after_ms is not None:
        headers["retry-after"] = seconds_of(document.retry_after_ms)
    return LlmError(document.status, document.detail, document.code, headers=headers)


def over_budget(refused: Limited) -> LlmError:
    """The error for an agent whose tokens of the day are spent. SDKs would wait for midnight: they are
    told not to try again.
    """
    after = ceil(refused.retry_after or 0)
    return LlmError(429, refused.message, RATE_LIMITED, headers={"retry-after": str(after), **NO_RETRY})


def unavailable(closed: ModelClosed, more: Mapping[str, str]) -> LlmError:
    """The error for a model that is not asked now, with `more` headers."""
    headers = {"retry-after": str(max(ceil(closed.retry_after), 1)), **more}
    return LlmError(closed.status, str(closed), "provider_unavailable", headers=headers)
