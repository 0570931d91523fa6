"""Sign-ins that users have not completed yet. No I/O.

A sign-in belongs to one user and one server. The user who consents has to be the user who called; otherwise somebody
could attach an account of their own to another user's calls.

Links and cookies contain everything that a sign-in needs. The state in this module gives a second call the same link,
notifies waiting calls, and rejects links and answers that were used already.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.identity.sealed_values import ValueTooLong
from fairlead_gateway.sign_in.sealed_sign_ins import BrowserPass, SignInSealer, SignInTicket
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.consent import Authorization
from fairlead_mcp.oauth.errors import BAD_ANSWER, SIGN_IN_REQUIRED, GrantFailed

SIGN_IN_SECONDS: Final = 600
"""Time to complete a sign-in."""
MAX_OPEN: Final = 4_096
"""Maximum number of open sign-ins of all users, and of completed sign-ins that have not expired."""
MAX_OPEN_PER_PERSON: Final = 64
"""Maximum number of open sign-ins of one user, including links of other replicas. At the limit, the user's oldest
sign-in is dropped.
"""
MAX_SCOPE_CHARS: Final = 1_000
"""Maximum characters of a challenge's scopes in a link. Longer scopes are left out."""
MAX_URL_CHARS: Final = 512
"""Maximum characters of the metadata URL of a challenge. A longer URL is left out, and the server's default metadata
URL is used.
"""
MAX_COOKIES: Final = 16
"""Maximum number of cookies of one browser that are checked."""
COOKIE: Final = "fairlead_sign_in_"
"""Beginning of the names of cookies."""
_NONCE_BYTES: Final = 12


class PendingSignIn:
    """Open sign-in of one user at one server."""

    __slots__ = ("ended", "failure", "id", "ticket")

    def __init__(self, ticket: SignInTicket, ident: str) -> None:
        self.ticket = ticket
        self.id = ident
        """Sealed ticket in the link. It cannot be guessed, and does not identify the user."""
        self.failure = ""
        """Why the last attempt failed; empty before the first attempt."""
        self.ended = asyncio.Event()
        """Set when the user has signed in, or when the next attempt has failed."""

    @property
    def person(self) -> bytes:
        return self.ticket.person

    @property
    def holder(self) -> str:
        return self.ticket.holder

    @property
    def name(self) -> str:
        """The user as pages name them."""
        return self.ticket.name or self.ticket.holder

    @property
    def server(self) -> ServerKey:
        return self.ticket.key

    @property
    def opened_at(self) -> float:
        """When the sign-in was opened, in seconds since the epoch."""
        return self.ticket.expires_at - SIGN_IN_SECONDS

    @property
    def cookie(self) -> str:
        """Name of the cookie that proves that a browser belongs to the user."""
        return COOKIE + hashlib.blake2b(self.ticket.nonce.encode(), digest_size=6).hexdigest()

    def form_token(self, cookie: str) -> str:
        """CSRF token of the forms that a browser with the cookie may post."""
        return hashlib.blake2b(cookie.encode(), key=self.ticket.nonce.encode(), digest_size=18).hexdigest()

    def fail(self, reason: str) -> None:
        """End an attempt. The link remains valid for another attempt, and calls may wait for that."""
        self.failure = reason
        end, self.ended = self.ended, asyncio.Event()
        end.set()


