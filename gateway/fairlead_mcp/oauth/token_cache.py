"""Cache of access tokens by person. No I/O; the clock is a parameter.

A token is given out until it expires, less a skew, and never after the expiry of the subject token that it was obtained
with, nor of the subject token that a caller has now: the authorization server may have ended the person's session
(CVE-2026-96460 of Keycloak). So a person's newer subject token keeps a cached token, unless it expires earlier.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from fairlead_mcp.oauth.access_token import AccessToken

SKEW_SECONDS: Final = 30.0
"""Time before its expiry from which a token is not used any more, so that it does not expire on its way."""
SKEW_PART: Final = 0.1
"""Limit on the skew, as a part of the token's lifetime."""
_PRUNED: Final = 8
"""Expired tokens that are looked for when one is added, so that tokens of absent users do not stay in memory."""


class CachedToken(NamedTuple):
    """Token with what is known of its request."""

    token: AccessToken
    until: float
    """End of its use, in seconds since the epoch."""
    requested: frozenset[str]
    """Scopes that were requested."""
    granted_at: float
    """Monotonic seconds."""
    after_refusal: bool
    """Whether it replaces a token that the server refused."""


class TokenCache:
    """At most `most` tokens; beyond, the one used longest ago is dropped. `clock` is in seconds since the epoch."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._entries: OrderedDict[bytes, CachedToken] = OrderedDict()
        self._crowded = False
        """Whether the cache is half full. Before, the order of use is not recorded, which takes 0.1 µs and more."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, person: bytes, subject_expires_at: float) -> AccessToken | None:
        """The token of a person, for a caller whose subject token expires at `subject_expires_at`."""
        entry = self._entries.get(person)
        if entry is None:
            return None
        now = self._clock()
        if now >= entry.until:
            del self._entries[person]
            return None
        if now >= subject_expires_at:
            return None
        if self._crowded:
            self._entries.move_to_end(person)
        return entry.token

    def entry(self, person: bytes) -> CachedToken | None:
        """The entry of a person, even if it has expired."""
        return self._entries.get(person)

    def put(
        self,
        person: bytes,
        token: AccessToken,
        *,
        requested: frozenset[str] = frozenset(),
        granted_at: float = 0.0,
        after_refusal: bool = False,
    ) -> None:
        """Add a token that was just obtained."""
        now = self._clock()
        skew = min(SKEW_SECONDS, SKEW_PART * (token.expires_at - now))
        self._prune(now)
        self._entries[person] = CachedToken(token, token.expires_at - skew, requested, granted_at, after_refusal)
        self._entries.move_to_end(person)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)
        self._crowded = 2 * len(self._entries) >= self._most

    def drop(self, person: bytes, token: AccessToken) -> CachedToken | None:
        """Remove a token and return its entry; None if another token is cached by now, which stays."""
        entry = self._entries.get(person)
        if entry is None or entry.token.value != token.value:
            return None
        del self._entries[person]
        return entry

    def forget(self, person: bytes) -> None:
        """Remove the token of a person."""
        self._entries.pop(person, None)

    def clear(self) -> None:
        self._entries.clear()

    def _prune(self, now: float) -> None:
        for _ in range(min(_PRUNED, len(self._entries))):
            person = next(iter(self._entries))
            if now < self._entries[person].until:
                return
            del self._entries[person]
