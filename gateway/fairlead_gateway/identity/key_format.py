"""Format of API keys, their stored records, and the document of records.

A key is `flk_<id>_<secret>` with a secret of 32 random bytes. The record has the id and the SHA-256 of the whole key.
The secret cannot be guessed, so a slow hash, as for passwords, would add no protection, but would allow attackers to
keep the gateway busy. The id is not secret: it selects the record, and names the key in logs and lists.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from fairlead_mcp.misread_values import explain_misreading

PREFIX: Final = "flk_"
"""Prefix of keys, by which scanners can find leaked ones."""
MEMBER: Final = "keys.json"
"""Key in the data of a Secret whose value is a document of keys."""
LABEL: Final = "fairlead.dev/api-keys"
"""Label of Secrets with API keys; its value is `true`."""
_KEY: Final = re.compile(r"flk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")


class KeyMaker(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Principal that created a key for itself, as authenticated at that time. The key authenticates this principal."""

    principal: str
    kind: Literal["apiKey", "jwt"]
    """Kind of the principal's credential when it created the key."""
    issuers: tuple[str, ...]
    name: str
    """Name of the key that the principal chose."""
    scopes: tuple[str, ...] = ()
    claims: dict[str, Any] = {}
    credential: str = ""
    """Id of the API key with which this key was created. This key becomes invalid with that API key."""


class KeyRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Stored record of one key."""

    id: str
    hash: str
    """SHA-256 of the key, hexadecimal."""
    agent: str
    groups: tuple[str, ...] = ()
    created: str = ""
    """Creation time (RFC 3339)."""
    expires: str = ""
    """Expiry (RFC 3339); empty for a key that does not expire."""
    maker: KeyMaker | None = None
    """Principal that created the key at a gateway; None for a key created by an administrator."""

    @property
    def expires_at(self) -> float:
        """Expiry in seconds since the epoch; infinite without expiry. Raises ValueError if `expires` is invalid."""
        return datetime.fromisoformat(self.expires).timestamp() if self.expires else float("inf")


class KeyDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of a file of keys, or of `keys.json` in a Secret."""

    keys: tuple[KeyRecord, ...] = ()


class BadKeys(ValueError):
    """A document of keys is invalid. The message quotes none of its content."""


def read(data: bytes) -> KeyDocument:
    """Decode a document of keys; empty data is an empty document. Raises BadKeys."""
    if not data.strip():
        return KeyDocument()
    try:
        document = msgspec.json.decode(data, type=KeyDocument)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadKeys(
            f'the text must be JSON of the form {{"keys": [...]}}: {explain_misreading(error, "it")}'
        ) from None
    for record in document.keys:
        try:
            _ = record.expires_at
        except ValueError:
            raise BadKeys(f"expires of key {record.id[:12]!r} is not a valid RFC 3339 time") from None
    ids: set[str] = set()
    for record in document.keys:
        if record.id in ids:
            raise BadKeys(f"two keys have the id {record.id[:12]!r}: remove one of them")
        ids.add(record.id)
    return document


def encode_keys(records: Iterable[KeyRecord]) -> bytes:
    """Encode a document of keys as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(KeyDocument(tuple(records))), indent=2) + b"\n"


def new_key(
    agent: str,
    groups: Iterable[str] = (),
    *,
    now: datetime,
    expires: datetime | None = None,
    random: Callable[[int], bytes] = secrets.token_bytes,
) -> tuple[str, KeyRecord]:
    """Create a key, which is shown once, and its record, which is stored."""
    ident = random(6).hex()
    key = f"{PREFIX}{ident}_{_text(random(32))}"
    ends = "" if expires is None else _time(expires)
    return key, KeyRecord(ident, digest(key), agent, tuple(groups), _time(now), ends)


def id_of(key: str) -> str | None:
    """The id in an API key; None if the text is not an API key."""
    match = _KEY.fullmatch(key)
    return None if match is None else match[1]


def digest(key: str) -> str:
    """Hash of a key as stored in its record."""
    return hashlib.sha256(key.encode()).hexdigest()


def _text(secret: bytes) -> str:
    return base64.urlsafe_b64encode(secret).rstrip(b"=").decode()


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
