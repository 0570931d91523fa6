"""Errors in the form that OpenAI's SDKs read: `{"error": {message, type, param, code}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

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


class _ProviderError(msgspec.Struct):
    error: Raw


def of_problem(problem: Problem) -> LlmError:
    """A refusal of the REST API in this form."""
    document, headers = problem.document, dict(problem.headers)
    if document.retry_after_ms is not None:
        headers["retry-after"] = seconds_of(document.retry_after_ms)
    return LlmError(document.status, document.detail, document.code, headers=headers)


def error_in(body: bytes) -> bytes | None:
    """The raw object `error` of a provider's answer; None where there is none."""
    try:
        raw = bytes(msgspec.json.decode(body, type=_ProviderError).error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return raw if raw[:1] in (b"{", b'"') else None
