"""Errors in the form of Anthropic's API and SDKs: `{"type": "error", "error": {type, message}}`. Pure module.

Source: Anthropic's API reference, "Errors".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.neutral.provider_errors import ErrorKind, ProviderRefusal
from fairlead_formats.wire.errors import LlmError

THREAD_NOT_FOUND: Final = "thread_not_found"
"""Code that tells a client to send the whole conversation again."""
_CODES_IN_DETAILS: Final = frozenset({THREAD_NOT_FOUND})
"""Codes that are also written to `details.error_code`, where Anthropic's SDKs read them."""
_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_BY_KIND: Final[Mapping[ErrorKind, tuple[int, str]]] = {
    "invalid": (400, "invalid_request_error"),
    "authentication": (401, "authentication_error"),
    "billing": (402, "billing_error"),
    "permission": (403, "permission_error"),
    "not_found": (404, "not_found_error"),
    "conflict": (409, "conflict_error"),
    "too_large": (413, "request_too_large"),
    "rate_limit": (429, "rate_limit_error"),
    "api": (500, "api_error"),
    "overloaded": (529, "overloaded_error"),
    "timeout": (504, "timeout_error"),
}


def error_object(error: LlmError) -> dict[str, Any]:
    """The `error` object of an error response or of a stream's error event. `code` is an addition of the gateway."""
    default_type = "api_error" if error.status >= 500 else "invalid_request_error"
    details = {"details": {"error_code": error.code}} if error.code in _CODES_IN_DETAILS else {}
    return {"type": _TYPES.get(error.status, default_type), "message": str(error), "code": error.code, **details}


def error_body(error: LlmError) -> bytes:
    """The body of an error response."""
    return msgspec.json.encode({"type": "error", "error": error_object(error)})


def write_refusal(refusal: ProviderRefusal) -> tuple[int, dict[str, Any]]:
    """HTTP status and Anthropic's `error` object for an error that a provider of another family sent."""
    status, kind = _BY_KIND[refusal.kind]
    return status, {"type": kind, "message": refusal.message}


def refusal_body(error: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an error response with this `error` object."""
    return {"type": "error", "error": error}
