"""Keeps results in Redis: replicas share them, and they outlive a restart.

Keys hold digests of principals and session ids, never these themselves, and share one hash tag, so that a script finds
all of them on one node of a cluster. Whatever Redis does, a request is over within its time; after a failure none is
made for a moment, so that calls do not wait for a Redis that is away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from redis.asyncio import Redis

from fairlead_gateway.context.store import (
    MAX_ENTRIES,
    Bounds,
    ContextStore,
    ContextUnavailable,
    digest,
    size_of,
    too_large,
)
from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.redis_client import UNREACHABLE, connect, host_of

CONNECTIONS: Final = 8
PAUSE_SECONDS: Final = 1.0
"""Between a failure and the next request."""
Found = TypeVar("Found")
log = logging.getLogger(__name__)

APPEND: Final = """
local tag, account, session, ident, entry = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local size, ttl, each = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local all, most = tonumber(ARGV[8]), tonumber(ARGV[9])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] -- of two accounts within a millisecond one is older too
local sizes, used, total, count = tag .. ':sizes', tag .. ':used', tag .. ':total', tag .. ':count'
local function entries(a, s) return tag .. ':' .. a .. ':' .. s end
local function order(a) return tag .. ':' .. a end
if redis.call('EXISTS', total) == 0 then -- the first time, or Redis has evicted it
  local known = 0
  for _, bytes in ipairs(redis.call('HVALS', sizes)) do known = known + tonumber(bytes) end
  redis.call('SET', total, known)
end
local function counted(a, bytes)
  local before = tonumber(redis.call('HGET', sizes, a) or '0')
  if bytes == 0 then redis.call('HDEL', sizes, a) else redis.call('HSET', sizes, a, bytes) end
  redis.call('INCRBY', total, bytes - before)
end
local function drop(a)
  for _, member in ipairs(redis.call('ZRANGE', order(a), 0, -1)) do
    redis.call('DEL', entries(a, string.match(member, '^%S+')))
  end
  redis.call('DEL', order(a))
  redis.call('ZREM', used, a)
  counted(a, 0)
end
for _, a in ipairs(redis.call('ZRANGEBYSCORE', used, '-inf', now - ttl * 1000, 'LIMIT', 0, 100)) do drop(a) end
redis.call('HSET', entries(account, session), ident, entry)
redis.call('ZADD', order(account), redis.call('INCR', count), session .. ' ' .. ident .. ' ' .. size)
local sum, alive, kept = 0, {}, {}
for _, member in ipairs(redis.call('ZRANGE', order(account), 0, -1)) do
  local s, i, n = string.match(member, '^(%S+) (%S+) (%d+)$')
  if alive[s] == nil then alive[s] = redis.call('EXISTS', entries(account, s)) == 1 end
  if alive[s] then
    sum = sum + tonumber(n)
    kept[#kept + 1] = {member, s, i, tonumber(n)}
  else
    redis.call('ZREM', order(account), member)
  end
end
local first = 1
while first < #kept and (sum > each or #kept - first + 1 > most) do
  redis.call('HDEL', entries(account, kept[first][2]), kept[first][3])
  redis.call('ZREM', order(account), kept[first][1])
  sum = sum - kept[first][4]
  first = first + 1
end
counted(account, sum)
redis.call('ZADD', used, now, account)
while tonumber(redis.call('GET', total)) > all do
  local oldest = redis.call('ZRANGE', used, 0, 0)[1]
  if oldest == account then -- alone: Redis may have evicted figures of others, and the sum was too high
    redis.call('SET', total, sum)
    break
  end
  drop(oldest)
end
redis.call('PEXPIRE', entries(account, session), ttl)
for _, key in ipairs({order(account), sizes, used, total, count}) do redis.call('PEXPIRE', key, ttl) end
return 1
"""
"""KEYS: the tag of all keys. ARGV: account, session, id, entry, its size, milliseconds to keep the session, bytes of
the account, bytes of all, entries of the account.
"""

ENTRIES: Final = """
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1]) then return false end
local found, size = redis.call('HVALS', KEYS[1]), 0
for _, entry in ipairs(found) do size = size + #entry end
if size > tonumber(ARGV[2]) then return false end
return found
"""
"""KEYS: a session. ARGV: the most entries that are read, and bytes of them. Returns the entries; nil where somebody
else has written more.
"""


class RedisStore(ContextStore):
    """Store of all replicas. `timeout` in seconds bounds every request to Redis."""

    def __init__(self, settings: RedisSettings, bounds: Bounds, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises BadUrl."""
        self._redis: Redis = connect(settings.url, timeout=settings.timeout, connections=CONNECTIONS)
        self._where = host_of(settings.url)
        self._bounds = bounds
        self._timeout = settings.timeout
        self._tag = f"{{{settings.prefix}}}:context"
        self._clock = clock
        self._append = self._redis.register_script(APPEND)
        self._entries = self._redis.register_script(ENTRIES)
        self._again_at = 0.0
        self._up = True

    async def append(self, account: str, session: str, ident: str, entry: bytes) -> None:
        refused = too_large(entry, self._bounds)
        if refused is not None:
            raise refused
        bounds = self._bounds
        numbers = [size_of(entry), int(bounds.seconds * 1000), bounds.each_bytes, bounds.total_bytes, MAX_ENTRIES]
        await self._ask(
            lambda: self._append(
                keys=[self._tag], args=[digest(account), digest(session), digest(ident), entry, *numbers]
            )
        )

    async def entries(self, account: str, session: str) -> list[bytes]:
        key, most = self._key(account, session), [MAX_ENTRIES, self._bounds.total_bytes]
        entries: Any = await self._ask(lambda: self._entries(keys=[key], args=most))
        return list(entries or ())

    async def entry(self, account: str, session: str, ident: str) -> bytes | None:
        entry: Any = await self._ask(lambda: self._redis.hget(self._key(account, session), digest(ident)))
        return None if entry is None else bytes(entry)

    async def delete(self, account: str, session: str) -> int:
        key = self._key(account, session)

        async def gone() -> int:
            async with self._redis.pipeline(transaction=True) as both:
                both.hlen(key)
                both.delete(key)
                deleted: list[Any] = await both.execute()
            return int(deleted[0])

        return await self._ask(gone)

    async def aclose(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._redis.aclose(close_connection_pool=True)
        except UNREACHABLE:
            log.debug("Redis at %s did not let its connections be closed", self._where)

    def _key(self, account: str, session: str) -> str:
        return f"{self._tag}:{digest(account)}:{digest(session)}"

    async def _ask(self, request: Callable[[], Awaitable[Found]]) -> Found:
        """The answer of Redis. Raises ContextUnavailable."""
        if self._clock() < self._again_at:
            raise ContextUnavailable("the store of results does not answer")
        try:
            async with asyncio.timeout(self._timeout):
                answer = await request()
        except UNREACHABLE as error:
            self._again_at = self._clock() + PAUSE_SECONDS
            if self._up:
                log.warning("Redis at %s does not answer (%s): results are not kept", self._where, type(error).__name__)
            self._up = False
            raise ContextUnavailable("the store of results does not answer") from error
        if not self._up:
            log.warning("Redis at %s answers again: results are kept", self._where)
        self._up = True
        return answer
