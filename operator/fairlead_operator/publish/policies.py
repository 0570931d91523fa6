"""Keeps the status of ToolPolicies: looked at anew when policies, tiers, servers or their tools change.

Made by the controller, which tells it of what changes and runs it.
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
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.conditions import ConditionType, Reason, Status
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy, ToolPolicyStatus
from fairlead_operator.ports import Announcement, ConditionVerdict, Declarations, Platform
from fairlead_operator.publish.review import Review, review

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
        self._catalogs: dict[ServerKey, Catalog] = {}
        self._told: dict[ServerKey, str] = {}
        """Reason that people were told last."""
        self.wanted = asyncio.Event()

    def compiled(self, rules: Rules) -> None:
        """The rules as they are published."""
        if rules.policies or self._rules.policies:
            self.wanted.set()
        self._rules = rules

    def know(self, catalog: Catalog) -> None:
        """A catalog as it is published."""
        known = self._catalogs.get(catalog.key)
        self._catalogs[catalog.key] = catalog
        if known is None or known.tools != catalog.tools or known.trust_annotations != catalog.trust_annotations:
            self.wanted.set()

    def forget(self, alive: Collection[ServerKey]) -> None:
        """Keep the living only."""
        for key in self._catalogs.keys() - set(alive):
            del self._catalogs[key]
            self.wanted.set()

    async def show(self) -> None:
        """Look at every policy, and write what is not shown yet. Raises PLATFORM_ERRORS."""
        servers = await self._declarations.labels()
        reviews = review(self._rules, [*servers], self._catalogs.values())
        for key, fault in self._declarations.policy_faults().items():
            if key in reviews:
                said = f"it cannot be read, and denies everything that it selects: {fault}"
                reviews[key] = dataclasses.replace(reviews[key], verdict=ConditionVerdict(False, Reason.INVALID, said))
        for policy in await self._declarations.policies():
            found = reviews.get(policy.key)
            if found is None:
                continue  # newer than the rules, which are compiled again by now
            status = status_of(policy, found, self._now())
            if status != policy.status:
                await self._declarations.show_policy(policy, status)
            await self._tell(policy, found.verdict)
        self._told = {key: reason for key, reason in self._told.items() if key in reviews}

    async def _tell(self, policy: ToolPolicy, verdict: ConditionVerdict) -> None:
        """An event for each policy that something is amiss with, or not any more."""
        shown = policy.status.condition(ConditionType.ACCEPTED)
        before = self._told.get(policy.key) or (shown.reason if shown is not None else None)
        self._told[policy.key] = verdict.reason
        if verdict.reason != before and (before is not None or not verdict.ok):
            kind: Literal["Normal", "Warning"] = "Normal" if verdict.ok else "Warning"
            logger.info("policy %s: %s: %s", policy.key, verdict.reason, verdict.message)
            await self._platform.announce(policy, Announcement(kind, verdict.reason, verdict.message))


def status_of(policy: ToolPolicy, found: Review, now: datetime) -> ToolPolicyStatus:
    """The status that a review comes to; what is not known now stays as it is shown."""
    shown, verdict = policy.status, found.verdict
    status: Status = "Unknown" if verdict.ok is None else "True" if verdict.ok else "False"
    before = shown.condition(ConditionType.ACCEPTED)
    since = (
        before.last_transition_time if before is not None and before.status == status else now.replace(microsecond=0)
    )
    return ToolPolicyStatus(
        conditions=[
            Condition(
                type=ConditionType.ACCEPTED,
                status=status,
                reason=verdict.reason,
                message=verdict.message[:4096],
                observed_generation=policy.metadata.generation,
                last_transition_time=since,
            )
        ],
        observed_generation=policy.metadata.generation,
        servers=found.servers,
        tools=shown.tools if found.tools is None else found.tools,
        conflicts=list(found.conflicts),
        unmatched_rules=shown.unmatched_rules if found.unmatched is None else list(found.unmatched),
    )
