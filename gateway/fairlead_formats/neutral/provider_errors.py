"""A provider's error in a neutral form, for clients that use another API than the provider.

Pure module. Errors of every family are read here, and written by the module `errors` of each family. The provider's
message is kept, unless the error is about an API key, because such a message may contain a part of the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from fairlead_formats.messages.call import member, text_of
from fairlead_formats.wire.errors import LlmError

ErrorKind = Literal[
    "invalid",
    "authentication",
    "billing",
    "permission",
    "not_found",
    "conflict",
    "too_large",
    "rate_limit",
    "api",
    "overloaded",
    "timeout",
]
MAX_MESSAGE: Final = 4096
"""Maximum number of characters of a provider's message that a client receives."""
_decode: Final = msgspec.json.Decoder().decode
_KINDS_BY_STATUS: Final[Mapping[int, ErrorKind]] = {
    401: "authentication",
    402: "billing",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    424: "api",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
_KINDS_BY_WORD: Final[Mapping[str, ErrorKind]] = {
    "context_length_exceeded": "too_large",
    "request_too_large": "too_large",
    "insufficient_quota": "billing",
    "billing_error": "billing",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "authentication_error": "authentication",
    "invalid_api_key": "authentication",
    "permission_error": "permission",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "conflict_error": "conflict",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "timeout_error": "timeout",
    "invalid_request_error": "invalid",
    "api_error": "api",
    "server_error": "api",
    "invalid_argument": "invalid",
    "failed_precondition": "invalid",
    "unauthenticated": "authentication",
    "permission_denied": "permission",
    "not_found": "not_found",
    "aborted": "conflict",
    "resource_exhausted": "rate_limit",
    "internal": "api",
    "unavailable": "overloaded",
    "deadline_exceeded": "timeout",
    "accessdeniedexception": "permission",
    "conflictexception": "conflict",
    "internalserverexception": "api",
    "modelerrorexception": "api",
    "modelnotreadyexception": "overloaded",
    "modelstreamerrorexception": "api",
    "modeltimeoutexception": "timeout",
    "resourcenotfoundexception": "not_found",
    "servicequotaexceededexception": "billing",
    "serviceunavailableexception": "overloaded",
    "throttlingexception": "rate_limit",
    "unrecognizedclientexception": "authentication",
    "validationexception": "invalid",
}


_TOO_LONG_TEXTS: Final = ("prompt is too long", "Input is too long for requested model")
"""Texts in messages with which Anthropic and Bedrock refuse a request that exceeds the context window."""


class ProviderRefusal(msgspec.Struct, frozen=True):
    """Error of a provider or of the gateway, in neutral form."""

    kind: ErrorKind
    message: str
    param: str | None = None
    code: str | None = None
    """Error code, if the error is the gateway's own; None for a provider's error."""


def refusal_of(status: int | None, body: bytes) -> ProviderRefusal:
    """Read a provider's error in the form of any family. `body`: a response body, or with `status` None the error
    object of a stream.
    """
    try:
        value = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = None
    if isinstance(value, list):
        value = value[0] if value else None
    error = member(value, "error") or value
    words = [text_of(member(error, name)).lower() for name in ("code", "type", "status", "__type")]
    kind = next((_KINDS_BY_WORD[word] for word in words if word in _KINDS_BY_WORD), None)
    if status is None:
        code = member(error, "code", "status")
        status = code if isinstance(code, int) and 400 <= code < 600 else None
    if status is not None and (kind is None or kind in ("invalid", "api")):
        kind = _KINDS_BY_STATUS.get(status, "invalid" if status < 500 else "api")
    message = text_of(error if isinstance(error, str) else member(error, "message", "Message"))[:MAX_MESSAGE]
    if kind == "invalid" and any(phrase in message for phrase in _TOO_LONG_TEXTS):
        kind = "too_large"
    if kind == "authentication":
        message = "the provider refused the API key"
    return ProviderRefusal(kind or "api", message or "the provider rejected the request without a message")


def refusal_of_error(error: LlmError) -> ProviderRefusal:
    """The neutral form of an error of the gateway."""
    kind = _KINDS_BY_STATUS.get(error.status, "invalid" if error.status < 500 else "api")
    return ProviderRefusal(kind, str(error), error.param, error.code)
