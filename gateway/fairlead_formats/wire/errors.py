"""Errors of model endpoints, independent of the API of the client that gets them. Pure module.

A provider's error about its API key is replaced by one of the gateway, because its text may contain a part of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairlead_formats.wire.raw_json import decode_object

_MESSAGE: Final = "the provider refused the API key"
_WORDS: Final = frozenset(
    {"invalid_api_key", "authentication_error", "unauthenticated", "401", "unrecognizedclientexception"}
)


class LlmError(Exception):
    """An error that the gateway returns to a client."""

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
        """Code of a problem in the REST API, or `model_not_found`, `provider_unavailable`, `bad_answer`, `timeout`."""
        self.param = param
        self.headers = dict(headers or {})


def refused_key_error() -> LlmError:
    """The gateway's error for a rejected API key."""
    return LlmError(401, _MESSAGE, "invalid_api_key")


def hide_key(status: int, body: bytes, write: Callable[[LlmError], bytes]) -> tuple[int, bytes]:
    """Status and body of a provider's error. An error about the API key (401) is replaced by the gateway's error, which
    `write` encodes.
    """
    return status, write(refused_key_error()) if status == 401 or reports_refused_key(body) else body


def reports_refused_key(raw: bytes) -> bool:
    """Whether an error object, or a body that holds one, says that the API key was rejected."""
    body = decode_object(raw)
    nested_error = body.get("error")
    error = nested_error if isinstance(nested_error, dict) else body
    return any(str(error.get(name)).lower() in _WORDS for name in ("code", "type", "status", "__type"))
