"""API keys that principals create for themselves: permission to create, listing, revocation and storage.

A created key authenticates its creator: it has the same principal, agent, groups and claims. So policies apply to it as
to the creator, and limits and audit entries count for the creator. It cannot administer or create keys. If it was
created with an API key, it becomes invalid with that key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

import msgspec

from fairlead_api.policies.subjects import Key
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.grants.private_files import replace_whole
from fairlead_gateway.identity.key_format import BadKeys, KeyDocument, KeyMaker, KeyRecord, encode_keys, new_key, read

MAX_CLAIM_BYTES: Final = 4096
"""Maximum number of bytes of the creator's claims, as JSON, in the record of a key."""
MAX_BYTES: Final = 512 << 10
"""Maximum number of bytes of all created keys, because a Secret is limited to 1 MiB."""
MAX_NAME_CHARACTERS: Final = 64
"""Maximum number of characters of a key's name."""
EVERYBODY: Final = "*"
"""In a list of groups, stands for every principal with a credential."""
Change = Callable[[KeyDocument], KeyDocument]


class KeysRefused(Exception):
    """A key cannot be created or revoked; the message says why and what to do."""


class KeysUnwritable(Exception):
    """The store of keys cannot be read or written; the message says why."""


class KeyStore(Protocol):
    """Store of created keys, which all replicas watch."""

    async def load(self) -> KeyDocument:
        """Read the keys. Raises KeysUnwritable."""
        ...

    async def change(self, change: Change) -> None:
        """Read the keys, apply `change` and write them; repeat after a conflict. Raises KeysUnwritable, and the errors
        of `change`.
        """
        ...


class FileKeyStore:
    """Store in a file of one gateway, which only its owner can read. `deliver` receives the written document at once,
    because a new key may be used before the next check of the file for changes.
    """

    def __init__(self, path: Path, deliver: Callable[[KeyDocument], None]) -> None:
        self._path = path
        self._deliver = deliver
        self._write_lock = asyncio.Lock()

    async def load(self) -> KeyDocument:
        """Implements KeyStore."""
        return await asyncio.to_thread(self._read)

    async def change(self, change: Change) -> None:
        """Implements KeyStore."""
        async with self._write_lock:
            document = change(await self.load())
            await asyncio.to_thread(self._write, document)
            self._deliver(document)

    def _read(self) -> KeyDocument:
        try:
            return read(self._path.read_bytes())
        except FileNotFoundError:
            return KeyDocument()
        except (OSError, BadKeys) as error:
            raise KeysUnwritable(f"the API keys in {self._path} cannot be read: {error}") from error

    def _write(self, document: KeyDocument) -> None:
        try:
            replace_whole(self._path, encode_keys(document.keys))
        except OSError as error:
            raise KeysUnwritable(f"the API keys cannot be written to {self._path}: {error}") from error


class MadeKeys:
    """Creates, lists and revokes API keys of principals."""

    def __init__(
        self,
        store: KeyStore,
        makers: Collection[Key],
        *,
        everybody: bool,
        days: int,
        each: int,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Set the limits. `makers` are the groups that may create keys; with `everybody`, every principal may. `days`
        is the longest lifetime of a key, and `each` the most keys per principal.
        """
        self._store = store
        self._makers = frozenset(makers)
        self._everybody = everybody
        self.days = days
        self.each = each
        self._now = now

    def may_create(self, identity: Identity, subjects: Collection[Key]) -> bool:
        """Whether a principal may create keys; `subjects` are its names in policies. A key is valid for all paths, so a
        token for one path may not create keys. A key outlives sign-ins, so a token that the gateway issued may not
        create keys either.
        """
        is_restricted = identity.is_created_key or identity.resource or identity.issued_here
        if is_restricted or identity.kind not in ("apiKey", "jwt"):
            return False
        unambiguous_names = (key for key in subjects if key not in identity.doubtful)
        return self._everybody or not self._makers.isdisjoint(unambiguous_names)

    async def make(self, identity: Identity, name: str, days: int) -> tuple[str, KeyRecord]:
        """Create a key for the principal; returns the key, which is shown once, and its record. Raises KeysRefused,
        KeysUnwritable.
        """
        name = name.strip()
        if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
            raise KeysRefused(f"a key needs a name of at most {MAX_NAME_CHARACTERS} printable characters")
        if not 1 <= days <= self.days:
            raise KeysRefused(f"the lifetime of a key must be 1 to {self.days} days")
        claims = msgspec.json.encode(dict(identity.claims))
        if len(claims) > MAX_CLAIM_BYTES:
            raise KeysRefused(
                f"your token has more than {MAX_CLAIM_BYTES} bytes of claims: ask an administrator for a key"
            )
        now = self._now()
        expires = now + timedelta(days=days)
        key, record = new_key(identity.agent or "", sorted(identity.groups), now=now, expires=expires)
        maker = KeyMaker(
            principal=identity.principal,
            kind="jwt" if identity.kind == "jwt" else "apiKey",
            issuers=identity.issuers,
            name=name,
            scopes=tuple(sorted(identity.scopes)),
            claims=dict(identity.claims),
            credential=identity.credential if identity.kind == "apiKey" else "",
        )
        record = msgspec.structs.replace(record, maker=maker)

        def add_record(document: KeyDocument) -> KeyDocument:
            valid_keys = [key for key in document.keys if key.expires_at > now.timestamp()]
            if sum(_is_of(key, identity) for key in valid_keys) >= self.each:
                raise KeysRefused(f"you already have {self.each} keys, the most that you may have: revoke one of them")
            new_document = KeyDocument((*valid_keys, record))
            if len(encode_keys(new_document.keys)) > MAX_BYTES:
                raise KeysRefused("the gateway cannot store more keys: ask an administrator to revoke some")
            return new_document

        await self._store.change(add_record)
        return key, record

    async def all(self) -> tuple[KeyRecord, ...]:
        """Valid created keys of all principals, oldest first. Raises KeysUnwritable."""
        now = self._now().timestamp()
        document = await self._store.load()
        return tuple(key for key in document.keys if key.maker is not None and key.expires_at > now)

    async def of(self, identity: Identity) -> tuple[KeyRecord, ...]:
        """Valid keys that a principal created, oldest first. Raises KeysUnwritable."""
        return tuple(key for key in await self.all() if _is_of(key, identity))

    async def revoke(self, identity: Identity, ident: str, *, of_anyone: bool) -> KeyRecord:
        """Revoke a created key of the principal, or of any principal with `of_anyone`, and return its record. Raises
        KeysRefused, KeysUnwritable.
        """
        revoked: list[KeyRecord] = []

        def remove_record(document: KeyDocument) -> KeyDocument:
            revoked[:] = [key for key in document.keys if key.id == ident and (of_anyone or _is_of(key, identity))]
            if not revoked or revoked[0].maker is None:
                raise KeysRefused(f"you have no key with the id {ident[:16]!r}")
            return KeyDocument(tuple(key for key in document.keys if key is not revoked[0]))

        await self._store.change(remove_record)
        return revoked[0]


def _is_of(record: KeyRecord, identity: Identity) -> bool:
    return record.maker is not None and record.maker.principal == identity.principal
