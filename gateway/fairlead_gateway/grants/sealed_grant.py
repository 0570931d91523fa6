"""Record of a stored grant, in the format of all stores: person, server and issuer are plain, all else is sealed."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

import msgspec

from fairlead_mcp.oauth.stored_grant import GrantKey

MAX_RECORD_BYTES: Final = 14_336
"""Maximum number of bytes of a record. The record of a 2 kB grant has about 3 kB. The record of the largest session has
11.5 kB, unless its person or issuer is long.
"""


class SealedGrant(msgspec.Struct, frozen=True, rename="camel"):
    """A sealed grant. All other members are authenticated together with `sealed`, so that no member can be changed, and
    no record can replace another record.
    """

    person: bytes
    server: str
    issuer: str
    version: str
    """Random version, so that a record that was deleted and created again has another version."""
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
    """Bytes with which all records of this person, and no other records, begin. The last two bytes may be left out."""
    return b'{"person":%b,"server":"' % msgspec.json.encode(person)


def decode_record(data: bytes) -> SealedGrant | None:
    """Decode a record; None if the bytes are not a record, for example after a manual change."""
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
    """Name of a grant's record: 32 hexadecimal digits, which reveal neither person nor server."""
    return hashlib.blake2b(msgspec.json.encode(key), digest_size=16).hexdigest()
