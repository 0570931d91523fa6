"""Selects the usable public keys of clients that sign assertions (`private_key_jwt`, RFC 7523). No I/O."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

MAX_KEYS: Final = 16
"""Limit on the keys of one client; further ones are ignored."""
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "EC": ("crv", "kty", "x", "y"),
    "OKP": ("crv", "kty", "x"),
    "RSA": ("e", "kty", "n"),
}
"""Members of public keys by type, in the order of RFC 7638 section 3.2. All types are asymmetric."""
_OPTIONAL_MEMBERS: Final = ("kid", "alg", "use")
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_MIN_RSA_BITS: Final = 2_048
_MAX_RSA_BITS: Final = 8_192
"""Maximum size of a key; longer keys would make verification slow."""


class BadKeySet(ValueError):
    """A key set without usable keys. The message is the end of a sentence."""


class _ClientKeySet(msgspec.Struct):
    keys: list[Any]


def read_key_set(data: bytes) -> tuple[dict[str, Any], ...]:
    """Read a key set (RFC 7517 section 5). Raises BadKeySet."""
    try:
        return usable_keys(msgspec.json.decode(data, type=_ClientKeySet).keys)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadKeySet("is not a key set in JSON") from None


def usable_keys(keys: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """The usable keys of a client, reduced to the members that matter. Unusable keys are left out.

    Raises BadKeySet if no key is usable, or if a key contains its private part, which is then no longer secret.
    """
    # imported late, because few clients have keys and the import takes a second
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry

    usable = []
    for key in list(keys)[:MAX_KEYS]:
        if not isinstance(key, dict) or not isinstance(key.get("kty"), str):
            continue
        if _PRIVATE & key.keys():
            raise BadKeySet("has a private or shared key, which others know: publish public keys alone, of a new pair")
        members = _MEMBERS.get(key["kty"])
        if members is None or key.get("use", "sig") != "sig":
            continue
        public = {name: key[name] for name in (*members, *_OPTIONAL_MEMBERS) if isinstance(key.get(name), str)}
        try:
            if key["kty"] == "RSA" and not _MIN_RSA_BITS <= _modulus_bits(public["n"]) <= _MAX_RSA_BITS:
                continue
            JWKRegistry.import_key(public)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        usable.append(public)
    if not usable:
        raise BadKeySet(f"has no usable public key for signatures, such as RSA of {_MIN_RSA_BITS} bits or EC")
    return tuple(usable)


def _modulus_bits(encoded: str) -> int:
    """Bits of a modulus in base64url. Raises ValueError."""
    return int.from_bytes(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)), "big").bit_length()


def thumbprint(key: Mapping[str, Any]) -> str:
    """SHA-256 of a usable key (RFC 7638), hexadecimal."""
    members = {name: key[name] for name in _MEMBERS[key["kty"]]}
    return hashlib.sha256(msgspec.json.encode(members)).hexdigest()
