"""Registers the gateway as a client, once per issuer and redirect URI, and stores the registrations with the grants."""

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
    is_current,
    manual_registration_failure,
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
MAX_REGISTRATIONS: Final = 128
"""Maximum number of registrations in a store. Beyond it, the oldest is deleted; grants have a copy of their client."""
MAX_PER_REDIRECT_URI: Final = 4
"""Maximum number of registrations with the same redirect URI, because a server may name another issuer each time."""
_KIND: Final = "registration endpoint"


class ClientRegistrations:
    """Finds the gateway's registration at an issuer, or registers the gateway (RFC 7591)."""

    def __init__(self, access: TokenAccess, store: GrantStore) -> None:
        self._access = access
        self._store = store
        self._lock = asyncio.Lock()

    async def find_or_register(
        self,
        metadata: AuthorizationServerMetadata,
        redirect_uri: str,
        scopes: tuple[str, ...],
        ca_bundle: str | None,
        is_known: Callable[[StoredGrant], Awaitable[bool]],
    ) -> StoredGrant:
        """The client for an issuer and a redirect URI: the stored registration, or a new one if that has expired or
        `is_known` returns False, because the issuer has forgotten it. Raises GrantFailed.
        """
        key = registration_key(metadata.issuer, redirect_uri)
        async with self._lock:
            stored, replaces = await self._read(key)
            if stored is not None and is_current(stored.grant, self._access.clock()) and await is_known(stored.grant):
                return stored.grant
            registered = await self._register(metadata, redirect_uri, scopes, ca_bundle)
            await self._delete_excess(key, redirect_uri)
            with translate_store_errors():
                if await self._store.write(key, registered, replaces) is not None:
                    return registered
                concurrent = await self._store.read(key)  # another replica was faster: share its registration
        if concurrent is not None and is_current(concurrent.grant, self._access.clock()):
            return concurrent.grant
        return registered

    async def forget(self, grant: StoredGrant) -> None:
        """Delete the registration of a grant's client, which its issuer no longer knows, so that the next sign-in
        registers another client. Errors of the store are ignored.
        """
        key = registration_key(grant.issuer, grant.redirect_uri)
        with contextlib.suppress(GrantStoreError):
            stored = await self._store.read(key)
            if stored is not None and stored.grant.client_id == grant.client_id:
                await self._store.delete(key, stored.version)

    async def _read(self, key: GrantKey) -> tuple[VersionedGrant | None, str | None]:
        """The registration, and the `replaces` with which another registration is written: empty if there is none; None
        if it is unreadable, so that it is overwritten in any case. Raises GrantFailed.
        """
        with translate_store_errors():
            try:
                stored = await self._store.read(key)
            except UnreadableGrant:
                return None, None
        return stored, "" if stored is None else stored.version

    async def _delete_excess(self, key: GrantKey, redirect_uri: str) -> None:
        """Delete the oldest registrations beyond the limits, but not the registration of `key`. Raises GrantFailed."""
        with translate_store_errors():
            stored = await self._store.of_person(key.person)  # includes other records of the gateway itself
            others = [(other, grant) for other, grant in stored if other != key and other.server.startswith(_PREFIX)]
            others.sort(key=lambda record: record[1].granted_at)
            same_uri = [other for other, grant in others if grant.redirect_uri == redirect_uri]
            excess = same_uri[: max(len(same_uri) + 1 - MAX_PER_REDIRECT_URI, 0)]
            for other in excess or [other for other, _ in others[: max(len(others) + 1 - MAX_REGISTRATIONS, 0)]]:
                await self._store.delete(other)

    async def _register(
        self,
        metadata: AuthorizationServerMetadata,
        redirect_uri: str,
        scopes: tuple[str, ...],
        ca_bundle: str | None,
    ) -> StoredGrant:
        url = metadata.registration_endpoint
        if not url:
            raise manual_registration_failure(metadata.issuer, "does not register clients on request", redirect_uri)
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
    """Key in the store of the gateway's registration at an issuer."""
    return GrantKey(b"", f"{_PREFIX}{issuer} {redirect_uri}")


@contextlib.contextmanager
def translate_store_errors() -> Iterator[None]:
    """Raise GrantFailed in place of the errors of a grant store."""
    try:
        yield
    except UnreadableGrant as error:
        raise GrantFailed(str(error), cause=GRANT_UNREADABLE) from error
    except GrantStoreError as error:
        raise GrantFailed(str(error), cause=GRANT_STORE) from error
