"""State of unfinished sign-ins, in sealed cookies of the browser: the gateway stores nothing before a person has signed
in. Replicas with the same session key read each other's cookies.

A sign-in has a cookie of its own, which only the browser that began it has. So an answer of the provider that an
attacker obtained is not taken from another browser, nor a consent.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from fairlead_authorization.sessions.session import RequestedAccess
from fairlead_gateway.identity.sealed_values import ValueSealer
from fairlead_mcp.oauth.consent import Authorization

SIGN_IN_SECONDS: Final = 600
"""Longest time from the client's request to the code."""
MAX_OPEN: Final = 4
"""Sign-ins of one browser besides a new one; beyond it, the oldest end."""
_COOKIE: Final = "fairlead_oauth_"

State = TypeVar("State", bound="BrowserState")


class BrowserState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Common members."""

    id: str
    """`state` towards the provider, which finds the cookie."""
    client_id: str
    client_state: str = ""
    """`state` of the client's request."""
    redirect_uri: str
    expires_at: int
    """Seconds since the epoch."""


class PersonAwaited(BrowserState, frozen=True, kw_only=True, tag="person"):
    """A browser that was sent to the provider."""

    provider: str
    """Name of the provider."""
    challenge: str
    resource: str
    scopes: tuple[str, ...] = ()
    authorization: Authorization
    """Request at the provider, without its URL."""
    nonce: str

    @property
    def access(self) -> RequestedAccess:
        """The client's request."""
        return RequestedAccess(
            redirect_uri=self.redirect_uri, challenge=self.challenge, resource=self.resource, scopes=self.scopes
        )


class ConsentAwaited(BrowserState, frozen=True, kw_only=True, tag="consent"):
    """A browser whose person has signed in, and has to consent."""

    session_id: str
    issuer: str
    subject: str
    client_digest: str
    """`RegisteredClient.digest` that the page was about."""
    token: str
    """Value of the page's form, which no other site knows."""


class BrowserStates:
    """Seals, finds and ends states. `secure`: whether the gateway's public URL is https."""

    def __init__(self, session_key: bytes, *, secure: bool, now: Callable[[], float] = time.time) -> None:
        """`now` is in seconds since the epoch."""
        self._sealer = ValueSealer(session_key, b"oauth sign-in")
        self._secure = secure
        self._now = now
        # browsers take cookies with this prefix from this host alone: another host of the domain cannot set one
        self._prefix = f"__Host-{_COOKIE}" if secure else _COOKIE

    def expiry(self) -> int:
        """End of a sign-in that begins now, in seconds since the epoch."""
        return int(self._now()) + SIGN_IN_SECONDS

    def cookie(self, state: BrowserState) -> str:
        """`Set-Cookie` of a state, in place of the one before. Raises ValueTooLong."""
        name = self._name(state.id)
        return self._line(name, self._sealer.seal(state, name), SIGN_IN_SECONDS)

    def end_cookie(self, state_id: str) -> str:
        """`Set-Cookie` that ends a state."""
        return self._line(self._name(state_id), "", 0)

    def surplus_cookies(self, cookies: Mapping[str, str]) -> list[str]:
        """`Set-Cookie` lines that make room for another sign-in, for a browser sends all cookies with each request."""
        own = [name for name in cookies if name.startswith(self._prefix)]
        # browsers send older cookies first (RFC 6265 section 5.4)
        return [self._line(name, "", 0) for name in own[: max(0, len(own) - MAX_OPEN)]]

    def find(self, kind: type[State], cookies: Mapping[str, str], state_id: str) -> State | None:
        """The state of this id in the browser's cookies; None without one, or after its time."""
        name = self._name(state_id)
        data = self._sealer.open(cookies.get(name, ""), name)
        if data is None:
            return None
        try:
            state = msgspec.json.decode(data, type=PersonAwaited | ConsentAwaited)
        except msgspec.ValidationError:  # of another release, whose states have other members
            return None
        is_own = hmac.compare_digest(state.id.encode(), state_id.encode("utf-8", "replace"))
        return state if isinstance(state, kind) and is_own and state.expires_at > self._now() else None

    def _name(self, state_id: str) -> str:
        digest = hashlib.blake2b(state_id.encode("utf-8", "replace"), digest_size=9).hexdigest()
        return self._prefix + digest

    def _line(self, name: str, value: str, seconds: int) -> str:
        secure = "; Secure" if self._secure else ""
        # the provider leads the browser back from another site, so the cookie is `Lax`
        return f"{name}={value}; Path=/{secure}; Max-Age={seconds}; HttpOnly; SameSite=Lax"
