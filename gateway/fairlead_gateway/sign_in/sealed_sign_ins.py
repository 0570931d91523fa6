"""Sign-ins as browsers keep them: sealed in the link, and in the cookie of the browser that a person opens it in.

Nothing of them is shared by replicas but the installation's key, so each step may reach another replica.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.identity.sealed_values import ValueSealer
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.consent import Authorization

_USE: Final = b"fairlead sign-in"
_LINK: Final = "link"
_COOKIE: Final = "cookie"


class SignInTicket(msgspec.Struct, frozen=True, array_like=True):
    """Sign-in of one person at one server, as an array: links are read by people and copied from terminals."""

    nonce: str
    """Random name of the sign-in."""
    person: bytes
    holder: str
    """The person in words of the person's provider."""
    namespace: str
    server: str
    until: float
    """End, in seconds since the epoch."""
    challenge: Challenge | None = None
    """Challenge of the server, where it refused a request."""

    @property
    def key(self) -> ServerKey:
        return ServerKey(self.namespace, self.server)


class BrowserPass(msgspec.Struct, frozen=True, array_like=True):
    """Proof that a browser is the person's, with the request that it takes to the authorization server."""

    ticket: SignInTicket
    authorization: Authorization | None = None
    """None before a click."""


class SignInSealer:
    """Seals the links and cookies of one installation."""

    def __init__(self, key: bytes) -> None:
        """`key` is the installation's key; if it is empty, this process makes a random key."""
        self._key = key

    @cached_property
    def _sealer(self) -> ValueSealer:
        return ValueSealer(self._key, _USE)

    def link(self, ticket: SignInTicket) -> str:
        """Raises ValueTooLong."""
        return self._sealer.seal(ticket, _LINK)

    def open_link(self, value: str) -> SignInTicket | None:
        """The sign-in of a link; None if it was not sealed for one."""
        data = self._sealer.open(value, _LINK)
        return None if data is None else msgspec.json.decode(data, type=SignInTicket)

    def cookie(self, browser: BrowserPass) -> str:
        """Raises ValueTooLong."""
        return self._sealer.seal(browser, _COOKIE)

    def open_cookie(self, value: str) -> BrowserPass | None:
        """The content of a cookie; None if it was not sealed for one."""
        data = self._sealer.open(value, _COOKIE)
        return None if data is None else msgspec.json.decode(data, type=BrowserPass)
