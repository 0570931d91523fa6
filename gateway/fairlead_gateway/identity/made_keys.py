"""Keys that people make for themselves: who may, what such a key is worth, and where it is kept.

A made key is its maker under another credential: the same principal, agent, groups and claims, so that every policy
that holds for the one holds for the other, and limits and audit count both as one. It administers nothing, makes no
keys, and ends with the API key that it was made with, if it was one.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

import msgspec

from fairlead_api.policies.subjects import Key
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.key_format import BadKeys, KeyDocument, KeyMaker, KeyRecord, encode_keys, new_key, read

MOST_CLAIMS: Final = 4096
"""Bytes of a maker's claims, as JSON, that are kept with a key."""
MOST_BYTES: Final = 512 << 10
"""Bytes of all made keys: a Secret holds a megabyte."""
MOST_NAME: Final = 64
"""Characters of a key's name."""
EVERYBODY: Final = "*"
"""In place of a group: everybody with a credential."""
Change = Callable[[KeyDocument], KeyDocument]


class KeysRefused(Exception):
    """A key is not made or revoked; the message says why and what to do."""


class KeysUnwritable(Exception):
    """The place of keys cannot be read or written now; the message says why."""


class KeyStore(Protocol):
    """Place that made keys are written to. Every replica watches the same."""

    async def load(self) -> KeyDocument:
        """The keys now. Raises KeysUnwritable."""
        ...

    async def change(self, change: Change) -> None:
        """Read, change, write, again where somebody else wrote in between. Raises KeysUnwritable, and as `change`."""
        ...


class FileKeyStore:
    """A file of one gateway, readable by its owner alone. `tell` takes what was written, as the file is looked at again
    only after a while, and a new key is used at once.
    """

    def __init__(self, path: Path, tell: Callable[[KeyDocument], None]) -> None:
        self._path = path
        self._tell = tell
        self._writing = asyncio.Lock()

    async def load(self) -> KeyDocument:
        """Implements KeyStore."""
        return await asyncio.to_thread(self._read)

    async def change(self, change: Change) -> None:
        """Implements KeyStore."""
        async with self._writing:
            document = change(await self.load())
            await asyncio.to_thread(self._write, document)
            self._tell(document)

    def _read(self) -> KeyDocument:
        try:
            return read(self._path.read_bytes())
        except FileNotFoundError:
            return KeyDocument()
        except (OSError, BadKeys) as error:
            raise KeysUnwritable(f"{self._path} cannot be used: {error}") from error

    def _write(self, document: KeyDocument) -> None:
        try:
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:  # its mode is 0600
                file.write(encode_keys(document.keys))
            os.replace(file.name, self._path)  # noqa: PTH105  # Path.replace takes no name
        except OSError as error:
            raise KeysUnwritable(f"{self._path} cannot be written: {error}") from error


class MadeKeys:
    """Makes, lists and revokes keys, for those who may."""

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
        """`makers` are keys of groups; `days` the longest life of a key, `each` the most keys of one principal."""
        self._store = store
        self._makers = frozenset(makers)
        self._everybody = everybody
        self.days = days
        self.each = each
        self._now = now

    def may(self, identity: Identity, subjects: Collection[Key]) -> bool:
        """Whether a principal may make keys; `subjects` are the names that policies know it by."""
        if identity.made or identity.kind not in ("apiKey", "jwt"):
            return False
        sure = (key for key in subjects if key not in identity.doubtful)
        return self._everybody or not self._makers.isdisjoint(sure)

    async def make(self, identity: Identity, name: str, days: int) -> tuple[str, KeyRecord]:
        """A key for the principal, shown once, and its record. Raises KeysRefused, KeysUnwritable."""
        name = name.strip()
        if not name or len(name) > MOST_NAME or not name.isprintable():
            raise KeysRefused(f"a key needs a name of at most {MOST_NAME} printable characters")
        if not 1 <= days <= self.days:
            raise KeysRefused(f"a key lives for 1 to {self.days} days here")
        claims = msgspec.json.encode(dict(identity.claims))
        if len(claims) > MOST_CLAIMS:
            raise KeysRefused(f"your token has more than {MOST_CLAIMS} bytes of claims: ask an operator for a key")
        now = self._now()
        ends = now + timedelta(days=days)
        key, record = new_key(identity.agent or "", sorted(identity.groups), now=now, expires=ends)
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

        def added(document: KeyDocument) -> KeyDocument:
            alive = [key for key in document.keys if key.expires_at > now.timestamp()]
            if sum(_is_of(key, identity) for key in alive) >= self.each:
                raise KeysRefused(f"you have {self.each} keys, and may have no more: revoke one of them")
            made = KeyDocument((*alive, record))
            if len(encode_keys(made.keys)) > MOST_BYTES:
                raise KeysRefused("this gateway keeps no more keys: ask an operator to revoke some")
            return made

        await self._store.change(added)
        return key, record

    async def all(self) -> tuple[KeyRecord, ...]:
        """Made keys of everybody that are good, oldest first. Raises KeysUnwritable."""
        now = self._now().timestamp()
        document = await self._store.load()
        return tuple(key for key in document.keys if key.maker is not None and key.expires_at > now)

    async def of(self, identity: Identity) -> tuple[KeyRecord, ...]:
        """Made keys of a principal. Raises KeysUnwritable."""
        return tuple(key for key in await self.all() if _is_of(key, identity))

    async def revoke(self, identity: Identity, ident: str, *, anybodys: bool) -> KeyRecord:
        """Take out a key of the principal, or, with `anybodys`, of anybody. Raises KeysRefused, KeysUnwritable."""
        gone: list[KeyRecord] = []

        def without(document: KeyDocument) -> KeyDocument:
            gone[:] = [key for key in document.keys if key.id == ident and (anybodys or _is_of(key, identity))]
            if not gone or gone[0].maker is None:
                raise KeysRefused(f"there is no key {ident[:16]!r} of yours")
            return KeyDocument(tuple(key for key in document.keys if key is not gone[0]))

        await self._store.change(without)
        return gone[0]


def _is_of(record: KeyRecord, identity: Identity) -> bool:
    return record.maker is not None and record.maker.principal == identity.principal
