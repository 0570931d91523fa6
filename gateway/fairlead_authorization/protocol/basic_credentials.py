"""Client and secret in a header `Authorization: Basic` (RFC 6749 section 2.3.1). No I/O."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple
from urllib.parse import unquote_plus


class BasicCredentials(NamedTuple):
    """Client id, and its secret in each way in which clients encode it."""

    client_id: str
    secrets: tuple[str, ...]


def basic_credentials(authorization: str) -> BasicCredentials | None:
    """Read a header; None if it is of another kind or cannot be read.

    Both are form-encoded, but many clients send the secret as it is.
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
