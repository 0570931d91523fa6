"""Sessions of callers, and the results that are kept in them.

A session id is issued here and cannot be guessed; a caller with a credential may choose its own, since nobody else's
sessions have its account. An anonymous one may not: the id is all that tells its results from those of others.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.sealed.seals import Seal
from fairlead_gateway.context.store import ContextStore, ContextUnavailable, SessionEntry
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.route import Route

META_CONTEXT: Final = "fairlead.dev/context"
MAX_SESSION: Final = 128
"""Characters."""
_CHOSEN: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:-]{{0,{MAX_SESSION - 1}}}")
_ISSUED: Final = re.compile(r"([A-Za-z0-9_-]{16})\.([0-9a-f]{32})")
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(SessionEntry).decode


class BadSession(ValueError):
    """A session id that the caller may not use. The message says what to do."""


class ContextRecorder:
    """Sessions and records of one gateway. Without `store` nothing is kept. `clock`: seconds since the epoch."""

    def __init__(
        self,
        store: ContextStore | None,
        key: bytes = b"",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self._seal = Seal(key, "contexts")
        self._clock = clock

    def session(self, identity: Identity, wanted: str | None) -> str:
        """The session that a caller means; a new one where it names none. Raises BadSession."""
        if wanted is None:
            nonce = secrets.token_urlsafe(12)
            return f"{nonce}.{self._seal.mac(identity.owner, nonce)}"
        if self._may_name(identity, wanted):
            return wanted
        if identity.owner:
            raise BadSession(f"session_id: up to {MAX_SESSION} letters, digits, and any of . _ : -")
        raise BadSession(
            "session_id was not issued by this gateway; leave it out, and the result names the one to go on with"
        )

    def _may_name(self, identity: Identity, session: str) -> bool:
        """Whether the id is one that a caller may have: the store has accounts of other kinds too, some under ids that
        a provider made.
        """
        issued = _ISSUED.fullmatch(session)
        if identity.owner:
            return issued is not None or _CHOSEN.fullmatch(session) is not None
        return issued is not None and self._seal.verifies(issued[2], "", issued[1])

    def account(self, identity: Identity, session: str) -> str:
        """Account of a caller's session in the store: a principal's own, or one for each session of nobody's."""
        return f"{identity.kind} {identity.principal}" if identity.owner else f"anonymous {session}"

    async def append(
        self, identity: Identity, ident: str, tool: str, route: Route, arguments: bytes, result: bytes
    ) -> None:
        """Keep a result under the id of `new_entry`. Raises ContextUnavailable."""
        key = route.server.key
        session, _, number = ident.rpartition("/")  # a session id is a secret, and stands in no store
        entry = SessionEntry(number, self._clock(), tool, key.namespace, key.name, route.name, arguments, result)
        await self._readable().append(self.account(identity, session), session, ident, _encode(entry))

    async def entries(self, identity: Identity, session: str) -> list[SessionEntry]:
        """Entries of a caller's session, oldest first; none where it has no such session. Raises ContextUnavailable."""
        store = self._readable()
        if not self._may_name(identity, session):
            return []
        entries = [
            _with_whole_id(session, entry) for entry in await store.entries(self.account(identity, session), session)
        ]
        return sorted(entries, key=lambda entry: entry.at)

    async def entry(self, identity: Identity, ident: str) -> SessionEntry | None:
        """One entry of the caller's; None where it has none of that id. Raises ContextUnavailable."""
        session = ident.rpartition("/")[0]
        if not self._may_name(identity, session):
            return None
        entry = await self._readable().entry(self.account(identity, session), session, ident)
        return None if entry is None else _with_whole_id(session, entry)

    async def forget(self, identity: Identity, session: str) -> int:
        """Delete a session of the caller's; how many entries it had. Raises ContextUnavailable."""
        store = self._readable()
        return await store.delete(self.account(identity, session), session) if self._may_name(identity, session) else 0

    def _readable(self) -> ContextStore:
        if self.store is None:
            raise ContextUnavailable("this gateway keeps no results (FAIRLEAD_CONTEXT_BYTES is 0)")
        return self.store

    async def aclose(self) -> None:
        """Close the store."""
        if self.store is not None:
            await self.store.aclose()


def new_entry(session: str) -> str:
    """Id of a new entry of a session."""
    return f"{session}/{secrets.token_hex(4)}"


def _with_whole_id(session: str, stored: bytes) -> SessionEntry:
    """A stored entry under its whole id."""
    entry = _decode(stored)
    return msgspec.structs.replace(entry, id=f"{session}/{entry.id}")


def server_of(entry: SessionEntry) -> ServerKey:
    """Server that an entry's tool is of."""
    return ServerKey(entry.namespace, entry.server)
