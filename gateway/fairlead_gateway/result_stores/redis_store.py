"""Stores tool results in Redis, so that replicas share the results, and results survive a restart.

Keys contain digests of principals and session ids, never the plain values. All keys share one hash tag, so that a
script finds them on one node of a Redis cluster. Every request has a timeout. After a failure, no request is sent for
PAUSE_SECONDS, so that calls do not wait for an unreachable Redis.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from redis.asyncio import Redis

from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.redis_client import UNREACHABLE, connect, host_of
from fairlead_gateway.result_stores.store import (
    MAX_ENTRIES,
    Bounds,
    ContextStore,
    ContextUnavailable,
    digest,
    size_of,
    too_large,
)

CONNECTIONS: Final = 8
PAUSE_SECONDS: Final = 1.0
"""Seconds between a failure and the next request."""
Answer = TypeVar("Answer")
log = logging.getLogger(__name__)

APPEND: Final = """
local tag, account, session, ident, entry = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local size, ttl, each = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local all, most = tonumber(ARGV[8]), tonumber(ARGV[9])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] -- microseconds, so that accounts used within one millisecond are ordered too
local sizes, used, total, count = tag .. ':sizes', tag .. ':used', tag .. ':total', tag .. ':count'
local function entries(a, s) return tag .. ':' .. a .. ':' .. s end
local function order(a) return tag .. ':' .. a end
if redis.call('EXISTS', total) == 0 then -- first entry, or Redis has evicted the key
  local sum = 0
  for _, bytes in ipairs(redis.call('HVALS', sizes)) do sum = sum + tonumber(bytes) end
  redis.call('SET', total, sum)
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
local sum, alive, rest = 0, {}, {}
for _, member in ipairs(redis.call('ZRANGE', order(account), 0, -1)) do
  local s, i, n = string.match(member, '^(%S+) (%S+) (%d+)$')
  if alive[s] == nil then alive[s] = redis.call('EXISTS', entries(account, s)) == 1 end
  if alive[s] then
    sum = sum + tonumber(n)
    rest[#rest + 1] = {member, s, i, tonumber(n)}
  else
    redis.call('ZREM', order(account), member)
  end
end
local first = 1
while first < #rest and (sum > each or #rest - first + 1 > most) do
  redis.call('HDEL', entries(account, rest[first][2]), rest[first][3])
  redis.call('ZREM', order(account), rest[first][1])
  sum = sum - rest[first][4]
  first = first + 1
end
counted(account, sum)
redis.call('ZADD', used, now, account)
while tonumber(redis.call('GET', total)) > all do
  local oldest = redis.call('ZRANGE', used, 0, 0)[1]
  if oldest == account then -- the only account: Redis has evicted other accounts, so that the total was too high
    redis.call('SET', total, sum)
    break
  end
  drop(oldest)
end
redis.call('PEXPIRE', entries(account, session), ttl)
for _, key in ipairs({order(account), sizes, used, total, count}) do redis.call('PEXPIRE', key, ttl) end
return 1
"""
"""KEYS: the tag of all keys. ARGV: account, session, id, entry, size of the entry, lifetime of the session in
milliseconds, maximum number of bytes of the account, of bytes of all accounts, and of entries of the account.
"""

ENTRIES: Final = """
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1]) then return false end
local values, size = redis.call('HVALS', KEYS[1]), 0
for _, entry in ipairs(values) do size = size + #entry end
if size > tonumber(ARGV[2]) then return false end
return values
"""
"""KEYS: a session. ARGV: maximum number of entries, and of bytes, that are read. Returns the entries; nil if they
exceed these limits. That can happen only if another program has written to the session.
"""


class RedisStore(ContextStore):
    """Store of results in Redis, shared by all replicas. `settings.timeout` limits each request, in seconds."""

    def __init__(self, settings: RedisSettings, bounds: Bounds, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the client; it connects at the first request. Raises BadUrl."""
        self._redis: Redis = connect(settings.url, timeout=settings.timeout, connections=CONNECTIONS)
        self._host = host_of(settings.url)
        self._bounds = bounds
        self._timeout = settings.timeout
        self._tag = f"{{{settings.prefix}}}:context"
        self._clock = clock
        self._append = self._redis.register_script(APPEND)
        self._entries = self._redis.register_script(ENTRIES)
        self._retry_at = 0.0
        self._is_reachable = True

    async def append(self, account: str, session: str, ident: str, entry: bytes) -> None:
        error = too_large(entry, self._bounds)
        if error is not None:
            raise error
        bounds = self._bounds
        numbers = [size_of(entry), int(bounds.seconds * 1000), bounds.each_bytes, bounds.total_bytes, MAX_ENTRIES]
        await self._request(
            lambda: self._append(
                keys=[self._tag], args=[digest(account), digest(session), digest(ident), entry, *numbers]
            )
        )

    async def entries(self, account: str, session: str) -> list[bytes]:
        key, limits = self._key(account, session), [MAX_ENTRIES, self._bounds.total_bytes]
        entries: Any = await self._request(lambda: self._entries(keys=[key], args=limits))
        return list(entries or ())

    async def entry(self, account: str, session: str, ident: str) -> bytes | None:
        entry: Any = await self._request(lambda: self._redis.hget(self._key(account, session), digest(ident)))
        return None if entry is None else bytes(entry)

    async def delete(self, account: str, session: str) -> int:
        key = self._key(account, session)

        async def delete_session() -> int:
            async with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.hlen(key)
                pipeline.delete(key)
                deleted: list[Any] = await pipeline.execute()
            return int(deleted[0])

        return await self._request(delete_session)

    async def aclose(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._redis.aclose(close_connection_pool=True)
        except UNREACHABLE:
            log.debug("Connections to Redis at %s could not be closed in time", self._host)

    def _key(self, account: str, session: str) -> str:
        return f"{self._tag}:{digest(account)}:{digest(session)}"

    async def _request(self, request: Callable[[], Awaitable[Answer]]) -> Answer:
        """Send a request to Redis and return the response. Raises ContextUnavailable."""
        if self._clock() < self._retry_at:
            raise ContextUnavailable("the store of results does not respond")
        try:
            async with asyncio.timeout(self._timeout):
                answer = await request()
        except UNREACHABLE as error:
            self._retry_at = self._clock() + PAUSE_SECONDS
            if self._is_reachable:
                cause = type(error).__name__
                log.warning("Redis at %s does not respond (%s): results are not stored", self._host, cause)
            self._is_reachable = False
            raise ContextUnavailable("the store of results does not respond") from error
        if not self._is_reachable:
            log.warning("Redis at %s responds again: results are stored", self._host)
        self._is_reachable = True
        return answer
