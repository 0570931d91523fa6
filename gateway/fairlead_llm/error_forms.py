"""Bodies of errors in the form that the SDKs of each kind of API read. Pure module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from fairlead_llm.chat.format import CHAT
from fairlead_llm.errors import LlmError
from fairlead_llm.providers import ProviderKind

_ANTHROPIC_TYPES: Final = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error",
    529: "overloaded_error",
}  # fmt: skip
_GEMINI_STATUSES: Final = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED", 499: "CANCELLED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip


def error_body(kind: ProviderKind, error: LlmError) -> bytes:
    """The body of an error for clients of that kind of API."""
    return _FORMS[kind](error)


def _anthropic(error: LlmError) -> bytes:
    otherwise = "api_error" if error.status >= 500 else "invalid_request_error"
    kind = _ANTHROPIC_TYPES.get(error.status, otherwise)
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": str(error)}})


def _gemini(error: LlmError) -> bytes:
    otherwise = "INTERNAL" if error.status >= 500 else "INVALID_ARGUMENT"
    status = _GEMINI_STATUSES.get(error.status, otherwise)
    return msgspec.json.encode({"error": {"code": error.status, "message": str(error), "status": status}})


_FORMS: Final[Mapping[ProviderKind, Callable[[LlmError], bytes]]] = {
    "openai": CHAT.error_body, "anthropic": _anthropic, "gemini": _gemini
}  # fmt: skip
