"""Records of sessions: in the store of grants, and waiting records that could not be written yet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from fairlead_authorization.sessions.session import SessionStoreUnavailable
from fairlead_authorization.sessions.session_ends import SessionEnds
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.stored_grant import (
    GrantKey,
    GrantStore,
    GrantStoreError,
    StoredGrant,
    UnreadableGrant,
    VersionedGrant,
)
from fairlead_mcp.oauth.unsaved_grants import UnsavedGrants


class SessionRecords:
    """Records of sessions: in the store, and waiting records that could not be written yet. All methods raise
    SessionStoreUnavailable.
    """

    def __init__(self, store: GrantStore, ends: SessionEnds) -> None:
        self._store = store
        self._ends = ends
        self._unsaved = UnsavedGrants(store)

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        """A record; None if it is missing or unreadable."""
        try:
            await self._unsaved.save(key)
        except GrantFailed as error:
            raise SessionStoreUnavailable(str(error)) from error
        try:
            stored = await self._store.read(key)
        except UnreadableGrant:
            return None
        except GrantStoreError as error:
            raise SessionStoreUnavailable(str(error)) from error
        return None if stored is None or stored.grant.session is None else stored

    async def of_person(self, person: bytes) -> Sequence[tuple[GrantKey, StoredGrant]]:
        """All records of a person: sessions, consents, and grants for servers."""
        with _translate_store_errors():
            return await self._store.of_person(person)

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None) -> str | None:
        """Replace the version `replaces` of a record (None for any version). Returns the new version; None if the
        record has changed meanwhile.
        """
        with _translate_store_errors():
            return await self._store.write(key, grant, replaces)

    async def delete(self, key: GrantKey) -> bool:
        """Delete a consent, or a session that cannot be read."""
        with _translate_store_errors():
            return await self._store.delete(key)

    async def end(self, key: GrantKey, grant: StoredGrant, version: str | None = None) -> bool:
        """End a session; see `SessionEnds.end`."""
        with _translate_store_errors():
            return await self._ends.end(key, grant, version)

    def write_later(self, key: GrantKey, grant: StoredGrant, replaces: str) -> None:
        """Replace the version `replaces` of a record as soon as the store can be written."""
        self._unsaved.add(key, VersionedGrant(grant, replaces))

    async def aclose(self) -> None:
        await self._unsaved.aclose()


@contextlib.contextmanager
def _translate_store_errors() -> Iterator[None]:
    """Turn the failure of a store of grants into SessionStoreUnavailable."""
    try:
        yield
    except GrantStoreError as error:
        raise SessionStoreUnavailable(str(error)) from error
