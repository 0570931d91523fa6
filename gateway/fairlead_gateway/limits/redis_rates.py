"""Synchronizes rates and token accounts with other replicas through Redis.

Each replica decides with its own counts. At an interval, a script adds the calls that this replica admitted to the
state in Redis, and returns the state of all replicas; no call waits for the script. docs/configure/limits.md says how
many calls may exceed a limit. While Redis cannot be reached, each replica applies the limits to its own calls, or
refuses all calls with a shared limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.limits.limiter import DAY, DayAccount
from fairlead_gateway.limits.rate import Rate, Sharing
from fairlead_gateway.redis_client import UNREACHABLE, connect, host_of

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 1.0
"""Seconds between two attempts to reach Redis, and between two checks of an idle connection."""
BLOCKED_SECONDS: Final = 1.0
"""`Retry-After` while calls are refused because Redis cannot be reached."""
BATCH: Final = 500
"""Maximum number of rates per run of the script, because Redis is blocked while it runs."""

SCRIPT: Final = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local result = {}
for i = 1, #KEYS do
  local ends = tonumber(redis.call('GET', KEYS[i]) or '0')
  if ends < now then ends = now end
  ends = ends + tonumber(ARGV[i])
  redis.call('SET', KEYS[i], string.format('%.6f', ends), 'PX', math.ceil((ends - now) * 1000) + 1)
  result[i] = string.format('%.6f', ends - now)
end
return result
"""
"""KEYS: one per rate. ARGV: for each rate, the number of calls to add, times the seconds per call of the rate. Returns
for each rate the seconds by which its calls are ahead of an even spread (`Rate.seconds_ahead`), by the clock of Redis.
"""


DAY_SCRIPT: Final = """
local result = {}
for i = 1, #KEYS do
  local total = tonumber(redis.call('GET', KEYS[i]) or '0')
  total = math.max(total, tonumber(ARGV[2 * i])) + tonumber(ARGV[2 * i + 1])
  if total > 0 then redis.call('SET', KEYS[i], string.format('%.0f', total), 'PX', ARGV[1]) end
  result[i] = string.format('%.0f', total)
end
return result
"""
"""KEYS: token accounts of a day. ARGV: lifetime in milliseconds; then for each account the tokens that the replica
counts as spent, and the tokens to add. Returns the total of each account. If Redis has lost an account, the spent
tokens restore it.
"""
ACCOUNT_LIFETIME_MS: Final = int(DAY * 2000)
"""Lifetime of token accounts in Redis: two days, so that they outlive their day on every replica's clock."""


