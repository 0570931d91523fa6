"""Port of the sign-ins of persons at servers that want the consent of each person."""

from __future__ import annotations

from typing import Protocol

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import Identity
from fairlead_mcp.oauth.challenge import Challenge


class SignInLinks(Protocol):
    """Makes links at which persons sign in at servers."""

    async def link(self, identity: Identity, server: ServerKey, challenge: Challenge | None) -> str:
        """URL of the gateway's own page at which the caller can sign in at a server: the same one for all calls until
        the sign-in ends. `challenge` is that of the server, where it refused a request.

        Raises GrantFailed for a caller that is not a person.
        """
        ...


class SignInWait(Protocol):
    """Waits for the sign-ins of persons."""

    async def wait(self, identity: Identity, server: ServerKey, seconds: float) -> bool:
        """Wait until the caller's open sign-in at a server ends, for at most some seconds; returns at once if none is
        open. Returns False if the time is over.
        """
        ...
