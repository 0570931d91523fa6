"""Limits on the use by agents: calls at once, calls per minute, and tokens of models per UTC day.

Pure module. A call is admitted after its arguments were validated, and is counted until its end. Admission costs a
look-up and a few comparisons per limit. Accounts that are back in their initial state are dropped. A request to a model
is admitted while tokens are left, and its tokens are counted when the provider has reported them; until then, a request
counts as zero tokens. `redis_rates` synchronizes the accounts with other replicas.
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

MAX_AGENT_NAME: Final = 256
"""Maximum number of characters of an agent's name; a longer name is stored as its hash."""
MAX_ACCOUNTS: Final = 100_000
"""Maximum number of accounts in memory. If there are more, the least recently opened account is dropped, and its limits
start from zero."""
SWEEP_COUNT: Final = 2
"""Number of accounts that are checked for idleness per new account, so that idle accounts are dropped as fast as new
accounts are opened."""
BUSY_SECONDS: Final = 1.0
"""`Retry-After` of a refusal because of too many calls at once."""
DAY: Final = 86_400.0
"""Seconds of a UTC day; POSIX time has no leap seconds."""


AGENT, POLICY, TOOL = "agent", "policy", "tool"
_SUBJECTS: Final = {
    AGENT: "each agent",
    POLICY: "each agent, set by policies of namespace {},",
    TOOL: "the tool",
}


class LimitRefusal(msgspec.Struct, frozen=True):
    """Refusal of a call or request beyond a limit. `retry_after` is in seconds; None if waiting does not help."""

    scope: str
    """`agent`, `policy` or `tool`."""
    message: str
    retry_after: float | None