class Settler:
    """Synchronizes rates with other replicas through Redis. With the setting `down: closed`, calls with shared limits
    are also refused between the start and the first response of Redis.
    """

    def __init__(
        self,
        settings: RedisSettings,
        sharing: Sharing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the client; it connects at the first request. Raises BadUrl."""
        self._redis = connect(settings.url, timeout=settings.timeout)
        self._host = host_of(settings.url)
        self._sharing = sharing
        self._interval = settings.settle_seconds
        self._timeout = settings.timeout
        self._refuses_when_down = settings.down == "closed"
        self._prefix = settings.prefix
        self._clock = clock
        self._script = self._redis.register_script(SCRIPT)
        self._day_script = self._redis.register_script(DAY_SCRIPT)
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._last_request_at = clock()
        self.up: bool | None = None
        """Whether the last request to Redis was successful; None before the first request."""
        self.settlements = 0
        self.failures = 0

    def start(self) -> None:
        if self._refuses_when_down:
            self._sharing.blocked = BLOCKED_SECONDS
        self._task = asyncio.get_running_loop().create_task(self._run(), name="settle limits")

    async def stop(self) -> None:
        """Stop, after one last synchronization if Redis is reachable."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()  # the Redis client can lose a cancellation if a response arrives at the same moment
            await asyncio.gather(self._task, return_exceptions=True)
        if self.up:
            await self.settle()
        await self._disconnect()

    async def settle(self) -> None:
        """Synchronize all rates and token accounts that have changed. Never raises."""
        dirty, self._sharing.dirty = self._sharing.dirty, []
        days, self._sharing.days = self._sharing.days, []
        await self._attempt(partial(self._exchange, dirty, days))
        self._sharing.dirty += dirty
        self._sharing.days += days

    async def _run(self) -> None:
        while not self._stopping:
            await asyncio.sleep(self._interval if self.up else min(PAUSE_SECONDS, self._timeout * 2))
            if self._sharing.dirty or self._sharing.days or not self.up:
                await self.settle()
            elif self._clock() - self._last_request_at > PAUSE_SECONDS:
                await self._attempt(self._ping)

    async def _exchange(self, dirty: list[Rate], days: list[DayAccount]) -> None:
        """Synchronize rates and accounts in batches, and remove them from the lists."""
        if not self.up:
            await self._ping()
        while dirty:
            batch = dirty[:BATCH]
            del dirty[:BATCH]
            await self._settle_rates(batch)
        while days:
            accounts = days[:BATCH]
            del days[:BATCH]
            await self._settle_days(accounts)

    async def _ping(self) -> None:
        async with asyncio.timeout(self._timeout):
            await self._redis.ping()

    async def _settle_rates(self, rates: Sequence[Rate]) -> None:
        """Synchronize rates. Calls count as synchronized even if Redis does not respond: Redis may have run the script,
        and losing calls is better than counting them twice.
        """
        now = self._clock()
        seconds_by_rate = [(rate, rate.to_settle(now) * rate.step) for rate in rates]
        async with asyncio.timeout(self._timeout):
            totals = await self._script(
                keys=[self._key("rate", rate.name) for rate, _ in seconds_by_rate],
                args=[f"{seconds:.6f}" for _, seconds in seconds_by_rate],
            )
        now = self._clock()
        for (rate, _), ahead in zip(seconds_by_rate, totals, strict=True):
            rate.settle(float(ahead), now)
        self.settlements += 1

    async def _settle_days(self, accounts: Sequence[DayAccount]) -> None:
        """Synchronize token accounts; tokens count as synchronized even if Redis does not respond."""
        days = [account.day for account in accounts]
        arguments: list[int] = [ACCOUNT_LIFETIME_MS]
        for account in accounts:
            spent = account.spent
            arguments += [spent, account.to_settle()]
        keys = [self._key(f"tokens:{day}", account.name) for account, day in zip(accounts, days, strict=True)]
        async with asyncio.timeout(self._timeout):
            totals = await self._day_script(keys=keys, args=arguments)
        for account, day, total in zip(accounts, days, totals, strict=True):
            account.settle(day, int(total))
        self.settlements += 1

    def _key(self, kind: str, name: str) -> str:
        """Redis key of a rate or account. It has a fixed length, and a hash tag, so that all keys are on one node of a
        Redis cluster.
        """
        return f"{{{self._prefix}}}:{kind}:{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"

    async def _attempt(self, exchange: Callable[[], Awaitable[None]]) -> bool:
        self._last_request_at = self._clock()
        try:
            await exchange()
        except UNREACHABLE as error:
            self.failures += 1
            self._record_outcome(error)
            await self._disconnect()
            return False
        self._record_outcome(None)
        return True

    def _record_outcome(self, error: Exception | None) -> None:
        was_up, self.up = self.up, error is None
        if self._refuses_when_down:
            self._sharing.blocked = 0.0 if self.up else BLOCKED_SECONDS
        if self.up and was_up is False:
            log.warning("Redis at %s responds again: replicas share limits", self._host)
        elif not self.up and was_up is not False:
            fallback = "each replica counts only its own calls"
            consequence = "calls with a shared limit are refused" if self._refuses_when_down else fallback
            log.warning("Redis at %s does not respond (%s): %s", self._host, type(error).__name__, consequence)

    async def _disconnect(self) -> None:
        """Close all connections: after a timeout, a connection may still receive the response to an older request."""
        with contextlib.suppress(*UNREACHABLE):
            async with asyncio.timeout(self._timeout):
                await self._redis.aclose(close_connection_pool=True)
