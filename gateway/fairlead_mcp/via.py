"""Detection of loops between gateways, by the header `Via` (RFC 9110 section 7.6.3) and by handshakes. No I/O.

A request to a server has in `Via` the pseudonyms of all installations of Fairlead that it has passed. An installation
refuses a request with its own pseudonym, as a server's URL leads back to it, and a request with too many others.
Entries of other proxies are ignored and not passed on.

The header does not find every loop: a bridge may drop it, and each gateway reads lists from the next one only, so that
no request for a list passes through the whole loop. Therefore the result of a handshake also names the installations
behind the gateway that answers (`META_GATEWAYS`). A gateway refuses a server whose handshake names the gateway itself.
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
"""Limit for the installations in `Via`."""
META_GATEWAYS: Final = "fairlead.dev/gateways"
"""Member of `_meta` in a handshake: pseudonyms of the installation and of the installations behind its servers."""
MAX_NAMED: Final = 256
"""Limit for the pseudonyms in a handshake."""
VIA: Final = b"via"
_PREFIX: Final = "fairlead-"
_ENTRY: Final = re.compile(rb"(?<![\w-])fairlead-[0-9a-f]{16}(?![\w-])")


def pseudonym(token: str = "") -> str:
    """Make the pseudonym of an installation: derived from its secret `token`, else random.

    The derivation is slow on purpose, as servers see the result and the token may be short.
    """
    if not token:
        return _PREFIX + secrets.token_hex(8)
    return _PREFIX + hashlib.scrypt(token.encode(), salt=b"fairlead via", n=1 << 14, r=8, p=1, dklen=8).hex()


def header(name: str) -> dict[str, str]:
    """Make the header `Via` for requests of an installation; empty without a name."""
    return {"Via": f"1.1 {name}"} if name else {}


def explain_refusal(value: bytes, installation: str) -> str | None:
    """Explain why the installation `installation` refuses a request with this `Via`; None if it does not."""
    entries = _ENTRY.findall(value)
    if installation.encode() in entries:
        return "the request comes from this gateway itself: the URL of one of its servers leads back to it"
    if len(entries) > MAX_HOPS:
        return f"the request has passed more than {MAX_HOPS} gateways: their servers may lead to each other"
    return None


def make_via_line(value: bytes | None) -> bytes:
    """Make the header line with the installations in a received `Via`, for requests on behalf of that request."""
    entries = _ENTRY.findall(value) if value is not None else None
    return b"Via: %b\r\n" % b", ".join(b"1.1 " + entry for entry in entries[: MAX_HOPS + 1]) if entries else b""


def gateways(raw_names: Raw | None) -> tuple[str, ...]:
    """Decode the pseudonyms in a handshake (raw JSON of `META_GATEWAYS`); empty if they are malformed."""
    try:
        names = _decode_names(raw_names) if raw_names is not None else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    return tuple(name for name in names[:MAX_NAMED] if _ENTRY.fullmatch(name.encode("utf-8", "replace")))


def join_names(installation: str, others: Iterable[str]) -> list[str]:
    """Join the pseudonyms of an installation and of those behind its servers, for its handshake."""
    return [*dict.fromkeys((installation, *others))][:MAX_NAMED]


def refuse_own(names: Iterable[str], installation: str) -> None:
    """Raise McpError for a server whose tools come through the installation `installation`."""
    if installation and installation in names:
        raise McpError(
            "the server leads back to this gateway, which would list its own tools again",
            reason="LoopDetected",
        )


_decode_names = msgspec.json.Decoder(list[str]).decode
