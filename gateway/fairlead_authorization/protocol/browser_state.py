"""State of unfinished sign-ins, in sealed cookies of the browser, so that the gateway stores nothing before a person
has signed in. Replicas with the same session key can open each other's cookies.

Each sign-in has a cookie, which only the browser that began the sign-in has. So an attacker who has obtained an answer
of the provider, or a consent form, cannot use it in another browser.
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
"""Maximum time from the client's request to the code."""
MAX_OPEN: Final = 4
"""Maximum number of open sign-ins of one browser when a new one begins; older ones are ended."""
_COOKIE: Final = "fairlead_oauth_"

State = TypeVar("State", bound="BrowserState")


class BrowserState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Common members."""

    id: str
    """`state` of the request to the provider, which is also part of the cookie's name."""
    client_id: str
    client_state: str = ""
    """`state` of the client's request."""
    redirect_uri: str
    expires_at: int
    """Seconds since the epoch."""


class AwaitingProvider(BrowserState, frozen=True, kw_only=True, tag="person"):
    """State of a browser that was redirected to the provider."""

    provider: str
    """Name of the provider."""
    challenge: str
    resource: str
    scopes: tuple[str, ...] = ()
    authorization: Authorization
    """Authorization request to the provider, without its URL."""
    nonce: str

    @property
    def access(self) -> RequestedAccess:
        """The client's request."""
        return RequestedAccess(
            redirect_uri=self.redirect_uri, challenge=self.challenge, resource=self.resource, scopes=self.scopes
        )


class AwaitingConsent(BrowserState, frozen=True, kw_only=True, tag="consent"):
    """State of a browser whose person has signed in and has to consent."""

    session_id: str
    issuer: str
    subject: str
    client_digest: str
    """`RegisteredClient.digest` when the consent page was shown."""
    token: str
    """Secret value in the page's form, which other sites cannot know (CSRF token)."""


class BrowserStates:
    """Seals, finds and ends states. `secure`: whether the gateway's public URL is https."""

    def __init__(self, session_key: bytes, *, secure: bool, now: Callable[[], float] = time.time) -> None:
        """`now` is in seconds since the epoch."""
        self._sealer = ValueSealer(session_key, b"oauth sign-in")
        self._secure = secure
        self._now = now
        # browsers accept cookies with this prefix only from this host: other hosts of the domain cannot set them
        self._prefix = f"__Host-{_COOKIE}" if secure else _COOKIE

    def expiry(self) -> int:
        """End of a sign-in that begins now, in seconds since the epoch."""
        return int(self._now()) + SIGN_IN_SECONDS

    def cookie(self, state: BrowserState) -> str:
        """`Set-Cookie` that stores a state, and replaces the state with the same id. Raises ValueTooLong."""
        name = self._name(state.id)
        return self._line(name, self._sealer.seal(state, name), SIGN_IN_SECONDS)

    def end_cookie(self, state_id: str) -> str:
        """`Set-Cookie` that ends a state."""
        return self._line(self._name(state_id), "", 0)

    def surplus_cookies(self, cookies: Mapping[str, str]) -> list[str]:
        """`Set-Cookie` values that delete the oldest states before another sign-in begins, because a browser sends all
        cookies with each request.
        """
        cookie_names = [name for name in cookies if name.startswith(self._prefix)]
        # browsers send older cookies first (RFC 6265 section 5.4)
        return [self._line(name, "", 0) for name in cookie_names[: max(0, len(cookie_names) - MAX_OPEN)]]

    def find(self, kind: type[State], cookies: Mapping[str, str], state_id: str) -> State | None:
        """The state with an id in the browser's cookies; None if it is missing or expired."""
        name = self._name(state_id)
        data = self._sealer.open(cookies.get(name, ""), name)
        if data is None:
            return None
        try:
            state = msgspec.json.decode(data, type=AwaitingProvider | AwaitingConsent)
        except msgspec.ValidationError:  # sealed by another release, whose states have other members
            return None
        is_own = hmac.compare_digest(state.id.encode(), state_id.encode("utf-8", "replace"))
        return state if isinstance(state, kind) and is_own and state.expires_at > self._now() else None

    def _name(self, state_id: str) -> str:
        digest = hashlib.blake2b(state_id.encode("utf-8", "replace"), digest_size=9).hexdigest()
        return self._prefix + digest

    def _line(self, name: str, value: str, seconds: int) -> str:
        secure = "; Secure" if self._secure else ""
        # `Lax`, because the provider's redirect comes from another site
        return f"{name}={value}; Path=/{secure}; Max-Age={seconds}; HttpOnly; SameSite=Lax"
