"""Errors of endpoints in front of models, before a family writes them in its form, and refusals of a provider's key,
whose words may hold a part of it. Pure module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairlead_formats.wire.raw_json import decode_object

_MESSAGE: Final = "the provider refused the key"
_WORDS: Final = frozenset({"invalid_api_key", "authentication_error", "unauthenticated", "401"})


class LlmError(Exception):
    """An error that the gateway answers a client with."""

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
        """Code of the REST API's problems, or `model_not_found`, `provider_unavailable`, `bad_answer`, `timeout`."""
        self.param = param
        self.headers = dict(headers or {})


def key_refused() -> LlmError:
    """The refusal in the gateway's words."""
    return LlmError(401, _MESSAGE, "invalid_api_key")


def without_key(status: int, body: bytes, write: Callable[[LlmError], bytes]) -> tuple[int, bytes]:
    """A provider's refusal as it came, but one with a status of 401 in the gateway's words, in the form of `write`."""
    return status, write(key_refused()) if status == 401 or tells_of_key(body) else body


def tells_of_key(raw: bytes) -> bool:
    """Whether an error object, or a body that holds one, says that a key was refused."""
    body = decode_object(raw)
    inner = body.get("error")
    error = inner if isinstance(inner, dict) else body
    return any(str(error.get(name)).lower() in _WORDS for name in ("code", "type", "status"))
