"""State of unfinished sign-ins at an OpenID provider, in encrypted cookies; the gateway stores nothing.

The cookies are SameSite=Lax, because browsers do not send `Strict` cookies with the provider's redirect from another
site. Each sign-in has its own cookie, named after its `state`, so that up to MAX_OPEN tabs of a browser can sign in at
the same time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_console.paths import ROOT
from fairlead_console.session_cookie import ConsoleSession, CookieSealer, cookie_names, cookie_of, set_cookie

SIGN_IN_SECONDS: Final = 600
"""Maximum duration of a sign-in at the provider."""
MAX_OPEN: Final = 5
"""Maximum number of concurrent sign-ins of a browser; a further sign-in replaces the oldest."""
MAX_RETURN_PATH: Final = 512
"""Maximum length of `return_to` in characters; a longer path is replaced by the path of the first page."""
COOKIE_PATH: Final = "/console/sign-in/oidc"


class SignInTransaction(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sign-in, with the values by which the provider's answer is checked."""

    state: str
    nonce: str
    verifier: str
    """`code_verifier` of PKCE (RFC 7636)."""
    return_to: str = msgspec.field(name="place")
    """Path of the page to show after the sign-in."""
    expires_at: int
    """Seconds since the epoch."""
    renewable_until: int = 0
    """End of the session that is renewed; 0 for an interactive sign-in."""
    subject: str = ""
    """Digest of the user whose session is renewed."""

    @property
    def silent(self) -> bool:
        """Whether the provider must not interact with the user (`prompt=none`)."""
        return bool(self.renewable_until)

    @property
    def challenge(self) -> str:
        """`code_challenge` by the method S256 (RFC 7636 section 4.2)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class SignInTransactions:
    """Begins, stores and finds transactions. Replicas with the same session key can read each other's cookies."""

    def __init__(self, sealer: CookieSealer, now: Callable[[], float] = time.time) -> None:
        """`now` returns seconds since the epoch."""
        self._sealer = sealer
        self._now = now
        self._prefix = f"{sealer.name}_oidc_"

    def begin(self, location: str, renews: ConsoleSession | None = None) -> SignInTransaction:
        """Make a new sign-in, or the renewal of a session."""
        return SignInTransaction(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            return_to=location if len(location) <= MAX_RETURN_PATH else ROOT,
            expires_at=int(self._now()) + SIGN_IN_SECONDS,
            renewable_until=0 if renews is None else renews.renewable_until,
            subject="" if renews is None else renews.subject,
        )

    def cookie(self, transaction: SignInTransaction, *, secure: bool) -> str:
        """Make the `Set-Cookie` of a new transaction."""
        name = self._name(transaction.state)
        return self._set(name, self._sealer.seal(transaction, name), SIGN_IN_SECONDS, secure=secure)

    def end_cookie(self, state: str, *, secure: bool) -> str:
        """Make the `Set-Cookie` that ends a transaction."""
        return self._set(self._name(state), "", 0, secure=secure)

    def surplus_cookies(self, cookies: str, *, secure: bool) -> list[str]:
        """Make the `Set-Cookie` headers that make room for another transaction.

        They end expired and invalid transactions, and the oldest transactions beyond the limit.
        """
        own_names = [name for name in cookie_names(cookies) if name.startswith(self._prefix)]
        ages = {
            name: 0 if (transaction := self._open(cookies, name)) is None else transaction.expires_at
            for name in own_names
        }
        # cookies of the same second: the last is the newest, as browsers send older cookies first (RFC 6265, 5.4)
        newest = sorted(
            (name for name in reversed(own_names) if ages[name] > self._now()), key=lambda name: -ages[name]
        )
        newest_names = set(newest[: MAX_OPEN - 1])
        return [self._set(name, "", 0, secure=secure) for name in own_names if name not in newest_names]

    def find(self, cookies: str, state: str) -> SignInTransaction | None:
        """Return the valid transaction with this `state` in the browser's cookies, or None."""
        transaction = self._open(cookies, self._name(state))
        if transaction is None or transaction.expires_at <= self._now():
            return None
        return transaction if hmac.compare_digest(transaction.state.encode(), state.encode()) else None

    def _open(self, cookies: str, name: str) -> SignInTransaction | None:
        data = self._sealer.open(cookie_of(cookies, name), name)
        return None if data is None else msgspec.json.decode(data, type=SignInTransaction)

    def _name(self, state: str) -> str:
        return self._prefix + hashlib.blake2b(state.encode(), digest_size=6).hexdigest()

    def _set(self, name: str, value: str, seconds: int, *, secure: bool) -> str:
        return set_cookie(name, value, seconds, secure=secure, same_site="Lax", path=COOKIE_PATH)
