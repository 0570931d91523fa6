"""Tokens of models that each agent may take up in a UTC day: in all, and with the tools of a namespace.

Pure module. A request is admitted while something is left, and its tokens are charged when the provider has said how
many they were; requests at work are not known of. `limits.shared` settles the accounts with other replicas.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from fairlead_gateway.core.quota import Quota
from fairlead_gateway.limits.limiter import AGENT, MAX_ACCOUNTS, POLICY, SWEPT, Limited, account_name
from fairlead_gateway.limits.rate import Sharing

DAY: Final = 86_400.0
"""Seconds of a UTC day; leap seconds are none in POSIX time."""


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

    def settled(self, day: int, total: int) -> None:
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
        return self.spent()

    def spent(self) -> Limited | None:
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
            self._sweep(now)
            account = self._accounts[key] = DayAccount(key, self._sharing, now)
        return account

    def _sweep(self, now: float) -> None:
        """Drop those of yesterday among the oldest; the others go to the end."""
        for _ in range(min(SWEPT, len(self._accounts))):
            key, account = self._accounts.popitem(last=False)
            if not account.idle(now):
                self._accounts[key] = account
        while len(self._accounts) >= self._most:
            self._accounts.popitem(last=False)


NO_BUDGET: Final = TokenLimiter().budget("")
"""That of requests that nothing bounds."""
