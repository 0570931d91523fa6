"""API keys: their form, their stored hashes, and the document that holds them.

Pure module but for the randomness given. A key is `flk_<id>_<secret>`, its secret 32 random bytes. Kept are the id, and
the SHA-256 of the whole key: with 256 bits of randomness there is nothing to guess, so a slow hash, which passwords
need, would protect nothing and would let anybody keep the gateway busy. The id is not a secret: it finds the one record
to compare with, in logs and lists it names the key.
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

PREFIX: Final = "flk_"
"""So that scanners for leaked credentials can find them."""
MEMBER: Final = "keys.json"
"""Member of a Secret that holds keys."""
LABEL: Final = "fairlead.dev/api-keys"
"""With the value `true`, of such a Secret."""
_KEY: Final = re.compile(r"flk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")


class KeyMaker(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Principal that made a key for itself, as it was then. The key stands for it."""

    principal: str
    kind: Literal["apiKey", "jwt"]
    """Kind of the credential that it made the key with."""
    issuers: tuple[str, ...]
    name: str
    """Name that it gave the key."""
    scopes: tuple[str, ...] = ()
    claims: dict[str, Any] = {}
    credential: str = ""
    """Id of the API key that it made this with: this one ends with it."""


class KeyRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Stored record of one key."""

    id: str
    hash: str
    """SHA-256 of the key, hexadecimal."""
    agent: str
    groups: tuple[str, ...] = ()
    created: str = ""
    """RFC 3339; so is `expires`, after which it is refused."""
    expires: str = ""
    maker: KeyMaker | None = None
    """Principal that made it at a gateway; None for a key that an operator made."""

    @property
    def expires_at(self) -> float:
        """Seconds since the epoch; infinite for a key that does not expire. Raises ValueError for no time."""
        return datetime.fromisoformat(self.expires).timestamp() if self.expires else float("inf")


class KeyDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of keys, or the member `keys.json` of a Secret."""

    keys: tuple[KeyRecord, ...] = ()


class BadKeys(ValueError):
    """A document of keys that cannot be used. The message quotes nothing of it."""


def read(data: bytes) -> KeyDocument:
    """The document; an empty one of no bytes. Raises BadKeys."""
    if not data.strip():
        return KeyDocument()
    try:
        document = msgspec.json.decode(data, type=KeyDocument)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadKeys(f'must be JSON of the form {{"keys": [...]}}: {error}') from None
    for record in document.keys:
        try:
            _ = record.expires_at
        except ValueError:
            raise BadKeys(f"the key {record.id[:12]!r} expires at no time of RFC 3339") from None
    if len({record.id for record in document.keys}) < len(document.keys):
        raise BadKeys("two keys have the same id")
    return document


def encode_keys(records: Iterable[KeyRecord]) -> bytes:
    """The document, for people too."""
    return msgspec.json.format(msgspec.json.encode(KeyDocument(tuple(records))), indent=2) + b"\n"


def new_key(
    agent: str,
    groups: Iterable[str] = (),
    *,
    now: datetime,
    expires: datetime | None = None,
    random: Callable[[int], bytes] = secrets.token_bytes,
) -> tuple[str, KeyRecord]:
    """A key, which is shown once, and what is kept of it."""
    ident = random(6).hex()
    key = f"{PREFIX}{ident}_{_text(random(32))}"
    ends = "" if expires is None else _time(expires)
    return key, KeyRecord(ident, digest(key), agent, tuple(groups), _time(now), ends)


def id_of(key: str) -> str | None:
    """The id in a key; None for what is none."""
    match = _KEY.fullmatch(key)
    return None if match is None else match[1]


def digest(key: str) -> str:
    """Stored hash of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


def _text(secret: bytes) -> str:
    return base64.urlsafe_b64encode(secret).rstrip(b"=").decode()


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
