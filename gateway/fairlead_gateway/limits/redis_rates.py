"""Rates that replicas share over Redis: each decides by what it knows, and tells the others beside the calls.

Every `interval` what was admitted here goes to Redis in one script,
and what all replicas together have admitted comes back; no call ever waits for it. docs/configure/limits.md has the
bound on what that can let through too much. While Redis is away, each replica goes on by itself, or admits nothing of
what has a shared limit.
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
"""Between two looks at a Redis that is away, and at one that nothing is to be told."""
BLOCKED_SECONDS: Final = 1.0
"""When to come again while nothing is admitted."""
BATCH: Final = 500
"""Rates in one run of the script, which Redis does nothing beside."""

SCRIPT: Final = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local told = {}
for i = 1, #KEYS do
  local ends = tonumber(redis.call('GET', KEYS[i]) or '0')
  if ends < now then ends = now end
  ends = ends + tonumber(ARGV[i])
  redis.call('SET', KEYS[i], string.format('%.6f', ends), 'PX', math.ceil((ends - now) * 1000) + 1)
  told[i] = string.format('%.6f', ends - now)
end
return told
"""
"""KEYS: rates. ARGV: seconds of calls to add to each. Returns how many seconds each is ahead then, by Redis' clock."""


DAY_SCRIPT: Final = """
local told = {}
for i = 1, #KEYS do
  local total = tonumber(redis.call('GET', KEYS[i]) or '0')
  total = math.max(total, tonumber(ARGV[2 * i])) + tonumber(ARGV[2 * i + 1])
  if total > 0 then redis.call('SET', KEYS[i], string.format('%.0f', total), 'PX', ARGV[1]) end
  told[i] = string.format('%.0f', total)
end
return told
"""
"""KEYS: accounts of a day. ARGV: milliseconds that they are kept, then for each what a replica knows to be spent, and
what to add. Returns the sums. A Redis that has lost them learns them again from the replicas.
"""
KEPT_MS: Final = int(DAY * 2000)
"""Longer than the day in every time of a replica's clock."""


class Settler:
    """Settles rates with other replicas through Redis. Where limits are closed while Redis is down, nothing is
    admitted from the start until it has answered.
    """

    def __init__(
        self,
        settings: RedisSettings,
        sharing: Sharing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises BadUrl."""
        self._redis = connect(settings.url, timeout=settings.timeout)
        self._where = host_of(settings.url)
        self._sharing = sharing
        self._interval = settings.settle_seconds
        self._timeout = settings.timeout
        self._closed = settings.down == "closed"
        self._prefix = settings.prefix
        self._clock = clock
        self._script = self._redis.register_script(SCRIPT)
        self._day_script = self._redis.register_script(DAY_SCRIPT)
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._asked_at = clock()
        self.up: bool | None = None
        """Whether Redis answered last; None before the first time."""
        self.settlements = 0
        self.failures = 0

    def start(self) -> None:
        if self._closed:
            self._sharing.blocked = BLOCKED_SECONDS
        self._task = asyncio.get_running_loop().create_task(self._run(), name="settle limits")

    async def stop(self) -> None:
        """Tell what is left to be told, if that goes at once."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()  # which the client can lose where an answer comes at the same moment
            await asyncio.gather(self._task, return_exceptions=True)
        if self.up:
            await self.settle()
        await self._hang_up()

    async def settle(self) -> None:
        """Tell Redis what was admitted here, and learn what was admitted elsewhere. Raises nothing."""
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
            elif self._clock() - self._asked_at > PAUSE_SECONDS:
                await self._attempt(self._greet)

    async def _exchange(self, dirty: list[Rate], days: list[DayAccount]) -> None:
        """Takes out of both what was told."""
        if not self.up:
            await self._greet()
        while dirty:
            batch = dirty[:BATCH]
            del dirty[:BATCH]
            await self._tell(batch)
        while days:
            accounts = days[:BATCH]
            del days[:BATCH]
            await self._tell_days(accounts)

    async def _greet(self) -> None:
        async with asyncio.timeout(self._timeout):
            await self._redis.ping()

    async def _tell(self, rates: Sequence[Rate]) -> None:
        """A rate that was told counts as told even if Redis does not answer: it may have heard, and twice is worse."""
        now = self._clock()
        added = [(rate, rate.to_settle(now) * rate.step) for rate in rates]
        async with asyncio.timeout(self._timeout):
            told = await self._script(
                keys=[self._key("rate", rate.name) for rate, _ in added],
                args=[f"{seconds:.6f}" for _, seconds in added],
            )
        now = self._clock()
        for (rate, _), ahead in zip(added, told, strict=True):
            rate.settle(float(ahead), now)
        self.settlements += 1

    async def _tell_days(self, accounts: Sequence[DayAccount]) -> None:
        """As `_tell`, of tokens."""
        days = [account.day for account in accounts]
        arguments: list[int] = [KEPT_MS]
        for account in accounts:
            spent = account.spent
            arguments += [spent, account.to_settle()]
        keys = [self._key(f"tokens:{day}", account.name) for account, day in zip(accounts, days, strict=True)]
        async with asyncio.timeout(self._timeout):
            told = await self._day_script(keys=keys, args=arguments)
        for account, day, total in zip(accounts, days, told, strict=True):
            account.settle(day, int(total))
        self.settlements += 1

    def _key(self, kind: str, name: str) -> str:
        """Key of one size for any subject, and on one node of a cluster."""
        return f"{{{self._prefix}}}:{kind}:{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"

    async def _attempt(self, exchange: Callable[[], Awaitable[None]]) -> bool:
        self._asked_at = self._clock()
        try:
            await exchange()
        except UNREACHABLE as error:
            self.failures += 1
            self._note(error)
            await self._hang_up()
            return False
        self._note(None)
        return True

    def _note(self, error: Exception | None) -> None:
        before, self.up = self.up, error is None
        if self._closed:
            self._sharing.blocked = 0.0 if self.up else BLOCKED_SECONDS
        if self.up and before is False:
            log.warning("Redis at %s answers again: limits are shared", self._where)
        elif not self.up and before is not False:
            what = "calls with a shared limit are refused" if self._closed else "each replica goes by its own limits"
            log.warning("Redis at %s does not answer (%s): %s", self._where, type(error).__name__, what)

    async def _hang_up(self) -> None:
        """No connection is used on that may still bring an answer to something else."""
        with contextlib.suppress(*UNREACHABLE):
            async with asyncio.timeout(self._timeout):
                await self._redis.aclose(close_connection_pool=True)
