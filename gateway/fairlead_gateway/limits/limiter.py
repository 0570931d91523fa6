"""Accounts of what agents use: calls at once and a minute, and tokens of models in a UTC day.

Pure module. A call is admitted when its arguments are known to fit, and leaves when it is over. Deciding costs a
look-up and a few numbers for each limit that applies. An agent that is as if it had never called is dropped. A request
to a model is admitted while some tokens are left, and charged when the provider has said how many it took; requests at
work are not known of. `limits.shared` settles the accounts with other replicas.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

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
DAY: Final = 86_400.0
"""Seconds of a UTC day; leap seconds are none in POSIX time."""


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
    """Admits calls by all limits that apply: per agent, in all and of each namespace's servers, and per tool. `agents`
    bounds every agent by itself; `clock` is in seconds.
    """

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
            _make_room(self._accounts, self._most, now)
            account = self._accounts[key] = Account(key, scope, whose, bound, self._sharing)
        elif account.bound is not bound and not _same(account.bound, bound):
            account.bind(bound)
        return account


class DayAccount:
    """Tokens of one agent in the current UTC day. Times are in seconds since the epoch."""

    __slots__ = ("_sharing", "day", "name", "queued", "spent", "unsettled")

    def __init__(self, name: str, sharing: Sharing | None, now: float) -> None:
        """With `sharing`, `name` is what it is called among replicas."""
        self.name = name
        self.day = int(now // DAY)
        """Days since the epoch."""
        self.spent = 0
        """By all replicas, as far as it is known here, without what is unsettled."""
        self.unsettled = 0
        """Charged here since the other replicas were told."""
        self.queued = False
        """Whether it waits to be settled."""
        self._sharing = sharing

    def total(self, now: float) -> int:
        """Tokens of today. Where replicas share, what they have spent is asked for, and known with the next look."""
        self._turn(now)
        self._settle_soon()
        return self.spent + self.unsettled

    def charge(self, tokens: int, now: float) -> None:
        """Add tokens to those of today."""
        self._turn(now)
        if self._sharing is None:
            self.spent += tokens
        else:
            self.unsettled += tokens
            self._settle_soon()

    def idle(self, now: float) -> bool:
        """Whether a new one would be the same."""
        return not self.queued and self.day < int(now // DAY)

    def to_settle(self) -> int:
        """Tokens that the others have to be told of, which then count as told."""
        tokens, self.unsettled, self.queued = self.unsettled, 0, False
        self.spent += tokens
        return tokens

    def settle(self, day: int, total: int) -> None:
        """Tokens of all replicas on that day, without those that are unsettled here."""
        if day == self.day:
            self.spent = max(self.spent, total)

    def _turn(self, now: float) -> None:
        today = int(now // DAY)
        if today != self.day:
            self.day = today
            self.spent = 0
            self.unsettled = 0

    def _settle_soon(self) -> None:
        if self._sharing is not None and not self.queued:
            self.queued = True
            self._sharing.days.append(self)


class TokenBudget:
    """Accounts of one request, with what each may come to. Without any, it has no bound."""

    __slots__ = ("_accounts", "_clock", "_sharing")

    def __init__(
        self,
        accounts: Iterable[tuple[DayAccount, int, str, str]],
        clock: Callable[[], float],
        sharing: Sharing | None,
    ) -> None:
        """`accounts`: each with its limit, its scope, and the policy that sets it."""
        self._accounts = tuple(accounts)
        self._clock = clock
        self._sharing = sharing

    def refusal(self) -> Limited | None:
        """Why no further request goes out; None: one may. `retry_after` is until the limit is a new one."""
        if not self._accounts:
            return None
        if self._sharing is not None and self._sharing.blocked:
            return Limited(AGENT, "limits that replicas share cannot be looked up now", self._sharing.blocked)
        return self.reached_limit()

    def reached_limit(self) -> Limited | None:
        """Which limit was reached, as far as this replica knows; None: none."""
        now = self._clock()
        for account, most, scope, policy in self._accounts:
            total = account.total(now)
            if total >= most:
                who = f"policy {policy} allows" if policy else "each agent may use"
                message = f"{who} {most:,} tokens of models a day, and {total:,} were used since midnight UTC"
                return Limited(scope, message, (account.day + 1) * DAY - now)
        return None

    def charge(self, tokens: int) -> None:
        """Count tokens that a model has read and written."""
        now = self._clock()
        for account, _, _, _ in self._accounts:
            account.charge(tokens, now)


class TokenLimiter:
    """Accounts of all agents. `per_agent` bounds each of them by itself; `clock` is in seconds since the epoch."""

    def __init__(
        self,
        per_agent: int | None = None,
        sharing: Sharing | None = None,
        clock: Callable[[], float] = time.time,
        most: int = MAX_ACCOUNTS,
    ) -> None:
        self._per_agent = per_agent
        self._sharing = sharing
        self._clock = clock
        self._most = most
        self._accounts: OrderedDict[str, DayAccount] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def budget(self, agent: str, quotas: Iterable[Quota] = ()) -> TokenBudget:
        """Bounds of one request of an agent. `quotas`: those that policies leave it in the namespaces whose tools the
        request is offered.
        """
        name = account_name(agent)
        budgets = []
        if self._per_agent is not None:
            budgets.append((self._account(f"agent:{name}"), self._per_agent, AGENT, ""))
        for quota in quotas:
            if quota.tokens_per_day is not None:
                account = self._account(f"policy:{quota.namespace}:{name}")
                budgets.append((account, quota.tokens_per_day, POLICY, quota.by["tokens_per_day"]))
        return TokenBudget(budgets, self._clock, self._sharing)

    def _account(self, key: str) -> DayAccount:
        account = self._accounts.get(key)
        if account is None:
            now = self._clock()
            _make_room(self._accounts, self._most, now)
            account = self._accounts[key] = DayAccount(key, self._sharing, now)
        return account


Use = TypeVar("Use", Account, DayAccount)
NO_BUDGET: Final = TokenLimiter().budget("")
"""That of requests that nothing bounds."""


def _make_room(accounts: OrderedDict[str, Use], most: int, now: float) -> None:
    """Drop what is idle among the oldest accounts; what is not goes to the end. Then one more may be opened."""
    for _ in range(min(SWEPT, len(accounts))):
        key, account = accounts.popitem(last=False)
        if not account.idle(now):
            accounts[key] = account
    while len(accounts) >= most:
        accounts.popitem(last=False)


def _same(bound: Bound, other: Bound) -> bool:
    return bound.calls_per_minute == other.calls_per_minute and bound.concurrency == other.concurrency
