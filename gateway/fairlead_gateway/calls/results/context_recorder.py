"""Stores results in context sessions, for `retrieve_context` and `read_result`.

The gateway issues unguessable session ids. An authenticated client may also choose an id, because sessions are looked
up in the account of its principal only. An anonymous client may not: nothing but the secret id protects its results
from other anonymous clients.
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
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.route import Route
from fairlead_gateway.result_stores.store import ContextStore, ContextUnavailable, SessionEntry

META_CONTEXT: Final = "fairlead.dev/context"
MAX_SESSION: Final = 128
"""Limit on the characters of a session id."""
_CHOSEN_ID: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:-]{{0,{MAX_SESSION - 1}}}")
_ISSUED_ID: Final = re.compile(r"([A-Za-z0-9_-]{16})\.([0-9a-f]{32})")
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(SessionEntry).decode


class BadSession(ValueError):
    """A session id that the client may not use. The message says what to do."""


class ContextRecorder:
    """Context sessions of one gateway. Without `store` nothing is stored. `clock` is in seconds since the epoch."""

    def __init__(
        self,
        store: ContextStore | None,
        key: bytes = b"",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self._seal = Seal(key, "contexts")
        self._clock = clock

    def session(self, identity: Identity, session_id: str | None) -> str:
        """The session id to use for a client: `session_id`, or a new id if that is None. Raises BadSession."""
        if session_id is None:
            nonce = secrets.token_urlsafe(12)
            return f"{nonce}.{self._seal.mac(identity.owner, nonce)}"
        if self._may_use(identity, session_id):
            return session_id
        if identity.owner:
            raise BadSession(f"session_id must have at most {MAX_SESSION} letters, digits, and any of . _ : -")
        raise BadSession(
            "session_id was not issued by this gateway; omit it, and use the new one from the result in further calls"
        )

    def _may_use(self, identity: Identity, session: str) -> bool:
        """Whether a client may use a session id. The check also denies clients the entries that other parts of the
        gateway have in the same store, some under ids of model providers.
        """
        issued_id = _ISSUED_ID.fullmatch(session)
        if identity.owner:
            return issued_id is not None or _CHOSEN_ID.fullmatch(session) is not None
        return issued_id is not None and self._seal.verifies(issued_id[2], "", issued_id[1])

    def account(self, identity: Identity, session: str) -> str:
        """Name of the account that a session has in the store: one per principal, and one per anonymous session."""
        return f"{identity.kind} {identity.principal}" if identity.owner else f"anonymous {session}"

    async def append(
        self, identity: Identity, ident: str, tool: str, route: Route, arguments: bytes, result: bytes
    ) -> None:
        """Store a result under `ident`, an id of `new_entry`. Raises ContextUnavailable."""
        key = route.server.key
        session, _, number = ident.rpartition("/")  # a session id is a secret, and is not stored
        entry = SessionEntry(number, self._clock(), tool, key.namespace, key.name, route.name, arguments, result)
        await self._require_store().append(self.account(identity, session), session, ident, _encode(entry))

    async def entries(self, identity: Identity, session: str) -> list[SessionEntry]:
        """Entries of a client's session, oldest first; empty for an unknown session. Raises ContextUnavailable."""
        store = self._require_store()
        if not self._may_use(identity, session):
            return []
        entries = [
            _decode_entry(session, entry) for entry in await store.entries(self.account(identity, session), session)
        ]
        return sorted(entries, key=lambda entry: entry.at)

    async def entry(self, identity: Identity, ident: str) -> SessionEntry | None:
        """The client's entry with the id `ident`, or None. Raises ContextUnavailable."""
        session = ident.rpartition("/")[0]
        if not self._may_use(identity, session):
            return None
        entry = await self._require_store().entry(self.account(identity, session), session, ident)
        return None if entry is None else _decode_entry(session, entry)

    async def forget(self, identity: Identity, session: str) -> int:
        """Delete a session of the client. Returns the number of its entries. Raises ContextUnavailable."""
        store = self._require_store()
        return await store.delete(self.account(identity, session), session) if self._may_use(identity, session) else 0

    def _require_store(self) -> ContextStore:
        if self.store is None:
            raise ContextUnavailable("this gateway does not store results (FAIRLEAD_CONTEXT_BYTES is 0)")
        return self.store

    async def aclose(self) -> None:
        """Close the store."""
        if self.store is not None:
            await self.store.aclose()


def new_entry(session: str) -> str:
    """A new id for an entry of a session: the session's id, a slash, and a random number."""
    return f"{session}/{secrets.token_hex(4)}"


def _decode_entry(session: str, stored: bytes) -> SessionEntry:
    """Decode a stored entry, and put the session in front of its id, which is stored without the session."""
    entry = _decode(stored)
    return msgspec.structs.replace(entry, id=f"{session}/{entry.id}")


def server_of(entry: SessionEntry) -> ServerKey:
    """Server of an entry's tool."""
    return ServerKey(entry.namespace, entry.server)
