"""Accounts of users at servers, which exist by the users' grants. Users and administrators can list and end them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.granted_tokens import GrantedTokens, GrantRevoker
from fairlead_gateway.grants.granted_server import granted_server
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, StoredGrant, UnreadableGrant


class ServerAccount(NamedTuple):
    """A user's grant for a server."""

    server: ServerKey
    person: bytes
    grant: StoredGrant | None
    """None if the stored grant cannot be read."""


class EndedAccount(NamedTuple):
    """An account whose grant is deleted."""

    account: ServerAccount
    revoked: bool
    """Whether the authorization server revoked the grant too (RFC 7009)."""


class Accounts:
    """Accounts of the grants in `store`. `tokens` are the access tokens of this replica."""

    def __init__(
        self, store: GrantStore, tokens: GrantedTokens, revoker: GrantRevoker | None = None, unused_days: int = 0
    ) -> None:
        """`unused_days`: days without a call after which a grant ends; 0 if unused grants do not end."""
        self._unused_seconds = unused_days * 86_400.0
        self._store = store
        self._tokens = tokens
        self._revoker = revoker

    async def of(self, person: bytes) -> list[ServerAccount]:
        """A user's accounts, sorted by server. Raises GrantStoreError."""
        return _accounts_of(await self._store.of_person(person))

    async def of_everybody(self) -> list[ServerAccount]:
        """Accounts of all users, sorted by server and user. Raises GrantStoreError."""
        return _accounts_of(await self._store.all_grants())

    def unused_until(self, account: ServerAccount) -> float:
        """Time at which an account ends unless a call uses it before, in seconds since the epoch; 0 for never."""
        grant = account.grant
        if grant is None or not self._unused_seconds:
            return 0.0
        return max(grant.granted_at, grant.used_at) + self._unused_seconds

    async def end(self, server: ServerKey, person: bytes, reason: str) -> EndedAccount | None:
        """Delete a user's grant for a server, drop its access token, and revoke it at the authorization server. Returns
        None if there is no such grant. `reason` tells the user why. Raises GrantStoreError.
        """
        key = GrantKey(person, str(server))
        grant: StoredGrant | None = None
        try:
            versioned = await self._store.read(key)
        except UnreadableGrant:
            pass  # a grant that cannot be read can still be deleted, but not revoked
        else:
            grant = None if versioned is None else versioned.grant
        if not await self._store.delete(key):
            return None
        self._tokens.forget(server, person, reason)
        revoked = grant is not None and self._revoker is not None and await self._revoker.revoke(server, grant)
        return EndedAccount(ServerAccount(server, person, grant), revoked)


def _accounts_of(grants: Iterable[tuple[GrantKey, StoredGrant]]) -> list[ServerAccount]:
    """Accounts of those `grants` that are for servers, sorted by server and user."""
    accounts = [
        ServerAccount(server, key.person, grant) for key, grant in grants if (server := granted_server(key)) is not None
    ]
    return sorted(accounts, key=lambda account: (str(account.server), account.person))
