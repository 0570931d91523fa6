"""Refusals of the key that a provider was sent. A provider's words about it may hold a part of it. Pure module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.raw_json import decoded

_MESSAGE: Final = "the provider refused the key"
_WORDS: Final = frozenset({"invalid_api_key", "authentication_error", "unauthenticated", "401"})


def key_refused() -> LlmError:
    """The refusal in the gateway's words."""
    return LlmError(401, _MESSAGE, "invalid_api_key")


def without_key(status: int, body: bytes, write: Callable[[LlmError], bytes]) -> tuple[int, bytes]:
    """A provider's refusal as it came, but one with a status of 401 in the gateway's words, in the form of `write`."""
    return status, write(key_refused()) if status == 401 or tells_of_key(body) else body


def tells_of_key(raw: bytes) -> bool:
    """Whether an error object, or a body that holds one, says that a key was refused."""
    found = decoded(raw)
    inner = found.get("error")
    error = inner if isinstance(inner, dict) else found
    return any(str(error.get(name)).lower() in _WORDS for name in ("code", "type", "status"))
