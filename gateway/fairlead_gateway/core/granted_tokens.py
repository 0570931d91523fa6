"""Ports by which an ended grant takes effect at a server's access tokens and at its authorization server."""

from __future__ import annotations

from typing import Protocol

from fairlead_api.meta import ServerKey
from fairlead_mcp.oauth.stored_grant import StoredGrant


class GrantedTokens(Protocol):
    """Access tokens that this replica obtained by persons' grants."""

    def forget(self, server: ServerKey, person: bytes) -> None:
        """Drop the person's access token for a server, so that the next call needs the grant."""
        ...

    async def review(self, server: ServerKey, person: bytes) -> None:
        """Drop the person's access token for a server if it is of a consent that is not stored any more. Raises
        GrantStoreError if the store does not tell.
        """
        ...


class GrantRevoker(Protocol):
    """Revokes grants at their authorization servers."""

    async def revoke(self, server: ServerKey, grant: StoredGrant) -> bool:
        """Revoke a grant that is not stored any more (RFC 7009). False if the authorization server cannot, or did not;
        it never raises for that.
        """
        ...
