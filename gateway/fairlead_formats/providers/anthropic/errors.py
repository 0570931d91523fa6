"""Errors in the form that Anthropic's SDKs read: `{"type": "error", "error": {type, message}}`. Pure module.

Source: Anthropic's API reference, "Errors".
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_formats.wire.errors import LlmError

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


def error_object(error: LlmError) -> dict[str, str]:
    """The object `error`, as streams have it. `code` is the gateway's own."""
    otherwise = "api_error" if error.status >= 500 else "invalid_request_error"
    return {"type": _TYPES.get(error.status, otherwise), "message": str(error), "code": error.code}


def error_body(error: LlmError) -> bytes:
    """The body of a refusal."""
    return msgspec.json.encode({"type": "error", "error": error_object(error)})
