"""Rate and concurrency limits of calls: per agent, in all and of each namespace's servers; and per tool.

Pure module. A call is admitted when its arguments are known to fit, and leaves when it is over. Deciding costs a
look-up and a few numbers for each limit that applies. An agent that is as if it had never called is dropped.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from fairlead_gateway.core.quota import Bound, Caps, Quota
from fairlead_gateway.limits.rate import MINUTE, Rate, Sharing

MAX_ASKER: Final = 256
"""Characters; a longer name is kept as its hash."""
MAX_ACCOUNTS: Final = 100_000
"""Accounts that are kept; beyond it, the agent that was quiet longest is forgotten: it may call as after a pause."""
SWEPT: Final = 2
"""Accounts looked at with each one that is opened, so that idle ones go as fast as new ones come."""
BUSY_SECONDS: Final = 1.0
"""When to come again where it is the number of calls at once."""


AGENT, POLICY, TOOL = "agent", "policy", "tool"
_WHAT: Final = {
    AGENT: "each agent may make",
    POLICY: "the policies of namespace {} allow",
    TOOL: "the tool takes",
}


class Limited(msgspec.Struct, frozen=True):
    """A call too many. `retry_after` in seconds; None where waiting does not help."""

    scope: str
    """`agent`, `policy` or `tool`."""
    message: str
    retry_after: float | None


def account_name(asker: str) -> str:
    """Name of bounded length that the accounts of an asker go by."""
    if len(asker) <= MAX_ASKER:
        return asker
    return hashlib.blake2b(asker.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Account:
    """Use of one limit so far."""

    __slots__ = ("_key", "_scope", "_sharing", "_whose", "bound", "busy", "rate")

    def __init__(self, key: str, scope: str, whose: str, bound: Bound, sharing: Sharing | None) -> None:
        self._key = key
        self._scope = scope
        self._whose = whose
        """The namespace of policies."""
        self._sharing = sharing
        self.busy = 0
        self.bind(bound)

    def bind(self, bound: Bound) -> None:
        """Go by another bound from now on."""
        self.bound = bound
        per_minute = bound.calls_per_minute
        self.rate = Rate(per_minute, MINUTE, self._key, self._sharing) if per_minute else None

    def enter(self, now: float) -> Limited | None:
        """Count one call, until `leave`; or say why not."""
        most = self.bound.concurrency
        if most is not None and self.busy >= most:
            return Limited(self._scope, f"{self._what()} {most} calls at once", BUSY_SECONDS)
        rate = self.rate
        if rate is not None:
            wait = rate.take(now)
            if wait:
                return self._too_fast(rate, wait)
        elif self.bound.calls_per_minute == 0:
            return Limited(self._scope, f"{self._what()} no calls", None)
        self.busy += 1
        return None

    def leave(self) -> None:
        self.busy -= 1

    def undo(self) -> None:
        """The call will not be made, and counts for nothing."""
        self.busy -= 1
        if self.rate is not None:
            self.rate.give_back()

    def idle(self, now: float) -> bool:
        """Whether a new one would be the same."""
        return not self.busy and (self.rate is None or not (self.rate.ahead(now) or self.rate.unsettled))

    def _what(self) -> str:
        return _WHAT[self._scope].format(self._whose)

    def _too_fast(self, rate: Rate, wait: float) -> Limited:
        if rate.blocked:
            return Limited(self._scope, "limits that replicas share cannot be looked up now", wait)
        return Limited(self._scope, f"{self._what()} {rate.calls:g} calls a minute", wait)


Lease = tuple[Account, ...]
"""Accounts in which a call is counted; each is to be left when it is over."""
NO_LEASE: Final[Lease] = ()


class Limiter:
    """Admits calls by all limits that apply. `agents` bounds every agent by itself; `clock` is in seconds."""

    def __init__(
        self,
        agents: Caps = Caps(),  # noqa: B008  # frozen
        sharing: Sharing | None = None,
        clock: Callable[[], float] = time.monotonic,
        most: int = MAX_ACCOUNTS,
    ) -> None:
        self._agents = agents if agents else None
        self.counts_all = self._agents is not None
        """Whether calls are counted that neither a share nor caps bound."""
        self._sharing = sharing
        self._clock = clock
        self._most = most
        self._accounts: OrderedDict[str, Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def admit(
        self, asker: str, share: Quota | None = None, tool: str = "", caps: Caps | None = None
    ) -> Lease | Limited:
        """Count a call of `asker`. `share` is what policies leave it at this server, `caps` what `tool` (as
        `namespace/server/tool`) takes from everybody together.
        """
        if self._agents is None and share is None and caps is None:
            return NO_LEASE
        asker = account_name(asker)
        now = self._clock()
        lease: list[Account] = []
        for account in self._applying(asker, share, tool, caps, now):
            refused = account.enter(now)
            if refused is not None:
                for entered in lease:
                    entered.undo()
                return refused
            lease.append(account)
        return tuple(lease)

    def _applying(self, asker: str, share: Quota | None, tool: str, caps: Caps | None, now: float) -> Iterator[Account]:
        """One at a time: one that nothing was counted in yet may be forgotten when the next is opened."""
        if self._agents is not None:
            yield self._account("agent:" + asker, AGENT, "", self._agents, now)
        if share is not None and (share.calls_per_minute is not None or share.concurrency is not None):
            yield self._account(f"policy:{share.namespace}:{asker}", POLICY, share.namespace, share, now)
        if caps is not None:
            yield self._account("tool:" + tool, TOOL, "", caps, now)

    def _account(self, key: str, scope: str, whose: str, bound: Bound, now: float) -> Account:
        account = self._accounts.get(key)
        if account is None:
            self._sweep(now)
            account = self._accounts[key] = Account(key, scope, whose, bound, self._sharing)
        elif account.bound is not bound and not _same(account.bound, bound):
            account.bind(bound)
        return account

    def _sweep(self, now: float) -> None:
        """Drop what is idle among the oldest; what is not goes to the end."""
        for _ in range(min(SWEPT, len(self._accounts))):
            key, account = self._accounts.popitem(last=False)
            if not account.idle(now):
                self._accounts[key] = account
        while len(self._accounts) >= self._most:
            self._accounts.popitem(last=False)


def _same(bound: Bound, other: Bound) -> bool:
    return bound.calls_per_minute == other.calls_per_minute and bound.concurrency == other.concurrency