def account_name(agent: str) -> str:
    """Name of bounded length for the accounts of an agent."""
    if len(agent) <= MAX_AGENT_NAME:
        return agent
    return hashlib.blake2b(agent.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Account:
    """Current use of one limit: the calls in flight and the calls of the last minute."""

    __slots__ = ("_key", "_namespace", "_scope", "_sharing", "bound", "busy", "rate")

    def __init__(self, key: str, scope: str, namespace: str, bound: Bound, sharing: Sharing | None) -> None:
        self._key = key
        self._scope = scope
        self._namespace = namespace
        """Namespace of the policies that set the limit."""
        self._sharing = sharing
        self.busy = 0
        self.bind(bound)

    def bind(self, bound: Bound) -> None:
        """Replace the limit against which the account counts."""
        self.bound = bound
        per_minute = bound.calls_per_minute
        self.rate = Rate(per_minute, MINUTE, self._key, self._sharing) if per_minute else None

    def enter(self, now: float) -> LimitRefusal | None:
        """Count one call until `leave`; a `LimitRefusal` refuses the call."""
        limit = self.bound.concurrency
        if limit is not None and self.busy >= limit:
            return LimitRefusal(
                self._scope,
                f"the limit of {limit} calls at once for {self._subject()} is reached: retry when one of them "
                "has ended",
                BUSY_SECONDS,
            )
        rate = self.rate
        if rate is not None:
            wait = rate.take(now)
            if wait:
                return self._rate_refusal(rate, wait)
        elif self.bound.calls_per_minute == 0:
            return LimitRefusal(
                self._scope, f"the limit of 0 calls a minute for {self._subject()} admits no call", None
            )
        self.busy += 1
        return None

    def leave(self) -> None:
        self.busy -= 1

    def undo(self) -> None:
        """Take back a call that was counted but will not be made."""
        self.busy -= 1
        if self.rate is not None:
            self.rate.give_back()

    def is_idle(self, now: float) -> bool:
        """Whether the account equals a new account, and may be dropped."""
        return not self.busy and (self.rate is None or not (self.rate.seconds_ahead(now) or self.rate.unsettled))

    def _subject(self) -> str:
        return _SUBJECTS[self._scope].format(self._namespace)

    def _rate_refusal(self, rate: Rate, wait: float) -> LimitRefusal:
        if rate.blocked:
            return LimitRefusal(
                self._scope, "the limits that replicas share in Redis cannot be read now: retry later", wait
            )
        return LimitRefusal(
            self._scope,
            f"the limit of {rate.calls:g} calls a minute for {self._subject()} is reached: retry later",
            wait,
        )


Lease = tuple[Account, ...]
"""Accounts in which a call is counted; `leave` of each has to be called when the call is over."""
NO_LEASE: Final[Lease] = ()


class Limiter:
    """Admits calls by all limits that apply: per agent over all servers, per agent and namespace, and per tool.
    `agents` limits each agent over all servers; `clock` is in seconds.
    """

    def __init__(
        self,
        agents: Caps = Caps(),  # noqa: B008  # frozen
        sharing: Sharing | None = None,
        clock: Callable[[], float] = time.monotonic,
        max_accounts: int = MAX_ACCOUNTS,
    ) -> None:
        self._agents = agents if agents else None
        self.counts_all = self._agents is not None
        """Whether calls are counted even if they have neither a quota of a policy nor caps of the tool."""
        self._sharing = sharing
        self._clock = clock
        self._max_accounts = max_accounts
        self._accounts: OrderedDict[str, Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def admit(
        self, agent: str, quota: Quota | None = None, tool: str = "", caps: Caps | None = None
    ) -> Lease | LimitRefusal:
        """Count a call of `agent`. `quota` is the agent's quota from the policies of the server's namespace. `caps` are
        the limits of `tool` (`namespace/server/tool`) over all agents.
        """
        if self._agents is None and quota is None and caps is None:
            return NO_LEASE
        agent = account_name(agent)
        now = self._clock()
        lease: list[Account] = []
        for account in self._accounts_of_call(agent, quota, tool, caps, now):
            refusal = account.enter(now)
            if refusal is not None:
                for entered_account in lease:
                    entered_account.undo()
                return refusal
            lease.append(account)
        return tuple(lease)

    def _accounts_of_call(
        self, agent: str, quota: Quota | None, tool: str, caps: Caps | None, now: float
    ) -> Iterator[Account]:
        """Accounts that limit a call. They are yielded one by one, so that the caller counts the call in an account
        before the next account is opened: opening an account may drop accounts in which no call is counted.
        """
        if self._agents is not None:
            yield self._account("agent:" + agent, AGENT, "", self._agents, now)
        if quota is not None and (quota.calls_per_minute is not None or quota.concurrency is not None):
            yield self._account(f"policy:{quota.namespace}:{agent}", POLICY, quota.namespace, quota, now)
        if caps is not None:
            yield self._account("tool:" + tool, TOOL, "", caps, now)

    def _account(self, key: str, scope: str, namespace: str, bound: Bound, now: float) -> Account:
        account = self._accounts.get(key)
        if account is None:
            _make_room(self._accounts, self._max_accounts, now)
            account = self._accounts[key] = Account(key, scope, namespace, bound, self._sharing)
        elif account.bound is not bound and not _are_equal(account.bound, bound):
            account.bind(bound)
        return account


class DayAccount:
    """Tokens of one agent in the current UTC day. Times are in seconds since the epoch."""

    __slots__ = ("_sharing", "day", "name", "queued", "spent", "unsettled")

    def __init__(self, name: str, sharing: Sharing | None, now: float) -> None:
        """Create the account; with `sharing`, `name` is its name in the store that replicas share."""
        self.name = name
        self.day = int(now // DAY)
        """Number of the current day, in days since the epoch."""
        self.spent = 0
        """Tokens of all replicas as of the last synchronization."""
        self.unsettled = 0
        """Tokens that this replica has charged since the last synchronization."""
        self.queued = False
        """Whether the account is queued for synchronization."""
        self._sharing = sharing

    def total(self, now: float) -> int:
        """Tokens of today. If replicas share limits, this also queues a synchronization, which changes the total that
        later calls return.
        """
        self._start_day(now)
        self._settle_soon()
        return self.spent + self.unsettled

    def charge(self, tokens: int, now: float) -> None:
        """Add tokens to the total of today."""
        self._start_day(now)
        if self._sharing is None:
            self.spent += tokens
        else:
            self.unsettled += tokens
            self._settle_soon()

    def is_idle(self, now: float) -> bool:
        """Whether the account equals a new account, and may be dropped."""
        return not self.queued and self.day < int(now // DAY)

    def to_settle(self) -> int:
        """Take the tokens that are not synchronized yet; they then count as synchronized."""
        tokens, self.unsettled, self.queued = self.unsettled, 0, False
        self.spent += tokens
        return tokens

    def settle(self, day: int, total: int) -> None:
        """Set the tokens that all replicas have charged on a day, without the tokens that this replica has not
        synchronized yet.
        """
        if day == self.day:
            self.spent = max(self.spent, total)

    def _start_day(self, now: float) -> None:
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
    """Accounts of tokens that limit one request to a model, each with its limit. Without accounts, the request is not
    limited."""

    __slots__ = ("_accounts", "_clock", "_sharing")

    def __init__(
        self,
        accounts: Iterable[tuple[DayAccount, int, str, str]],
        clock: Callable[[], float],
        sharing: Sharing | None,
    ) -> None:
        """Create the budget; each of `accounts` comes with its limit, its scope, and the policy that sets the limit."""
        self._accounts = tuple(accounts)
        self._clock = clock
        self._sharing = sharing

    def refusal(self) -> LimitRefusal | None:
        """Why no further request to a model is sent; None if a request may be sent. `retry_after` is the time until
        midnight UTC.
        """
        if not self._accounts:
            return None
        if self._sharing is not None and self._sharing.blocked:
            return LimitRefusal(
                AGENT, "the limits that replicas share in Redis cannot be read now: retry later", self._sharing.blocked
            )
        return self.reached_limit()

    def reached_limit(self) -> LimitRefusal | None:
        """The limit that is used up according to this replica's data; None if no limit is used up."""
        now = self._clock()
        for account, limit, scope, policy in self._accounts:
            total = account.total(now)
            if total >= limit:
                agents = f"each agent that the policy {policy} applies to" if policy else "each agent"
                message = (
                    f"the limit of {limit:,} tokens of models a day for {agents} is reached: {total:,} were used "
                    "since midnight UTC"
                )
                return LimitRefusal(scope, message, (account.day + 1) * DAY - now)
        return None

    def charge(self, tokens: int) -> None:
        """Count tokens that a model has read and written."""
        now = self._clock()
        for account, _, _, _ in self._accounts:
            account.charge(tokens, now)


class TokenLimiter:
    """Token accounts of all agents. `per_agent` limits the tokens of each agent per UTC day; `clock` is in seconds
    since the epoch.
    """

    def __init__(
        self,
        per_agent: int | None = None,
        sharing: Sharing | None = None,
        clock: Callable[[], float] = time.time,
        max_accounts: int = MAX_ACCOUNTS,
    ) -> None:
        self._per_agent = per_agent
        self._sharing = sharing
        self._clock = clock
        self._max_accounts = max_accounts
        self._accounts: OrderedDict[str, DayAccount] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def budget(self, agent: str, quotas: Iterable[Quota] = ()) -> TokenBudget:
        """Budget of one request of an agent. `quotas` are the agent's quotas in the namespaces whose tools the request
        offers to the model.
        """
        name = account_name(agent)
        budgets = []
        if self._per_agent is not None:
            budgets.append((self._account(f"agent:{name}"), self._per_agent, AGENT, ""))
        for quota in quotas:
            if quota.tokens_per_day is not None:
                account = self._account(f"policy:{quota.namespace}:{name}")
                budgets.append((account, quota.tokens_per_day, POLICY, quota.policies["tokens_per_day"]))
        return TokenBudget(budgets, self._clock, self._sharing)

    def _account(self, key: str) -> DayAccount:
        account = self._accounts.get(key)
        if account is None:
            now = self._clock()
            _make_room(self._accounts, self._max_accounts, now)
            account = self._accounts[key] = DayAccount(key, self._sharing, now)
        return account


AccountT = TypeVar("AccountT", Account, DayAccount)
NO_BUDGET: Final = TokenLimiter().budget("")
"""Budget of requests without a limit."""


def _make_room(accounts: OrderedDict[str, AccountT], max_accounts: int, now: float) -> None:
    """Make room for one more account: of the oldest accounts, drop the idle ones, and move the busy ones to the end of
    the queue."""
    for _ in range(min(SWEEP_COUNT, len(accounts))):
        key, account = accounts.popitem(last=False)
        if not account.is_idle(now):
            accounts[key] = account
    while len(accounts) >= max_accounts:
        accounts.popitem(last=False)


def _are_equal(bound: Bound, other: Bound) -> bool:
    return bound.calls_per_minute == other.calls_per_minute and bound.concurrency == other.concurrency
