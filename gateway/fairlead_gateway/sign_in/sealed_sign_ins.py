"""Sign-ins as sealed text, in the link and in the cookie of the browser that opens it.

Replicas share only the installation's key, so each step of a sign-in may reach another replica.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.identity.sealed_values import ValueSealer
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.consent import Authorization

_PURPOSE: Final = b"fairlead sign-in"
_LINK: Final = "link"
_COOKIE: Final = "cookie"


class SignInTicket(msgspec.Struct, frozen=True, array_like=True):
    """Sign-in of one user to one server, encoded as an array to keep links short: people read them and copy them from
    terminals.
    """

    nonce: str
    """Random name of the sign-in."""
    person: bytes
    holder: str
    """Issuer and subject of the user at the provider (`identity.persons.holder_of`)."""
    namespace: str
    server: str
    expires_at: float
    """End, in seconds since the epoch."""
    challenge: Challenge | None = None
    """Challenge of the server; None if the server has not refused a request."""
    name: str = ""
    """The user as pages name them (`identity.persons.name_of`); empty in a link of an earlier release."""

    @property
    def key(self) -> ServerKey:
        return ServerKey(self.namespace, self.server)


class BrowserPass(msgspec.Struct, frozen=True, array_like=True):
    """Proof that a browser belongs to the user, with the request that it sends to the authorization server."""

    ticket: SignInTicket
    authorization: Authorization | None = None
    """Request to the authorization server; None until the user clicks."""


class SignInSealer:
    """Seals the links and cookies of one installation."""

    def __init__(self, key: bytes) -> None:
        """`key` is the installation's key; if it is empty, this process makes a random key."""
        self._key = key

    @cached_property
    def _sealer(self) -> ValueSealer:
        return ValueSealer(self._key, _PURPOSE)

    def link(self, ticket: SignInTicket) -> str:
        """Seal a sign-in for a link. Raises ValueTooLong."""
        return self._sealer.seal(ticket, _LINK)

    def open_link(self, value: str) -> SignInTicket | None:
        """The sign-in of a link; None if the text is not a sealed link."""
        data = self._sealer.open(value, _LINK)
        return None if data is None else msgspec.json.decode(data, type=SignInTicket)

    def cookie(self, browser: BrowserPass) -> str:
        """Seal the content of a cookie. Raises ValueTooLong."""
        return self._sealer.seal(browser, _COOKIE)

    def open_cookie(self, value: str) -> BrowserPass | None:
        """The content of a cookie; None if the text is not a sealed cookie."""
        data = self._sealer.open(value, _COOKIE)
        return None if data is None else msgspec.json.decode(data, type=BrowserPass)
