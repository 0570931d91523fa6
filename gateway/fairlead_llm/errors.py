"""Answers that are no success, before they are written in the form of an API. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_rest.problems import Problem, seconds_of

NO_RETRY: Final = {"x-should-retry": "false"}
"""For errors behind calls of tools: SDKs would send the request again, and its tools would run again."""


class LlmError(Exception):
    """An answer that is no success."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        """Code of the REST API's problems, or `model_not_found`, `provider_unavailable`, `bad_answer`, `timeout`."""
        self.param = param
        self.headers = dict(headers or {})


def of_problem(problem: Problem) -> LlmError:
    """A refusal of the REST API as an error of these endpoints."""
    document, headers = problem.document, dict(problem.headers)
    if document.retry_after_ms is not None:
        headers["retry-after"] = seconds_of(document.retry_after_ms)
    return LlmError(document.status, document.detail, document.code, headers=headers)
