"""Lists and ends sessions in the store of grants, for users and administrators."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from fairlead_authorization.clients.client import UnknownClient
from fairlead_authorization.clients.client_ids import document_address, is_document_id
from fairlead_authorization.clients.redirects import redirect_host
from fairlead_authorization.sessions import consents, session_record
from fairlead_authorization.sessions.session_ends import SessionEnds
from fairlead_authorization.sessions.session_record import is_in, session_id_of, session_key, session_of
from fairlead_gateway.identity.client_sign_ins import ClientSignIn, ClientSignIns
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, StoredGrant, UnreadableGrant


class _Sessions:
    """Container of the values of `GrantKey.server` whose records are sessions."""

    def __contains__(self, server: object) -> bool:
        return isinstance(server, str) and server.startswith(session_record.PREFIX)


class StoredSignIns(ClientSignIns):
    """Sign-ins in `store`. `now` is in seconds since the epoch."""

    def __init__(self, store: GrantStore, ends: SessionEnds, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._ends = ends
        self._now = now

    async def of(self, person: bytes) -> Sequence[ClientSignIn]:
        return self._list_sign_ins(await self._store.of_person(person))

    async def of_everybody(self) -> Sequence[ClientSignIn]:
        return self._list_sign_ins(await self._store.all_grants(_Sessions()))

    async def end(self, person: bytes, sign_in: str) -> ClientSignIn | None:
        key = session_key(person, sign_in)
        try:
            stored = await self._store.read(key)
        except UnreadableGrant:
            return None
        if stored is None or not self._is_listed(key, stored.grant) or not await self._ends.end(key, stored.grant):
            return None
        client = session_of(stored.grant).client_id
        await self._forget_consents(await self._store.of_person(person), client)
        return _sign_in(key, stored.grant)

    async def end_all(self, person: bytes) -> AsyncIterator[ClientSignIn]:
        records = await self._store.of_person(person)
        await self._forget_consents(records)
        for key, grant in records:
            is_session = session_id_of(key) and grant.session is not None
            if is_session and await self._ends.end(key, grant) and self._is_listed(key, grant):
                yield _sign_in(key, grant)

    # Internals

    def _is_listed(self, key: GrantKey, grant: StoredGrant) -> bool:
        return bool(session_id_of(key)) and grant.session is not None and is_in(grant, "active", self._now())

    def _list_sign_ins(self, records: Iterable[tuple[GrantKey, StoredGrant]]) -> list[ClientSignIn]:
        sign_ins = [_sign_in(key, grant) for key, grant in records if self._is_listed(key, grant)]
        return sorted(sign_ins, key=lambda each: (each.person, -each.used_at, each.id))

    async def _forget_consents(
        self, records: Iterable[tuple[GrantKey, StoredGrant]], client: str | None = None
    ) -> None:
        """Delete the person's consents to `client`; all consents if `client` is None."""
        for key, grant in records:
            if key.server.startswith(consents.PREFIX) and client in (None, grant.client_id):
                await self._store.delete(key)


def _sign_in(key: GrantKey, grant: StoredGrant) -> ClientSignIn:
    session = session_of(grant)
    return ClientSignIn(
        id=session_id_of(key),
        person=key.person,
        holder=grant.holder,
        client_id=session.client_id,
        name=session.client_name,
        host=_document_host(session.client_id),
        redirect_host=redirect_host(session.redirect_uri),
        agent=session.agent,
        resource=session.resource,
        scopes=session.scopes,
        began_at=grant.granted_at,
        used_at=max(grant.granted_at, grant.used_at),
        ends_at=session.ends_at,
    )


def _document_host(client_id: str) -> str:
    """Host of the document, if the client id is the URL of a document; else empty."""
    if not is_document_id(client_id):
        return ""
    try:
        return document_address(client_id).authority
    except UnknownClient:
        return ""  # a client that an administrator named may have any id
