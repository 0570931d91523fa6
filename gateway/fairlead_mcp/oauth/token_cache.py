"""Caches access tokens by person. No I/O; the clock is a parameter.

A token is used until shortly before its expiry. It is never used after the expiry of the subject token that was
exchanged for it, nor after the expiry of the caller's present subject token: the authorization server may have ended
the person's session (CVE-2026-96460 of Keycloak). A newer subject token of a person does not invalidate the cached
token, but may shorten its use.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from fairlead_mcp.oauth.access_token import AccessToken

SKEW_SECONDS: Final = 30.0
"""Time before its expiry from which a token is no longer used, so that it does not expire on its way to the server."""
SKEW_PART: Final = 0.1
"""Maximum of that time as a part of the token's lifetime."""
_MAX_PRUNED: Final = 8
"""Maximum number of expired tokens that are dropped when a token is added, so that tokens of absent users do not remain
in memory.
"""


class CachedToken(NamedTuple):
    """Token with properties of its request."""

    token: AccessToken
    until: float
    """Seconds since the epoch until which the token is used."""
    requested_scopes: frozenset[str]
    """Requested scopes."""
    granted_at: float
    """Monotonic seconds at which the token was issued."""
    after_refusal: bool
    """Whether the token replaces one that the server refused."""


class TokenCache:
    """At most `max_tokens` tokens; the least recently used one is dropped. `clock` returns seconds since the epoch."""

    def __init__(self, max_tokens: int, clock: Callable[[], float]) -> None:
        self._max_tokens = max_tokens
        self._clock = clock
        self._entries: OrderedDict[bytes, CachedToken] = OrderedDict()
        self._is_half_full = False
        """Whether the cache is at least half full. Until then, the order of use is not recorded, which saves 0.1 µs per
        call.
        """

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
        if self._is_half_full:
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
        requested_scopes: frozenset[str] = frozenset(),
        granted_at: float = 0.0,
        after_refusal: bool = False,
    ) -> None:
        """Add a token that was just obtained."""
        now = self._clock()
        skew = min(SKEW_SECONDS, SKEW_PART * (token.expires_at - now))
        self._prune(now)
        self._entries[person] = CachedToken(token, token.expires_at - skew, requested_scopes, granted_at, after_refusal)
        self._entries.move_to_end(person)
        if len(self._entries) > self._max_tokens:
            self._entries.popitem(last=False)
        self._is_half_full = 2 * len(self._entries) >= self._max_tokens

    def drop(self, person: bytes, token: AccessToken) -> CachedToken | None:
        """Remove a token and return its entry. If another token is cached now, keep it and return None."""
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
        for _ in range(min(_MAX_PRUNED, len(self._entries))):
            person = next(iter(self._entries))
            if now < self._entries[person].until:
                return
            del self._entries[person]
