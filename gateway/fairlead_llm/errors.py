"""Errors in the form that OpenAI's SDKs read: `{"error": {message, type, param, code}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_rest.problems import Problem, seconds_of

NO_RETRY: Final = {"x-should-retry": "false"}
"""SDKs repeat a request whose loop has run tools otherwise, tools included."""


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
        self.param = param
        self.headers = dict(headers or {})

    @property
    def body(self) -> bytes:
        """In the form of the API."""
        return msgspec.json.encode({"error": self.member})

    @property
    def member(self) -> dict[str, str | None]:
        """The object `error` alone, as streams have it."""
        kind = "invalid_request_error" if self.status < 500 and self.status != 429 else "api_error"
        return {"message": str(self), "type": kind, "param": self.param, "code": self.code}


class _Error(msgspec.Struct):
    message: str = ""
    code: str | None = None


class _Body(msgspec.Struct):
    error: _Error


def of_problem(problem: Problem) -> LlmError:
    """A refusal of the REST API in this form, its way out included."""
    document, headers = problem.document, dict(problem.headers)
    if document.retry_after_ms is not None:
        headers["retry-after"] = seconds_of(document.retry_after_ms)
    return LlmError(document.status, document.detail, document.code, headers=headers)


def said_by(status: int, body: bytes) -> LlmError:
    """The error in a provider's answer that is no success, or none of the kind that was asked for."""
    try:
        error = msgspec.json.decode(body, type=_Body).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return LlmError(502, f"the provider answered {status}, and nothing that can be read", "bad_answer")
    return LlmError(status, error.message or f"the provider answered {status}", error.code or "provider_error")
