"""Ports that apply the end of a grant: drop its access tokens, and revoke it at its authorization server."""

from __future__ import annotations

from typing import Protocol

from fairlead_api.meta import ServerKey
from fairlead_mcp.oauth.stored_grant import StoredGrant


class GrantedTokens(Protocol):
    """Access tokens that this replica obtained with users' grants."""

    def forget(self, server: ServerKey, person: bytes, reason: str = "") -> None:
        """Drop the user's access token for a server, so that the next call needs the grant. `reason` says to the user
        why the grant ended, if it did.
        """
        ...

    async def review(self, server: ServerKey, person: bytes) -> None:
        """Drop the user's access token for a server if its grant is no longer stored. Raises GrantStoreError if the
        store cannot be read.
        """
        ...


class GrantRevoker(Protocol):
    """Revokes grants at their authorization servers."""

    async def revoke(self, server: ServerKey, grant: StoredGrant) -> bool:
        """Revoke a grant that is no longer stored (RFC 7009). Returns False if the authorization server does not
        support revocation, or did not revoke the grant. Never raises.
        """
        ...
