"""Errors in the form that OpenAI's SDKs read: `{"error": {message, type, param, code}}`. Pure module."""

from __future__ import annotations

import msgspec

from fairlead_formats.wire.errors import LlmError


def error_object(error: LlmError) -> dict[str, str | None]:
    """The object `error`, as streams have it."""
    kind = "invalid_request_error" if error.status < 500 and error.status != 429 else "api_error"
    return {"message": str(error), "type": kind, "param": error.param, "code": error.code}


def error_body(error: LlmError) -> bytes:
    """The body of a refusal."""
    return msgspec.json.encode({"error": error_object(error)})
