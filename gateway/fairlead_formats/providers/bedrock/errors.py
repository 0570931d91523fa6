"""Errors in the form of AWS's REST APIs: `{"__type": "ValidationException", "message": …}`. Pure module.

Source: Smithy, AWS restJson1 protocol, "Operation error serialization": the type is in the header `x-amzn-errortype`,
or in the body as `code` or `__type`. The text of AWS's errors about credentials is not passed on: it contains names of
the account's users and roles, and the request that was signed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import member, text_of
from fairlead_formats.neutral.provider_errors import ErrorKind, ProviderRefusal
from fairlead_formats.wire.errors import LlmError, refused_key_error
from fairlead_formats.wire.raw_json import decode_object

_TYPES: Final[Mapping[int, str]] = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    402: "ServiceQuotaExceededException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    409: "ConflictException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    502: "ServiceUnavailableException",
    503: "ServiceUnavailableException",
    504: "ModelTimeoutException",
}
_BY_KIND: Final[Mapping[ErrorKind, tuple[int, str]]] = {
    "invalid": (400, "ValidationException"),
    "authentication": (403, "UnrecognizedClientException"),
    "billing": (400, "ServiceQuotaExceededException"),
    "permission": (403, "AccessDeniedException"),
    "not_found": (404, "ResourceNotFoundException"),
    "conflict": (409, "ConflictException"),
    "too_large": (400, "ValidationException"),
    "rate_limit": (429, "ThrottlingException"),
    "api": (500, "InternalServerException"),
    "overloaded": (503, "ServiceUnavailableException"),
    "timeout": (408, "ModelTimeoutException"),
}
_STREAM_EXCEPTIONS: Final[Mapping[str, str]] = {
    "InternalServerException": "internalServerException",
    "ServiceQuotaExceededException": "throttlingException",
    "ServiceUnavailableException": "serviceUnavailableException",
    "ThrottlingException": "throttlingException",
    "ValidationException": "validationException",
}
"""Maps the type of an error to the name of the exception in a stream; `modelStreamErrorException` for other types."""
_CREDENTIAL_ERROR: Final = re.compile(
    r"not authorized to perform|security token|request signature|signature expired|authentication failed|api key"
    r"|authentication token|credential",
    re.IGNORECASE,
)
"""Texts in messages of AWS about credentials, which clients do not receive."""
_encode: Final = msgspec.json.Encoder().encode


def error_object(error: LlmError) -> dict[str, str]:
    """An error of the gateway in AWS's form. The member `reason` is an addition of the gateway."""
    default_type = "InternalServerException" if error.status >= 500 else "ValidationException"
    return {"__type": _TYPES.get(error.status, default_type), "message": str(error), "reason": error.code}


def error_body(error: LlmError) -> bytes:
    """The body of an error response."""
    return _encode(error_object(error))


def write_refusal(refusal: ProviderRefusal) -> tuple[int, dict[str, Any]]:
    """HTTP status and body for an error that a provider of another family sent."""
    status, kind = _BY_KIND[refusal.kind]
    return status, {"__type": kind, "message": refusal.message}


def refusal_body(error: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an error response with this error."""
    return dict(error)


def error_in(body: bytes) -> bytes | None:
    """The error object of a provider's error response; None for a body that has none."""
    error = decode_object(body)
    message = text_of(member(error, "message", "Message"))
    if not message:
        return None
    if _CREDENTIAL_ERROR.search(message):
        return error_body(refused_key_error())
    return _encode({"__type": text_of(member(error, "__type", "code")) or "ModelErrorException", "message": message})


def write_provider_refusal(status: int, body: bytes) -> tuple[int, bytes]:
    """Status and body of a provider's error response for the client. The provider states the type of the error in a
    header that clients do not receive, so it is written into the body.
    """
    error = decode_object(body)
    message = text_of(member(error, "message", "Message"))
    if status in (401, 403) and _CREDENTIAL_ERROR.search(message):
        return status, error_body(refused_key_error())
    kind = text_of(member(error, "__type", "code")) or _TYPES.get(status, "InternalServerException")
    return status, _encode({**error, "__type": kind, "message": message})


def exception_of(name: str, payload: object) -> bytes:
    """The error object of an exception in a stream. `name`: name of the exception, such as `throttlingException`, or
    `error` for a payload that states its type in the member `code`.
    """
    name = text_of(member(payload, "code")) or name
    message = text_of(member(payload, "message", "Message"))
    return _encode({"__type": name[:1].upper() + name[1:], "message": message or f"the stream ended with {name}"})


def name_in_streams(error: Mapping[str, Any]) -> str:
    """Name of the exception that reports an error in a stream."""
    return _STREAM_EXCEPTIONS.get(text_of(error.get("__type")), "modelStreamErrorException")
