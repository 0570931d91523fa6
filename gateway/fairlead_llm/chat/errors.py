"""Errors in the form that OpenAI's SDKs read: `{"error": {message, type, param, code}}`. Pure module."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from fairlead_llm.errors import LlmError


class _ErrorBody(msgspec.Struct):
    error: Raw


def error_object(error: LlmError) -> dict[str, str | None]:
    """The object `error`, as streams have it."""
    kind = "invalid_request_error" if error.status < 500 and error.status != 429 else "api_error"
    return {"message": str(error), "type": kind, "param": error.param, "code": error.code}


def error_body(error: LlmError) -> bytes:
    """The body of a refusal."""
    return msgspec.json.encode({"error": error_object(error)})


def error_in(body: bytes) -> bytes | None:
    """The raw object `error` of a provider's answer; None where there is none."""
    try:
        raw = bytes(msgspec.json.decode(body, type=_ErrorBody).error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return raw if raw[:1] in (b"{", b'"') else None
