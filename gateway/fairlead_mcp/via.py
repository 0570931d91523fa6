"""Whom a request has been through: the `Via` of gateways (RFC 9110 section 7.6.3), by which loops are found.

Pure module. Every request to a server names the installation that makes it, and those that it came from. An
installation that finds its own name refuses the request: a server's URL leads back to it. One that finds too many
others refuses it too. Entries of anything else are neither looked at nor passed on.

A bridge may drop the header, and lists are read one hop at a time. So each gateway says in its handshake which
installations its tools come through (`META_GATEWAYS`), and one that reads its own name there refuses the server.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_mcp.errors import McpError

MAX_HOPS: Final = 8
"""Installations that a request may have been through."""
META_GATEWAYS: Final = "fairlead.dev/gateways"
"""Member of `_meta` in the result of a handshake: names of the installation and of those behind its servers."""
MAX_NAMED: Final = 256
"""Names that a handshake has at most."""
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


def pass_on(value: bytes | None) -> bytes:
    """Header lines that name those whom a request came from, for what is made of it."""
    entries = _ENTRY.findall(value) if value is not None else None
    return b"Via: %b\r\n" % b", ".join(b"1.1 " + entry for entry in entries[: MAX_HOPS + 1]) if entries else b""


def gateways(named: Raw | None) -> tuple[str, ...]:
    """Installations that a handshake names (raw JSON of `META_GATEWAYS`); none where it has another shape."""
    try:
        names = _decode_names(named) if named is not None else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    return tuple(name for name in names[:MAX_NAMED] if _ENTRY.fullmatch(name.encode("utf-8", "replace")))


def together(own: str, others: Iterable[str]) -> list[str]:
    """Names for a handshake: the installation's own and those behind its servers."""
    return [*dict.fromkeys((own, *others))][:MAX_NAMED]


def refuse_own(names: Iterable[str], own: str) -> None:
    """Raises McpError for a server whose tools come through the installation `own`."""
    if own and own in names:
        raise McpError(
            "its tools come from this very gateway, through whatever it leads to: they would be listed over and over",
            reason="LoopDetected",
        )


_decode_names = msgspec.json.Decoder(list[str]).decode
