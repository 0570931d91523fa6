"""Errors in the form of OpenAI's APIs and SDKs: `{"error": {message, type, param, code}}`. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.neutral.provider_errors import ErrorKind, ProviderRefusal
from fairlead_formats.wire.errors import LlmError

_BY_KIND: Final[Mapping[ErrorKind, tuple[int, str, str | None]]] = {
    "invalid": (400, "invalid_request_error", None),
    "authentication": (401, "authentication_error", "invalid_api_key"),
    "billing": (429, "insufficient_quota", "insufficient_quota"),
    "permission": (403, "permission_error", None),
    "not_found": (404, "invalid_request_error", "model_not_found"),
    "conflict": (409, "conflict_error", None),
    "too_large": (400, "invalid_request_error", "context_length_exceeded"),
    "rate_limit": (429, "rate_limit_error", "rate_limit_exceeded"),
    "api": (500, "server_error", None),
    "overloaded": (503, "server_error", "overloaded"),
    "timeout": (504, "server_error", "timeout"),
}


def error_object(error: LlmError) -> dict[str, str | None]:
    """The `error` object of an error response or of an error in a stream."""
    kind = "invalid_request_error" if error.status < 500 and error.status != 429 else "api_error"
    return {"message": str(error), "type": kind, "param": error.param, "code": error.code}


def error_body(error: LlmError) -> bytes:
    """The body of an error response."""
    return msgspec.json.encode({"error": error_object(error)})


def write_refusal(refusal: ProviderRefusal) -> tuple[int, dict[str, Any]]:
    """HTTP status and OpenAI's `error` object for an error that a provider of another family sent."""
    status, kind, code = _BY_KIND[refusal.kind]
    return status, {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code or code}


def refusal_body(error: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an error response with this `error` object."""
    return {"error": error}
