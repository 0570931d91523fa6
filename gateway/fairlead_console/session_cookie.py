"""Sessions of the console: a cookie that holds the person's credential, sealed, and nothing kept on the server.

Sealed with AES-256-GCM under a key derived from the setting `session_key`, so that every replica which shares that
Secret opens the cookies of the others. The credential is checked again with each request: a revoked key ends its
sessions.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SESSION_SECONDS: Final = 8 * 3600
"""Longest session."""
MAX_SEALED: Final = 3800
"""Characters of a sealed session: browsers keep cookies of up to 4,096 bytes, name and attributes included."""
COOKIE_PATH: Final = "/console"
_NONCE_BYTES: Final = 12
_PURPOSE: Final = b"fairlead console"


class ConsoleSession(msgspec.Struct, frozen=True):
    """One session in one browser."""

    csrf: str
    """Token that each form of the session carries."""
    expires_at: int
    """Seconds since the epoch."""
    credential: str = ""
    """Bearer token of the person; empty for an anonymous one."""
    renewable_until: int = 0
    """Until when an OpenID provider may vouch for the person again without being asked by hand, in seconds since the
    epoch; 0 for a session that no provider began.
    """
    subject: str = ""
    """Digest of who the person is to the provider."""


class CredentialTooLong(ValueError):
    """The credential does not fit into a cookie."""


class CookieSealer:
    """Seals structs into cookie values and opens them. One per gateway."""

    def __init__(self, key: bytes, now: Callable[[], float] = time.time) -> None:
        """`key` is the installation's; empty: one of this process alone."""
        derived = hashlib.blake2b(key or secrets.token_bytes(32), digest_size=32, person=_PURPOSE).digest()
        self._cipher = AESGCM(derived)
        self._now = now
        suffix = hashlib.blake2b(derived, digest_size=4).hexdigest()
        self.name = f"fairlead_console_{suffix}"
        """Name of the session's cookie. Of the key: a browser sends cookies of all ports of a machine to each of
        them."""

    def begin(
        self, credential: str = "", *, ends: float = float("inf"), renewable_until: int = 0, subject: str = ""
    ) -> ConsoleSession:
        """A new session, which ends no later than its credential does at `ends`, in seconds since the epoch."""
        until = int(min(self._now() + SESSION_SECONDS, ends))
        return ConsoleSession(secrets.token_urlsafe(18), until, credential, renewable_until, subject)

    def seal(self, content: msgspec.Struct, purpose: str) -> str:
        """The struct as a cookie's value. `purpose` is authenticated with it: no cookie passes for another."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, msgspec.json.encode(content), purpose.encode())
        value = base64.urlsafe_b64encode(nonce + sealed).rstrip(b"=").decode()
        if len(value) > MAX_SEALED:
            raise CredentialTooLong
        return value

    def open(self, value: str, purpose: str) -> bytes | None:
        """Content of a sealed value; None for one that was not sealed here for that purpose."""
        if len(value) > MAX_SEALED:
            return None
        try:
            data = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], purpose.encode())
        except (binascii.Error, InvalidTag, ValueError):
            return None

    def session(self, cookies: str) -> ConsoleSession | None:
        """The session of a `Cookie` header; None where there is none that still holds."""
        session = self._session(cookies)
        return session if session is not None and session.expires_at > self._now() else None

    def renewable(self, cookies: str) -> ConsoleSession | None:
        """The session whose credential has ended, while its provider may vouch for the person again."""
        session = self._session(cookies)
        if session is None or session.expires_at > self._now() or session.renewable_until <= self._now():
            return None
        return session

    def _session(self, cookies: str) -> ConsoleSession | None:
        data = self.open(cookie_of(cookies, self.name), self.name)
        return None if data is None else msgspec.json.decode(data, type=ConsoleSession)

    def header(self, session: ConsoleSession, *, secure: bool) -> str:
        """`Set-Cookie` for a session. Raises CredentialTooLong."""
        seconds = max(0, max(session.expires_at, session.renewable_until) - int(self._now()))
        return set_cookie(self.name, self.seal(session, self.name), seconds, secure=secure)

    def end_cookie(self, *, secure: bool) -> str:
        """`Set-Cookie` that ends a session."""
        return set_cookie(self.name, "", 0, secure=secure)


def set_cookie(
    name: str, value: str, seconds: int, *, secure: bool, same_site: str = "Strict", path: str = COOKIE_PATH
) -> str:
    """A `Set-Cookie` header of the console (RFC 6265 section 4.1)."""
    parts = [f"{name}={value}", f"Path={path}", f"Max-Age={seconds}", "HttpOnly", f"SameSite={same_site}"]
    return "; ".join([*parts, "Secure"] if secure else parts)


def cookie_names(cookies: str) -> list[str]:
    """Names of all cookies of a `Cookie` header."""
    try:
        return [*SimpleCookie(cookies)]
    except CookieError:
        return []


def cookie_of(cookies: str, name: str) -> str:
    """Value of one cookie; empty where it is missing or the header cannot be read."""
    try:
        morsel = SimpleCookie(cookies).get(name)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value
