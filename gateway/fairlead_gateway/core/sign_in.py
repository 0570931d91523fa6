"""Ports for users' sign-ins to servers that require the consent of each user."""

from __future__ import annotations

from typing import Protocol

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import Identity
from fairlead_mcp.oauth.challenge import Challenge


class SignInLinks(Protocol):
    """Makes the links that users open to sign in to servers."""

    async def link(self, identity: Identity, server: ServerKey, challenge: Challenge | None) -> str:
        """URL of the gateway's page at which the caller can sign in to a server. All calls get the same URL until the
        sign-in ends. `challenge` is the server's, if it refused a request.

        Raises GrantFailed if the caller is not a user.
        """
        ...


class SignInWait(Protocol):
    """Waits for users to sign in."""

    async def wait(self, identity: Identity, server: ServerKey, seconds: float) -> bool:
        """Wait at most `seconds` until the caller's open sign-in to a server ends; return at once if none is open.
        Returns False if the time is over.
        """
        ...
