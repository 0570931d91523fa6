"""Errors in the form of Google's APIs: `{"error": {code, message, status, details}}`, or a list with one such object.

Pure module. Source: google.rpc.Status, and google.rpc.Code, which maps status names to HTTP codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.neutral.provider_errors import ErrorKind, ProviderRefusal
from fairlead_formats.wire import raw_json
from fairlead_formats.wire.errors import LlmError

_STATUSES: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_DOMAIN: Final = "fairlead.dev"
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_BY_KIND: Final[Mapping[ErrorKind, tuple[int, str]]] = {
    "invalid": (400, "INVALID_ARGUMENT"),
    "authentication": (401, "UNAUTHENTICATED"),
    "billing": (429, "RESOURCE_EXHAUSTED"),
    "permission": (403, "PERMISSION_DENIED"),
    "not_found": (404, "NOT_FOUND"),
    "conflict": (409, "ABORTED"),
    "too_large": (400, "INVALID_ARGUMENT"),
    "rate_limit": (429, "RESOURCE_EXHAUSTED"),
    "api": (500, "INTERNAL"),
    "overloaded": (503, "UNAVAILABLE"),
    "timeout": (504, "DEADLINE_EXCEEDED"),
}


def error_object(error: LlmError) -> dict[str, Any]:
    """The `error` object of an error response or of an error in a stream. `reason` in its details is the gateway's
    code.
    """
    default_status = "INTERNAL" if error.status >= 500 else "INVALID_ARGUMENT"
    info: dict[str, Any] = {"@type": _INFO, "reason": error.code, "domain": _DOMAIN}
    if error.param is not None:
        info["metadata"] = {"field": error.param}
    status = _STATUSES.get(error.status, default_status)
    return {"code": error.status, "message": str(error), "status": status, "details": [info]}


def error_body(error: LlmError) -> bytes:
    """The body of an error response."""
    return msgspec.json.encode({"error": error_object(error)})


def error_in(body: bytes) -> bytes | None:
    """The encoded `error` object of a provider's answer, which may be a list with one error; None without an error."""
    try:
        bodies = _raws(body)[:1] if body.lstrip()[:1] == b"[" else [body]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    error = raw_json.error_in(bytes(bodies[0])) if bodies else None
    return error if error is not None and error[:1] == b"{" else None


def write_refusal(refusal: ProviderRefusal) -> tuple[int, dict[str, Any]]:
    """HTTP status and Google's `error` object for an error that a provider of another family sent."""
    status, name = _BY_KIND[refusal.kind]
    return status, {"code": status, "message": refusal.message, "status": name}


def refusal_body(error: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an error response with this `error` object."""
    return {"error": error}
