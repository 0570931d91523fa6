"""Cache of the results of tools with `cacheableSeconds`.

Pure module. A key is a hash of the tool's definition, the server's endpoint and credential, the outbound user at a
server with access tokens per call (`CallCredentials.result_scope`), the arguments in canonical form, and the members of
`_meta` that the server receives. These members may identify the user; as they are part of the key, a result never
reaches another user. Errors are not cached. If equal calls run at the same time, one of them is sent, and the others
wait for its result.
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
"""Default limit on the bytes of all cached results."""
MAX_ARGUMENTS: Final = 64 << 10
"""Bytes of the largest arguments whose results are cached."""
LARGEST_SHARE: Final = 8
"""Results larger than this fraction of the cache (1/8) are not cached."""
META_CACHE: Final = "fairlead.dev/cache"
"""Member of `_meta` in a cached result: `{ageMs}`."""
_OVERHEAD: Final = 300
"""Estimated bytes of a cached result's key and objects."""
_IGNORED_PREFIXES: Final = (eras.PREFIX, "fairlead.dev/")
"""Prefixes of `_meta` members that describe the client's protocol and software, or are for the gateway."""
_PER_CALL_MEMBERS: Final = frozenset({progress_token.NAME, "traceparent", "tracestate"})

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode
_EMPTY: Final = b"{}"


class CachedResult(msgspec.Struct, frozen=True):
    """A tool's result as the server sent it. Times are in seconds of the cache's clock."""

    result: Raw
    modern: bool
    """Whether the result is in the form of the modern era."""
    made_at: float
    expires_at: float


class Follower(Protocol):
    """A call that waits for the result of an equal call. Its methods must not raise."""

    def take_result(self, cached: CachedResult) -> None:
        """Take the result."""
        ...

    def send(self) -> None:
        """Send the call itself, because the equal call has no result that can be shared."""
        ...

    def become_leader(self, key: bytes) -> None:
        """Send the call itself and cache its result, because the equal call was cancelled."""
        ...


def scope(*parts: str | bytes) -> bytes:
    """Hash of the parts of a cache key that are equal for many calls, such as the tool and its server."""
    joined = b"\0".join(part.encode() if isinstance(part, str) else part for part in parts)
    return hashlib.blake2b(joined, digest_size=16).digest()


def key_of(scope_hash: bytes, arguments: bytes | Raw | None, meta: bytes | Raw | None = None) -> bytes | None:
    """The cache key of a call; None if its arguments or `_meta` are too large or ambiguous. `scope_hash` is a value of
    `scope`.
    """
    try:
        canonical = _canonical_json(arguments)
        caller_meta = _canonical_json(meta, _identifies_caller)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if canonical is None or caller_meta is None:
        return None
    if caller_meta != _EMPTY:
        scope_hash = scope(scope_hash, caller_meta)
    return scope_hash if canonical == _EMPTY else hashlib.blake2b(scope_hash + canonical, digest_size=16).digest()


def _canonical_json(raw: bytes | Raw | None, is_relevant: Callable[[str], bool] | None = None) -> bytes | None:
    """A JSON object in canonical form, with only the members that `is_relevant` selects.

    None if the object is too large, or has a duplicate member: servers differ in which of the two they read.
    """
    if raw is None:
        return _EMPTY
    if len(raw) > MAX_ARGUMENTS:
        return None
    parsed = _decode(raw) or {}
    if is_relevant is not None and isinstance(parsed, dict):
        parsed = {name: value for name, value in parsed.items() if is_relevant(name)}
        if not parsed:
            return _EMPTY
    return None if members.has_repeated_member(raw) else _encode(parsed)


def _identifies_caller(name: str) -> bool:
    return not name.startswith(_IGNORED_PREFIXES) and name not in _PER_CALL_MEMBERS


class ResultCache:
    """LRU cache of results, limited to `max_bytes`; 0 disables it."""

    def __init__(self, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._results: OrderedDict[bytes, CachedResult] = OrderedDict()
        self._followers: dict[bytes, list[Follower]] = {}
        """Calls that wait for the result of the equal call in progress, by cache key."""
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    @property
    def enabled(self) -> bool:
        return self._max_bytes > 0

    def __len__(self) -> int:
        return len(self._results)

    def age(self, cached: CachedResult) -> float:
        """Age of a result in seconds."""
        return max(0.0, self._clock() - cached.made_at)

    def get(self, key: bytes) -> CachedResult | None:
        cached = self._results.get(key)
        if cached is not None and cached.expires_at > self._clock():
            self._results.move_to_end(key)
            self.hits += 1
            return cached
        if cached is not None:
            self._drop(key)
        self.misses += 1
        return None

    def follow(self, key: bytes, follower: Follower) -> bool:
        """Wait for an equal call in progress; False if none is in progress.

        After False, later equal calls wait for `follower`: it has to send its call, and then to call `store`, `fail` or
        `abandon`.
        """
        followers = self._followers.get(key)
        if followers is None:
            self._followers[key] = []
            return False
        followers.append(follower)
        return True

    def unfollow(self, key: bytes, follower: Follower) -> None:
        """Stop waiting for an equal call."""
        followers = self._followers.get(key)
        if followers is not None and follower in followers:
            followers.remove(follower)

    def store(self, key: bytes, result: Raw, *, modern: bool, seconds: float) -> None:
        """Cache the result of a call, and pass it to its followers."""
        now = self._clock()
        cached = CachedResult(Raw(bytes(result)), modern, now, now + seconds)
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
        """Make each follower send its own call, because there is no result to cache."""
        for follower in self._followers.pop(key, ()):
            follower.send()

    def abandon(self, key: bytes) -> None:
        """Make the first follower send the call in place of the cancelled one."""
        followers = self._followers.get(key)
        if followers:
            followers.pop(0).become_leader(key)
        else:
            self._followers.pop(key, None)

    def _drop(self, key: bytes) -> None:
        self.bytes -= len(self._results.pop(key).result) + _OVERHEAD
