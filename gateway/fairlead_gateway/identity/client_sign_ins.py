"""Sign-ins of clients at the gateway's authorization server, which users and administrators can list and end.
Declarations only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec


class ClientSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """Access of one client in the name of one person."""

    id: str
    person: bytes
    """Key of the person (`Identity.person`)."""
    holder: str
    """Issuer and subject of the person at the provider."""
    client_id: str
    name: str
    """Name that the client gives itself; empty if unknown."""
    host: str
    """Host of the client's document; empty for a client without one."""
    redirect_host: str
    """Redirect target of the client: a host, `localhost` for loopback addresses, or the client's own URI scheme."""
    agent: str | None
    """Name of the client in policies; None for a client that chose its name."""
    resource: str
    """URL for which the client's tokens are valid, including URLs below it."""
    scopes: tuple[str, ...]
    began_at: float
    """Seconds since the epoch."""
    used_at: float
    """When the client last got an access token, in seconds since the epoch."""
    ends_at: float
    """Seconds since the epoch."""


class ClientSignIns(Protocol):
    """Sign-ins of all clients. All methods raise GrantStoreError."""

    async def of(self, person: bytes) -> Sequence[ClientSignIn]:
        """Sign-ins of a person, the last one used first."""
        ...

    async def of_everybody(self) -> Sequence[ClientSignIn]:
        """Sign-ins of all users, sorted by person, then the last one used first."""
        ...

    async def end(self, person: bytes, sign_in: str) -> ClientSignIn | None:
        """End a sign-in with its tokens, and forget the person's consents to its client; None if there is none."""
        ...

    def end_all(self, person: bytes) -> AsyncIterator[ClientSignIn]:
        """End all sign-ins of a person, including sign-ins in progress, and forget the person's consents. Yields each
        sign-in as soon as it has ended.
        """
        ...