class PendingSignIns:
    """Open sign-ins that one replica knows. `clock` is in seconds since the epoch."""

    def __init__(self, sealer: SignInSealer, clock: Callable[[], float]) -> None:
        self._sealer = sealer
        self._clock = clock
        self._by_nonce: OrderedDict[str, PendingSignIn] = OrderedDict()
        """Oldest first."""
        self._by_owner: dict[tuple[bytes, ServerKey], PendingSignIn] = {}
        self._used_values: OrderedDict[str, float] = OrderedDict()
        """Nonces of completed sign-ins and `state` values of received answers, with their expiry."""

    def __len__(self) -> int:
        return len(self._by_nonce)

    def open(
        self, person: bytes, holder: str, server: ServerKey, challenge: Challenge | None, name: str = ""
    ) -> PendingSignIn:
        """Return the open sign-in of a user to a server, or open one. If the server now requires other scopes, a new
        sign-in is opened. `name` is the user as pages name them. Raises GrantFailed if too many sign-ins are open.
        """
        self._drop_expired()
        challenge = _shorten(challenge)
        pending = self._by_owner.get((person, server))
        if pending is not None and challenge in (None, pending.ticket.challenge):
            return pending
        if pending is not None:
            self._drop(pending)
        self._make_room(person)
        if len(self._by_nonce) >= MAX_OPEN:
            raise GrantFailed(
                f"{MAX_OPEN} sign-ins are open at this gateway: complete one, or try again in some minutes",
                cause=SIGN_IN_REQUIRED,
            )
        nonce, expires_at = secrets.token_urlsafe(_NONCE_BYTES), self._clock() + SIGN_IN_SECONDS
        ticket = SignInTicket(nonce, person, holder, server.namespace, server.name, expires_at, challenge, name)
        try:
            return self._add(PendingSignIn(ticket, self._sealer.link(ticket)))
        except ValueTooLong as error:
            message = "the name of the caller is too long for a link to sign in"
            raise GrantFailed(message, cause=SIGN_IN_REQUIRED) from error

    def is_recent(self, at: float) -> bool:
        """Whether a sign-in that was opened at `at` (seconds since the epoch) may still be completed."""
        return at + SIGN_IN_SECONDS > self._clock()

    def find(self, ident: str) -> PendingSignIn | None:
        """The open sign-in that a link belongs to. The link may have been made by another replica."""
        ticket = self._sealer.open_link(ident)
        return None if ticket is None else self._find_or_add(ticket, ident)

    def of_owner(self, person: bytes, server: ServerKey) -> PendingSignIn | None:
        """The open sign-in of a user at a server."""
        self._drop_expired()
        return self._by_owner.get((person, server))

    def admit_browser(self, pending: PendingSignIn, authorization: Authorization | None = None) -> str:
        """Make the cookie of a browser that proved to be the user's; the cookie also contains the authorization
        request. Raises GrantFailed if the request is too long for a cookie.
        """
        ticket = msgspec.structs.replace(pending.ticket, challenge=None)
        request = None if authorization is None else msgspec.structs.replace(authorization, url="")
        try:
            return self._sealer.cookie(BrowserPass(ticket, request))
        except ValueTooLong as error:
            message = "the request for the authorization server is too long to be kept by the browser: set fewer scopes"
            raise GrantFailed(message, cause=BAD_ANSWER) from error

    def admits(self, pending: PendingSignIn, cookie: str) -> bool:
        """Whether a cookie comes from a browser that was admitted to the sign-in."""
        browser = self._sealer.open_cookie(cookie)
        return browser is not None and browser.ticket.nonce == pending.ticket.nonce

    def of_answer(self, state: str, cookies: Mapping[str, str]) -> tuple[PendingSignIn, Authorization] | None:
        """The sign-in and the authorization request to which an answer with `state` belongs. None if the browser with
        these cookies did not begin the sign-in, or if it was completed.
        """
        values = [value for name, value in cookies.items() if COOKIE in name][:MAX_COOKIES]
        for value in values:
            browser = self._sealer.open_cookie(value)
            if browser is None or browser.authorization is None or self._was_used(state):
                continue
            if hmac.compare_digest(browser.authorization.state.encode(), state.encode()):
                pending = self._find_or_add(browser.ticket, "")
                return None if pending is None else (pending, browser.authorization)
        return None

    def mark_answered(self, authorization: Authorization) -> None:
        """Mark the `state` of a request as used, so that no other answer to it is accepted."""
        self._mark_used(authorization.state, self._clock() + SIGN_IN_SECONDS)

    def close(self, pending: PendingSignIn) -> None:
        """End a sign-in. Its link becomes invalid."""
        self._mark_used(pending.ticket.nonce, pending.ticket.expires_at)
        self._drop(pending)
        local_sign_in = self._by_owner.get((pending.person, pending.server))
        if local_sign_in is not None:  # opened by a call at this replica, while the link came from another replica
            self._drop(local_sign_in)

    # Internals

    def _find_or_add(self, ticket: SignInTicket, ident: str) -> PendingSignIn | None:
        if ticket.expires_at <= self._clock() or self._was_used(ticket.nonce):
            return None
        pending = self._by_nonce.get(ticket.nonce)
        if pending is not None:
            return pending
        pending = PendingSignIn(ticket, ident or self._sealer.link(ticket))
        self._make_room(ticket.person)
        if len(self._by_nonce) >= MAX_OPEN:
            return pending  # the link is valid without this entry: only waiting calls are not notified
        return self._add(pending)

    def _make_room(self, person: bytes) -> None:
        """Drop the oldest sign-in of a user who has too many."""
        persons_sign_ins = [pending for pending in self._by_nonce.values() if pending.person == person]
        if len(persons_sign_ins) >= MAX_OPEN_PER_PERSON:
            self._drop(min(persons_sign_ins, key=lambda pending: pending.ticket.expires_at))

    def _add(self, pending: PendingSignIn) -> PendingSignIn:
        self._by_nonce[pending.ticket.nonce] = pending
        self._by_owner.setdefault((pending.person, pending.server), pending)
        return pending

    def _drop(self, pending: PendingSignIn) -> None:
        self._by_nonce.pop(pending.ticket.nonce, None)
        owner = pending.person, pending.server
        if self._by_owner.get(owner) is pending:
            del self._by_owner[owner]
        pending.ended.set()

    def _drop_expired(self) -> None:
        now = self._clock()
        for pending in [pending for pending in self._by_nonce.values() if pending.ticket.expires_at <= now]:
            self._drop(pending)

    def _mark_used(self, value: str, expires_at: float) -> None:
        self._used_values[value] = expires_at
        if len(self._used_values) > MAX_OPEN:
            self._used_values.popitem(last=False)

    def _was_used(self, value: str) -> bool:
        return self._used_values.get(value, 0.0) > self._clock()


def _shorten(challenge: Challenge | None) -> Challenge | None:
    """A challenge that is short enough for a link."""
    if challenge is None:
        return None
    scopes, url = challenge.scopes, challenge.resource_metadata
    return msgspec.structs.replace(
        challenge,
        scopes=scopes if len(" ".join(scopes)) <= MAX_SCOPE_CHARS else (),
        resource_metadata=url if len(url) <= MAX_URL_CHARS else "",
    )
