"""Record of a stored grant, the same in all stores: person, server and issuer in the clear, the rest sealed. No I/O."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

import msgspec

from fairlead_mcp.oauth.stored_grant import GrantKey

MAX_RECORD_BYTES: Final = 14_336
"""Limit on the bytes of a record. One of a 2 kB grant has about 3 kB, and the largest session 11.5 kB, unless its
person or issuer is long.
"""


class SealedGrant(msgspec.Struct, frozen=True, rename="camel"):
    """A sealed grant. Every member but `sealed` is authenticated with it: no member can be changed, and no record can
    take the place of another one.
    """

    person: bytes
    server: str
    issuer: str
    version: str
    """Random, so that a record that was deleted and made again has another one."""
    key_id: str
    nonce: bytes
    sealed: bytes

    @property
    def key(self) -> GrantKey:
        return GrantKey(self.person, self.server)


def encode_record(record: SealedGrant) -> bytes:
    """The record as JSON."""
    return msgspec.json.encode(record)


def beginning_of_records(person: bytes) -> bytes:
    """Bytes with which records of this person begin, and no others; two of them may be left out."""
    return b'{"person":%b,"server":"' % msgspec.json.encode(person)


def decode_record(data: bytes) -> SealedGrant | None:
    """The record; None if the bytes are none, as after an edit by hand."""
    if len(data) > MAX_RECORD_BYTES:
        return None
    try:
        return msgspec.json.decode(data, type=SealedGrant)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def new_version() -> str:
    """A version that no record had before."""
    return secrets.token_urlsafe(12)


def record_name(key: GrantKey) -> str:
    """Name of a grant's record: 32 hexadecimal digits, which show neither person nor server."""
    return hashlib.blake2b(msgspec.json.encode(key), digest_size=16).hexdigest()
