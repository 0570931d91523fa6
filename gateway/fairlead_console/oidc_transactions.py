"""Sign-ins that are under way at an OpenID provider: a sealed cookie for each, and nothing kept on the server.

The cookies are SameSite=Lax, as the provider's redirect is a navigation from another site; browsers send `Strict` ones
with no such request. Each sign-in has a cookie of its own, named after its `state`, so that several tabs may sign in at
once; a browser keeps MAX_OPEN of them.
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
"""Longest time that a person may take at the provider."""
MAX_OPEN: Final = 5
"""Sign-ins of one browser at the same time; the oldest are given up for new ones."""
MAX_PLACE: Final = 512
"""Characters of the page that is gone to afterwards; a longer one is the console's first."""
COOKIE_PATH: Final = "/console/sign-in/oidc"


class SignInTransaction(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sign-in, with the values that the provider's answer has to fit."""

    state: str
    nonce: str
    verifier: str
    """`code_verifier` of PKCE (RFC 7636)."""
    return_to: str = msgspec.field(name="place")
    """Page of the console that is gone to afterwards."""
    expires_at: int
    """Seconds since the epoch."""
    renewable_until: int = 0
    """End of the session that is renewed; 0 where a person signs in by hand."""
    subject: str = ""
    """Digest of the person whose session is renewed."""

    @property
    def silent(self) -> bool:
        """Whether the provider is to vouch for the person without a word."""
        return bool(self.renewable_until)

    @property
    def challenge(self) -> str:
        """`code_challenge` by the method S256 (RFC 7636 section 4.2)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class SignInTransactions:
    """Transactions of one gateway, and of all replicas that share its session key."""

    def __init__(self, sealer: CookieSealer, now: Callable[[], float] = time.time) -> None:
        """`now` is the time of day in seconds."""
        self._sealer = sealer
        self._now = now
        self._prefix = f"{sealer.name}_oidc_"

    def begin(self, location: str, renews: ConsoleSession | None = None) -> SignInTransaction:
        """A new sign-in, or the renewal of a session."""
        return SignInTransaction(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            return_to=location if len(location) <= MAX_PLACE else ROOT,
            expires_at=int(self._now()) + SIGN_IN_SECONDS,
            renewable_until=0 if renews is None else renews.renewable_until,
            subject="" if renews is None else renews.subject,
        )

    def cookie(self, transaction: SignInTransaction, *, secure: bool) -> str:
        """`Set-Cookie` of a new transaction."""
        name = self._name(transaction.state)
        return self._set(name, self._sealer.seal(transaction, name), SIGN_IN_SECONDS, secure=secure)

    def end_cookie(self, state: str, *, secure: bool) -> str:
        """`Set-Cookie` that ends a transaction."""
        return self._set(self._name(state), "", 0, secure=secure)

    def surplus(self, cookies: str, *, secure: bool) -> list[str]:
        """`Set-Cookie` headers that make room for one transaction more: they end what has expired or was not sealed
        here, then the oldest.
        """
        ours = [name for name in cookie_names(cookies) if name.startswith(self._prefix)]
        ages = {
            name: 0 if (transaction := self._open(cookies, name)) is None else transaction.expires_at for name in ours
        }
        # of one second the last is the newest: browsers send the oldest first (RFC 6265 section 5.4)
        newest = sorted((name for name in reversed(ours) if ages[name] > self._now()), key=lambda name: -ages[name])
        newest_names = set(newest[: MAX_OPEN - 1])
        return [self._set(name, "", 0, secure=secure) for name in ours if name not in newest_names]

    def find(self, cookies: str, state: str) -> SignInTransaction | None:
        """The transaction of that `state` which this browser began; None where there is none that still holds."""
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
