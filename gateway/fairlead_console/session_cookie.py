"""Sessions of the console in encrypted cookies, which contain the user's credential; the gateway stores nothing.

The credential is checked with each request: revoking a key ends its sessions.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Final

import msgspec

from fairlead_gateway.identity.sealed_values import ValueSealer

SESSION_SECONDS: Final = 8 * 3600
"""Maximum duration of a session."""
COOKIE_PATH: Final = "/console"
_PURPOSE: Final = b"fairlead console"


class ConsoleSession(msgspec.Struct, frozen=True):
    """Session of one browser."""

    csrf: str
    """CSRF token in the forms of the session."""
    expires_at: int
    """Seconds since the epoch."""
    credential: str = ""
    """Bearer token of the user; empty for an anonymous session."""
    renewable_until: int = 0
    """Time until which the OpenID provider may renew the session without interaction, in seconds since the epoch; 0 for
    a session without a provider.
    """
    subject: str = ""
    """Digest of the user's subject at the provider."""


class CookieSealer(ValueSealer):
    """Encrypts structs to cookie values and decrypts them. Each gateway has one instance."""

    def __init__(self, key: bytes, now: Callable[[], float] = time.time) -> None:
        """`key` is the installation's key; if it is empty, this process makes a random key."""
        super().__init__(key, _PURPOSE)
        self._now = now
        self.name = f"fairlead_console_{self.key_id}"
        """Name of the session's cookie. It depends on the key, because browsers send cookies to all ports of a
        machine, where another gateway may run."""

    def begin(
        self, credential: str = "", *, ends: float = float("inf"), renewable_until: int = 0, subject: str = ""
    ) -> ConsoleSession:
        """Make a session. It ends after SESSION_SECONDS, or earlier at `ends`, the end of its credential in seconds
        since the epoch.
        """
        until = int(min(self._now() + SESSION_SECONDS, ends))
        return ConsoleSession(secrets.token_urlsafe(18), until, credential, renewable_until, subject)

    def session(self, cookies: str) -> ConsoleSession | None:
        """Return the valid session of a `Cookie` header, or None."""
        session = self._session(cookies)
        return session if session is not None and session.expires_at > self._now() else None

    def renewable_session(self, cookies: str) -> ConsoleSession | None:
        """Return the session of a `Cookie` header if it has expired but may be renewed, else None."""
        session = self._session(cookies)
        if session is None or session.expires_at > self._now() or session.renewable_until <= self._now():
            return None
        return session

    def _session(self, cookies: str) -> ConsoleSession | None:
        data = self.open(cookie_of(cookies, self.name), self.name)
        return None if data is None else msgspec.json.decode(data, type=ConsoleSession)

    def header(self, session: ConsoleSession, *, secure: bool) -> str:
        """Make the `Set-Cookie` of a session. Raises ValueTooLong."""
        seconds = max(0, max(session.expires_at, session.renewable_until) - int(self._now()))
        return set_cookie(self.name, self.seal(session, self.name), seconds, secure=secure)

    def end_cookie(self, *, secure: bool) -> str:
        """Make the `Set-Cookie` that ends a session."""
        return set_cookie(self.name, "", 0, secure=secure)


def set_cookie(
    name: str, value: str, seconds: int, *, secure: bool, same_site: str = "Strict", path: str = COOKIE_PATH
) -> str:
    """Make a `Set-Cookie` header of the console (RFC 6265 section 4.1)."""
    parts = [f"{name}={value}", f"Path={path}", f"Max-Age={seconds}", "HttpOnly", f"SameSite={same_site}"]
    return "; ".join([*parts, "Secure"] if secure else parts)


def cookie_names(cookies: str) -> list[str]:
    """Return the names of all cookies in a `Cookie` header."""
    try:
        return [*SimpleCookie(cookies)]
    except CookieError:
        return []


def cookie_of(cookies: str, name: str) -> str:
    """Return the value of one cookie; empty if it is missing or the header is malformed."""
    try:
        morsel = SimpleCookie(cookies).get(name)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value
