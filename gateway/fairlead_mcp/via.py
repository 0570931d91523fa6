"""Whom a request has been through: the `Via` of gateways (RFC 9110 section 7.6.3), by which loops are found.

Pure module. Every request to a server names the installation that makes it, and those that it came from. An
installation that finds its own name refuses the request: a server's URL leads back to it. One that finds too many
others refuses it too. Entries of anything else are neither looked at nor passed on.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

MAX_HOPS: Final = 8
"""Installations that a request may have been through."""
VIA: Final = b"via"
_PREFIX: Final = "fairlead-"
_ENTRY: Final = re.compile(rb"(?<![\w-])fairlead-[0-9a-f]{16}(?![\w-])")


def pseudonym(token: str = "") -> str:
    """The name of an installation in `Via`: the same wherever the secret `token` is, without one that of this process.

    It is derived slowly, as servers see it and a token may be short.
    """
    if not token:
        return _PREFIX + secrets.token_hex(8)
    return _PREFIX + hashlib.scrypt(token.encode(), salt=b"fairlead via", n=1 << 14, r=8, p=1, dklen=8).hex()


def header(name: str) -> dict[str, str]:
    """The header of a request that an installation makes."""
    return {"Via": f"1.1 {name}"} if name else {}


def refusal(value: bytes, own: str) -> str | None:
    """Why a request with this `Via` is not served by the installation `own`, as a sentence; None if it is."""
    entries = _ENTRY.findall(value)
    if own.encode() in entries:
        return "the request came from this very gateway: the URL of one of its servers leads back to it"
    if len(entries) > MAX_HOPS:
        return f"the request has been through more than {MAX_HOPS} gateways: their servers may lead to each other"
    return None


def passed_on(value: bytes | None) -> bytes:
    """Header lines that name those whom a request came from, for what is made of it."""
    entries = _ENTRY.findall(value) if value is not None else None
    return b"Via: %b\r\n" % b", ".join(b"1.1 " + entry for entry in entries[: MAX_HOPS + 1]) if entries else b""
