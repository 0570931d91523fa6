"""Keeps the status of ToolPolicies and the conditions of LatencyTiers.

Both are looked at again when policies, tiers, servers or their tools change.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Literal

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.rules import Rules
from fairlead_api.meta import ServerKey
from fairlead_api.policies.index import IndexedServer
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import ABNORMAL, ConditionType
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy, ToolPolicyStatus
from fairlead_operator.condition_assembly import as_shown, conditions
from fairlead_operator.ports import Announcement, ConditionVerdict, Declarations, Platform
from fairlead_operator.publish.policy_review import IN_FORCE, Review, review, selectable

logger = logging.getLogger(__name__)


class PolicyStatuses:
    """Keeps the status of all ToolPolicies. `wanted` is set when there is something to look at."""

    def __init__(
        self, declarations: Declarations, platform: Platform, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._declarations = declarations
        self._platform = platform
        self._now = now
        self._rules = Rules()
        self._shelves: dict[ServerKey, IndexedServer] = {}
        self._unlisted: set[ServerKey] = set()
        """Servers that were looked at, and have not listed their tools."""
        self._told: dict[ServerKey, tuple[Cause, ...]] = {}
        """Causes that people were told last."""
        self.wanted = asyncio.Event()

    def take_rules(self, rules: Rules) -> None:
        """The rules as they are published."""
        self.wanted.set()
        self._rules = rules

    def take_catalog(self, catalog: Catalog) -> None:
        """A catalog as it is published."""
        self._unlisted.discard(catalog.key)
        tools = selectable(catalog)
        if self._shelves.get(catalog.key) != tools:
            self._shelves[catalog.key] = tools
            self.wanted.set()

    def look(self, key: ServerKey, *, ready: bool) -> None:
        """A server as it was looked at: one that is not ready and has no catalog has not listed its tools."""
        if not ready and key not in self._shelves and key not in self._unlisted:
            self._unlisted.add(key)
            self.wanted.set()

    def forget(self, alive: Collection[ServerKey]) -> None:
        """Keep the living only."""
        self._unlisted.intersection_update(alive)
        for key in self._shelves.keys() - set(alive):
            del self._shelves[key]
            self.wanted.set()

    async def show(self) -> None:
        """Look at every policy, and write what is not shown yet. Raises PLATFORM_ERRORS."""
        servers = await self._declarations.labels()
        reviews = review(self._rules, [*servers], self._shelves, self._unlisted)
        for key, fault in self._declarations.policy_faults().items():
            if key in reviews:
                message = f"it cannot be read, and denies everything that it selects: {fault}"
                reviews[key] = dataclasses.replace(
                    reviews[key], accepted=ConditionVerdict(False, Cause.INVALID, message), partially_invalid=None
                )
        for policy in await self._declarations.policies():
            reviewed = reviews.get(policy.key)
            if reviewed is None:
                continue  # newer than the rules, which are compiled again by now
            reviewed = _with_unknown_as_shown(policy, reviewed)
            status = status_of(policy, reviewed, self._now())
            if status != policy.status:
                await self._declarations.show_policy(policy, status)
            await self._tell(policy, reviewed)
        await self._show_tiers()
        self._told = {key: causes for key, causes in self._told.items() if key in reviews}

    async def _tell(self, policy: ToolPolicy, reviewed: Review) -> None:
        """Events about a policy that something is amiss with, or not any more."""
        status = self._told.get(policy.key)
        before = _causes_shown(policy) if status is None else status
        now = self._told[policy.key] = tuple(verdict.cause for verdict in reviewed.warnings)
        if now == before:
            return
        for verdict in reviewed.warnings or (reviewed.accepted,):
            if verdict.cause not in before:
                kind: Literal["Normal", "Warning"] = "Warning" if reviewed.warnings else "Normal"
                logger.info("policy %s: %s: %s", policy.key, verdict.cause, verdict.message)
                await self._platform.announce(policy, Announcement(kind, verdict.reason, verdict.message))

    async def _show_tiers(self) -> None:
        """Whether each tier is in force, and whether another one is the default that it asks to be."""
        default = next((tier.name for tier in self._rules.tiers if tier.default), None)
        compiled = {tier.name for tier in self._rules.tiers}
        shown = {}
        for tier in await self._declarations.tiers():
            name = tier.metadata.name
            if name in compiled:
                taken = tier.spec.default and default is not None and default != name
                given = {
                    ConditionType.ACCEPTED: IN_FORCE,
                    ConditionType.CONFLICTED: _accept(default) if taken else None,
                }
                shown[name] = conditions(given, tier.status.conditions, tier.metadata.generation, self._now())
        await self._declarations.show_tiers(shown, default)


def _accept(default: str | None) -> ConditionVerdict:
    message = f"default: true has no effect, as {default} is the default tier; this one works under its own name"
    return ConditionVerdict(True, Cause.DEFAULT_TAKEN, message)


def _causes_shown(policy: ToolPolicy) -> tuple[Cause, ...]:
    """Causes that an earlier leader told of."""
    conditions = (
        (kind, as_shown(policy.status.condition(kind))) for kind in (ConditionType.ACCEPTED, *sorted(ABNORMAL))
    )
    return tuple(v.cause for kind, v in conditions if v is not None and bool(v.ok) == (kind in ABNORMAL))


def _with_unknown_as_shown(policy: ToolPolicy, reviewed: Review) -> Review:
    """The review, with rules that matched nothing for an earlier leader as they are shown, while servers are left that
    this one has not looked at.
    """
    condition = policy.status.condition(ConditionType.PARTIALLY_INVALID)
    shown = as_shown(condition)
    if reviewed.unmatched is not None or reviewed.partially_invalid is not None or shown is None or condition is None:
        return reviewed
    if shown.cause is not Cause.RULES_MATCH_NOTHING or condition.observed_generation != policy.metadata.generation:
        return reviewed
    return dataclasses.replace(reviewed, partially_invalid=shown)


def status_of(policy: ToolPolicy, reviewed: Review, now: datetime) -> ToolPolicyStatus:
    """The status that a review comes to; what is not known now stays as it is shown."""
    shown, generation = policy.status, policy.metadata.generation
    given = {
        ConditionType.ACCEPTED: reviewed.accepted,
        ConditionType.PARTIALLY_INVALID: reviewed.partially_invalid,
        ConditionType.CONFLICTED: reviewed.conflicted,
    }
    return ToolPolicyStatus(
        conditions=conditions(given, shown.conditions, generation, now),
        observed_generation=generation,
        servers=reviewed.servers,
        tools=shown.tools if reviewed.tools is None else reviewed.tools,
        conflicts=list(reviewed.conflicts),
        unmatched_rules=shown.unmatched_rules if reviewed.unmatched is None else list(reviewed.unmatched),
        unlisted_servers=shown.unlisted_servers if reviewed.unlisted is None else list(reviewed.unlisted),
    )
