"""Results of tools that declare `cacheableSeconds`, kept for calls that are equal.

Pure module. A key stands for the definition, the server as it is reached (endpoint and credential), the arguments in
canonical form, and what else of the request may tell the server for whom it is: the members of `_meta` that go on to
it. So no result reaches another principal. Errors are never kept. Of equal calls at the same time one is made, and the
others wait for it.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from fairlead_mcp import eras, members, progress_token

MAX_BYTES: Final = 64 << 20
MAX_ARGUMENTS: Final = 64 << 10
"""Larger ones are not worth being kept for."""
LARGEST_SHARE: Final = 8
"""One result may take a part of the cache of this size, not more."""
META_CACHE: Final = "fairlead.dev/cache"
"""In a result that was kept: `{ageMs}`."""
_OVERHEAD: Final = 300
_OWN_MEMBERS: Final = (eras.PREFIX, "fairlead.dev/")
"""Begin members of `_meta` that say which protocol and software a client has, or are for the gateway."""
_OF_ONE_CALL: Final = frozenset({progress_token.NAME, "traceparent", "tracestate"})

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode
_EMPTY: Final = b"{}"


class Kept(msgspec.Struct, frozen=True):
    """A result as the server sent it. `made_at` in seconds of the cache's clock."""

    result: Raw
    modern: bool
    """Which era it is in."""
    made_at: float
    until: float


class Follower(Protocol):
    """An equal call that waits for the result of another."""

    def take_result(self, cached: Kept) -> None:
        """Take the result. May not raise."""
        ...

    def send(self) -> None:
        """Make the call, for there is no result. May not raise."""
        ...

    def become_leader(self, key: bytes) -> None:
        """Make the call in place of the one that was given up. May not raise."""
        ...


def scope(*parts: str | bytes) -> bytes:
    """Prefix of the keys of one tool, a hash."""
    joined = b"\0".join(part.encode() if isinstance(part, str) else part for part in parts)
    return hashlib.blake2b(joined, digest_size=16).digest()


def key_of(of_scope: bytes, arguments: bytes | Raw | None, meta: bytes | Raw | None = None) -> bytes | None:
    """The key of a call; None where its arguments or `_meta` are too large, or cannot be read."""
    try:
        canonical = _canonical(arguments)
        about = _canonical(meta, _is_of_caller)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if canonical is None or about is None:
        return None
    if about != _EMPTY:
        of_scope = scope(of_scope, about)
    return of_scope if canonical == _EMPTY else hashlib.blake2b(of_scope + canonical, digest_size=16).digest()


def _canonical(raw: bytes | Raw | None, counts: Callable[[str], bool] | None = None) -> bytes | None:
    """An object in canonical form, of its members those whose names count. None where it is equal to nothing: servers
    differ in which one they read of a member that comes twice.
    """
    if raw is None:
        return _EMPTY
    if len(raw) > MAX_ARGUMENTS:
        return None
    given = _decode(raw) or {}
    if counts is not None and isinstance(given, dict):
        given = {name: value for name, value in given.items() if counts(name)}
        if not given:
            return _EMPTY
    return None if members.has_repeated_member(raw) else _encode(given)


def _is_of_caller(name: str) -> bool:
    return not name.startswith(_OWN_MEMBERS) and name not in _OF_ONE_CALL


class ResultCache:
    """Results by key, bounded in bytes, least recently used first out; with `max_bytes` 0 it keeps nothing."""

    def __init__(self, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._results: OrderedDict[bytes, Kept] = OrderedDict()
        self._followers: dict[bytes, list[Follower]] = {}
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    @property
    def enabled(self) -> bool:
        return self._max_bytes > 0

    def __len__(self) -> int:
        return len(self._results)

    def age(self, cached: Kept) -> float:
        """Seconds."""
        return max(0.0, self._clock() - cached.made_at)

    def get(self, key: bytes) -> Kept | None:
        cached = self._results.get(key)
        if cached is not None and cached.until > self._clock():
            self._results.move_to_end(key)
            self.hits += 1
            return cached
        if cached is not None:
            self._drop(key)
        self.misses += 1
        return None

    def follow(self, key: bytes, follower: Follower) -> bool:
        """Wait for an equal call in progress. False where there is none: make it, and call `store`, `fail` or
        `abandon`.
        """
        waiting = self._followers.get(key)
        if waiting is None:
            self._followers[key] = []
            return False
        waiting.append(follower)
        return True

    def unfollow(self, key: bytes, follower: Follower) -> None:
        """Stop waiting."""
        waiting = self._followers.get(key)
        if waiting is not None and follower in waiting:
            waiting.remove(follower)

    def store(self, key: bytes, result: Raw, *, modern: bool, seconds: float) -> None:
        """Keep the result of the call that was made, and give it to its followers."""
        now = self._clock()
        cached = Kept(Raw(bytes(result)), modern, now, now + seconds)
        size = len(cached.result) + _OVERHEAD
        if key in self._results:
            self._drop(key)
        if size * LARGEST_SHARE <= self._max_bytes:
            self._results[key] = cached
            self.bytes += size
            while self.bytes > self._max_bytes:
                self._drop(next(iter(self._results)))
        for follower in self._followers.pop(key, ()):
            self.hits += 1
            follower.take_result(cached)

    def fail(self, key: bytes) -> None:
        """Have each follower make the call, for there is no result that could be kept."""
        for follower in self._followers.pop(key, ()):
            follower.send()

    def abandon(self, key: bytes) -> None:
        """Have the first follower make the cancelled call for the others."""
        waiting = self._followers.get(key)
        if waiting:
            waiting.pop(0).become_leader(key)
        else:
            self._followers.pop(key, None)

    def _drop(self, key: bytes) -> None:
        self.bytes -= len(self._results.pop(key).result) + _OVERHEAD
