"""Client and secret in a header `Authorization: Basic` (RFC 6749 section 2.3.1). No I/O."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple
from urllib.parse import unquote_plus


class BasicCredentials(NamedTuple):
    """Client id, and all possible values of the secret, because clients encode it differently."""

    client_id: str
    secrets: tuple[str, ...]


def basic_credentials(authorization: str) -> BasicCredentials | None:
    """Parse a header; None if it has another scheme or is invalid.

    Id and secret should be form-encoded, but many clients send the secret unencoded.
    """
    kind, _, pair = authorization.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        text = base64.b64decode(pair.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    client_id, _, secret = text.partition(":")
    return BasicCredentials(unquote_plus(client_id), tuple(dict.fromkeys((unquote_plus(secret), secret))))
