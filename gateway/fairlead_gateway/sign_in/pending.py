"""Sign-ins that persons have not completed yet. No I/O.

A sign-in belongs to one person and one server, and to the browser that proved to be the person's last: the person who
called has to be the person who consents, or somebody could attach an account of their own to another person's calls.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.consent import Authorization
from fairlead_mcp.oauth.errors import SIGN_IN_REQUIRED, GrantFailed

SIGN_IN_SECONDS: Final = 600.0
"""Time to complete a sign-in."""
MAX_OPEN: Final = 4_096
"""Limit on open sign-ins of all persons."""
MAX_OPEN_EACH: Final = 64
"""Limit on open sign-ins of one person, beyond which the oldest is dropped."""
_RANDOM_BYTES: Final = 24


class PendingSignIn:
    """Open sign-in of one person at one server."""

    __slots__ = (
        "_browser",
        "authorization",
        "challenge",
        "ended",
        "failure",
        "holder",
        "id",
        "person",
        "server",
        "until",
    )

    def __init__(
        self, person: bytes, holder: str, server: ServerKey, challenge: Challenge | None, until: float
    ) -> None:
        self.id = secrets.token_urlsafe(_RANDOM_BYTES)
        """Unguessable id in the link, which says nothing about the person."""
        self.person = person
        self.holder = holder
        """The person in words of the person's provider."""
        self.server = server
        self.challenge = challenge
        """The newest challenge of the server."""
        self.until = until
        """End, in seconds of the monotonic clock."""
        self.authorization: Authorization | None = None
        """Request that the browser takes to the authorization server; None before a click, and after the answer."""
        self.failure = ""
        """Why the last attempt failed; empty while there was none."""
        self.ended = asyncio.Event()
        """Set when the person has signed in, or the next attempt has failed."""
        self._browser = b""

    @property
    def cookie(self) -> str:
        """Name of the cookie by which a browser proves to be the person's."""
        return f"fairlead_sign_in_{hashlib.blake2b(self.id.encode(), digest_size=6).hexdigest()}"

    def admit_browser(self) -> str:
        """Secret for a browser that proved to be the person's; it replaces an earlier browser."""
        secret = secrets.token_urlsafe(_RANDOM_BYTES)
        self._browser = _digest(secret)
        self.authorization = None
        return secret

    def admits(self, secret: str) -> bool:
        """Whether a browser's cookie is that of the admitted browser."""
        return bool(self._browser) and hmac.compare_digest(self._browser, _digest(secret))

    def form_token(self, secret: str) -> str:
        """Token of the forms that the admitted browser may post (against CSRF)."""
        return hashlib.blake2b(secret.encode(), key=self.id.encode(), digest_size=18).hexdigest()

    def begin(self, authorization: Authorization) -> None:
        """Remember the request that the browser takes to the authorization server."""
        self.authorization = authorization
        self.failure = ""

    def take_authorization(self) -> Authorization | None:
        """Request whose answer has arrived; at most one answer gets it."""
        authorization, self.authorization = self.authorization, None
        return authorization

    def fail(self, why: str) -> None:
        """End an attempt; the link stays good for another one, which others may wait for."""
        self.failure = why
        ended, self.ended = self.ended, asyncio.Event()
        ended.set()


class PendingSignIns:
    """Open sign-ins of one gateway. `clock` is in monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_id: OrderedDict[str, PendingSignIn] = OrderedDict()
        """Oldest first, and so in the order in which they end."""
        self._by_owner: dict[tuple[bytes, ServerKey], PendingSignIn] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, person: bytes, holder: str, server: ServerKey, challenge: Challenge | None) -> PendingSignIn:
        """The open sign-in of a person at a server, or a new one. Raises GrantFailed if too many are open."""
        self._drop_ended()
        pending = self._by_owner.get((person, server))
        if pending is not None:
            pending.challenge = challenge or pending.challenge
            return pending
        own = [other for (owner, _), other in self._by_owner.items() if owner == person]
        if len(own) >= MAX_OPEN_EACH:
            self.close(min(own, key=lambda other: other.until))
        elif len(self._by_id) >= MAX_OPEN:
            raise GrantFailed(
                f"{MAX_OPEN} sign-ins are open at this gateway: complete one, or try again in some minutes",
                cause=SIGN_IN_REQUIRED,
            )
        pending = PendingSignIn(person, holder, server, challenge, self._clock() + SIGN_IN_SECONDS)
        self._by_id[pending.id] = self._by_owner[person, server] = pending
        return pending

    def find(self, ident: str) -> PendingSignIn | None:
        """The open sign-in with an id."""
        pending = self._by_id.get(ident)
        return pending if pending is not None and pending.until > self._clock() else None

    def of_state(self, state: str) -> PendingSignIn | None:
        """The open sign-in whose request to the authorization server has a `state`."""
        self._drop_ended()
        for pending in self._by_id.values():
            authorization = pending.authorization
            if authorization is not None and hmac.compare_digest(authorization.state.encode(), state.encode()):
                return pending
        return None

    def of_owner(self, person: bytes, server: ServerKey) -> PendingSignIn | None:
        """The open sign-in of a person at a server."""
        self._drop_ended()
        return self._by_owner.get((person, server))

    def close(self, pending: PendingSignIn) -> None:
        """End a sign-in, whose link is not good any more."""
        if self._by_id.pop(pending.id, None) is not None:
            del self._by_owner[pending.person, pending.server]
        pending.authorization = None
        pending.ended.set()

    def _drop_ended(self) -> None:
        now = self._clock()
        while self._by_id:
            oldest = next(iter(self._by_id.values()))
            if oldest.until > now:
                return
            self.close(oldest)


def _digest(secret: str) -> bytes:
    return hashlib.blake2b(secret.encode(), digest_size=32).digest()
