"""Registrations of the gateway as a client, which the store of grants keeps: one for each issuer and redirect URI."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from fairlead_mcp.http.target import InvalidTarget, Target
from fairlead_mcp.oauth.errors import DISCOVERY, GRANT_STORE, GRANT_UNREADABLE, GrantFailed
from fairlead_mcp.oauth.metadata import AuthorizationServerMetadata, require_confidential
from fairlead_mcp.oauth.registration import (
    authentication_method,
    by_hand,
    is_current,
    read_registration,
    registration_request,
)
from fairlead_mcp.oauth.stored_grant import (
    GrantKey,
    GrantStore,
    GrantStoreError,
    StoredGrant,
    UnreadableGrant,
    VersionedGrant,
)
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_http import JSON, open_http

_PREFIX: Final = "registration:"
MOST: Final = 128
"""Limit on the registrations in a store, beyond which the oldest is forgotten; a grant keeps a copy of its client."""
MOST_OF_URI: Final = 4
"""Limit on those with one redirect URI: a server may name another issuer each time."""
_KIND: Final = "registration endpoint"


class ClientRegistrations:
    """Registers the gateway where it is not yet (RFC 7591)."""

    def __init__(self, access: TokenAccess, store: GrantStore) -> None:
        self._access = access
        self._store = store
        self._turn = asyncio.Lock()

    async def client(
        self,
        metadata: AuthorizationServerMetadata,
        redirect_uri: str,
        scopes: tuple[str, ...],
        ca_bundle: str | None,
        is_known: Callable[[StoredGrant], Awaitable[bool]],
    ) -> StoredGrant:
        """The client for an issuer and a redirect URI: the registered one, or a new one in its place if that has
        expired. `is_known` looks whether the issuer still knows it. Raises GrantFailed.
        """
        key = registration_key(metadata.issuer, redirect_uri)
        async with self._turn:
            stored, replaces = await self._read(key)
            if stored is not None and is_current(stored.grant, self._access.clock()) and await is_known(stored.grant):
                return stored.grant
            registered = await self._register(metadata, redirect_uri, scopes, ca_bundle)
            await self._make_room(key, redirect_uri)
            with reading_grants():
                if await self._store.write(key, registered, replaces) is not None:
                    return registered
                faster = await self._store.read(key)  # of another replica, which all should share
        if faster is not None and is_current(faster.grant, self._access.clock()):
            return faster.grant
        return registered

    async def forget(self, grant: StoredGrant) -> None:
        """Forget the client of a grant, which its issuer does not know any more, so that the next sign-in registers
        another. A store that is away is ignored.
        """
        key = registration_key(grant.issuer, grant.redirect_uri)
        with contextlib.suppress(GrantStoreError):
            stored = await self._store.read(key)
            if stored is not None and stored.grant.client_id == grant.client_id:
                await self._store.delete(key, stored.version)

    async def _read(self, key: GrantKey) -> tuple[VersionedGrant | None, str | None]:
        """The registration with the version that another replaces: empty if there is none, None if it is unreadable,
        which the one in its place will not be. Raises GrantFailed.
        """
        with reading_grants():
            try:
                stored = await self._store.read(key)
            except UnreadableGrant:
                return None, None
        return stored, "" if stored is None else stored.version

    async def _make_room(self, key: GrantKey, redirect_uri: str) -> None:
        """Delete the oldest registrations beyond the limits, besides that at `key`. Raises GrantFailed."""
        with reading_grants():
            stored = await self._store.of_person(key.person)  # which has other records of the gateway itself too
            others = [each for each in stored if each[0] != key and each[0].server.startswith(_PREFIX)]
            others.sort(key=lambda each: each[1].granted_at)
            alike = [other for other, grant in others if grant.redirect_uri == redirect_uri]
            surplus = alike[: max(len(alike) + 1 - MOST_OF_URI, 0)]
            for each in surplus or [other for other, _ in others[: max(len(others) + 1 - MOST, 0)]]:
                await self._store.delete(each)

    async def _register(
        self,
        metadata: AuthorizationServerMetadata,
        redirect_uri: str,
        scopes: tuple[str, ...],
        ca_bundle: str | None,
    ) -> StoredGrant:
        url = metadata.registration_endpoint
        if not url:
            raise by_hand(metadata.issuer, "registers no clients that ask for it", redirect_uri)
        require_confidential(url, _KIND)
        try:
            target = Target.from_url(url)
        except InvalidTarget as error:
            raise GrantFailed(f"the {_KIND} is invalid: {error}", cause=DISCOVERY) from error
        method = authentication_method(metadata)
        http = await open_http(target, self._access, ca_bundle, _KIND)
        try:
            answer = await http.post(registration_request(redirect_uri, method, scopes), kind=JSON)
        finally:
            await http.aclose()
        now = self._access.clock()
        return read_registration(answer.status, answer.body, metadata.issuer, redirect_uri, method, now)


def registration_key(issuer: str, redirect_uri: str) -> GrantKey:
    """Place of the gateway's registration at an issuer."""
    return GrantKey(b"", f"{_PREFIX}{issuer} {redirect_uri}")


@contextlib.contextmanager
def reading_grants() -> Iterator[None]:
    """Turn the failure of a store of grants into GrantFailed."""
    try:
        yield
    except UnreadableGrant as error:
        raise GrantFailed(str(error), cause=GRANT_UNREADABLE) from error
    except GrantStoreError as error:
        raise GrantFailed(str(error), cause=GRANT_STORE) from error
