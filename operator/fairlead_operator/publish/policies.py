"""Writes the statuses of ToolPolicies and the conditions of LatencyTiers.

They are computed again when policies, tiers, servers or their tools change.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Final, Literal

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.rules import Rules
from fairlead_api.meta import ServerKey
from fairlead_api.policies.index import IndexedServer
from fairlead_api.remedies import Form
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import ABNORMAL, ConditionType
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy, ToolPolicyStatus
from fairlead_operator.condition_assembly import AdviceContext, conditions, verdict_of
from fairlead_operator.ports import Announcement, ConditionVerdict, Declarations, Platform
from fairlead_operator.publish.policy_review import IN_FORCE, Review, review, selectable_tools

logger = logging.getLogger(__name__)


class PolicyStatuses:
    """Writes the statuses of all ToolPolicies. `outdated` is set when a review is due."""

    def __init__(
        self, declarations: Declarations, platform: Platform, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._declarations = declarations
        self._platform = platform
        self._now = now
        self._rules = Rules()
        self._listed_servers: dict[ServerKey, IndexedServer] = {}
        """Tools of each server with a catalog."""
        self._unlisted_servers: set[ServerKey] = set()
        """Servers that were reconciled and have not listed their tools."""
        self._announced_causes: dict[ServerKey, tuple[Cause, ...]] = {}
        """Causes of the last announcement about each policy."""
        self.outdated = asyncio.Event()

    def take_rules(self, rules: Rules) -> None:
        """Use the published rules."""
        self.outdated.set()
        self._rules = rules

    def take_catalog(self, catalog: Catalog) -> None:
        """Use the tools of a published catalog."""
        self._unlisted_servers.discard(catalog.key)
        tools = selectable_tools(catalog)
        if self._listed_servers.get(catalog.key) != tools:
            self._listed_servers[catalog.key] = tools
            self.outdated.set()

    def note_reconciled(self, key: ServerKey, *, is_ready: bool) -> None:
        """Record that a server was reconciled. If it is not ready and has no catalog, it has not listed its tools."""
        if not is_ready and key not in self._listed_servers and key not in self._unlisted_servers:
            self._unlisted_servers.add(key)
            self.outdated.set()

    def forget(self, existing_keys: Collection[ServerKey]) -> None:
        """Forget all servers that no longer exist."""
        self._unlisted_servers.intersection_update(existing_keys)
        for key in self._listed_servers.keys() - set(existing_keys):
            del self._listed_servers[key]
            self.outdated.set()

    async def show(self) -> None:
        """Review every policy, and write the statuses that changed. Raises PLATFORM_ERRORS."""
        servers = await self._declarations.labels()
        reviews = review(self._rules, [*servers], self._listed_servers, self._unlisted_servers)
        for key, fault in self._declarations.policy_faults().items():
            if key in reviews:
                message = f"the policy cannot be read, and therefore denies everything that it selects: {fault}"
                reviews[key] = dataclasses.replace(
                    reviews[key], accepted=ConditionVerdict(False, Cause.INVALID, message), partially_invalid=None
                )
        for policy in await self._declarations.policies():
            policy_review = reviews.get(policy.key)
            if policy_review is None:
                continue  # the policy is newer than the rules, which will be compiled again soon
            policy_review = _with_stored_condition(policy, policy_review)
            status = status_of(policy, policy_review, self._now(), self._platform.environment)
            if status != policy.status:
                await self._declarations.write_policy_status(policy, status)
            await self._announce(policy, policy_review)
        await self._write_tier_conditions()
        self._announced_causes = {key: causes for key, causes in self._announced_causes.items() if key in reviews}

    async def _announce(self, policy: ToolPolicy, policy_review: Review) -> None:
        """Announce new warnings about a policy, and announce when they no longer apply."""
        announced_causes = self._announced_causes.get(policy.key)
        causes_before = _causes_shown(policy) if announced_causes is None else announced_causes
        causes_now = self._announced_causes[policy.key] = tuple(verdict.cause for verdict in policy_review.warnings)
        if causes_now == causes_before:
            return
        for verdict in policy_review.warnings or (policy_review.accepted,):
            if verdict.cause not in causes_before:
                kind: Literal["Normal", "Warning"] = "Warning" if policy_review.warnings else "Normal"
                logger.info("policy %s: %s: %s", policy.key, verdict.cause, verdict.message)
                await self._platform.announce(policy, Announcement(kind, verdict.reason, verdict.message))

    async def _write_tier_conditions(self) -> None:
        """Write the conditions of each tier: that it is in force, and if it has `default: true` while another tier is
        the default.
        """
        default = next((tier.name for tier in self._rules.tiers if tier.default), None)
        compiled_names = {tier.name for tier in self._rules.tiers}
        conditions_by_tier = {}
        for tier in await self._declarations.tiers():
            name = tier.metadata.name
            if name in compiled_names:
                is_not_default = tier.spec.default and default is not None and default != name
                verdicts = {
                    ConditionType.ACCEPTED: IN_FORCE,
                    ConditionType.CONFLICTED: _default_conflict(default) if is_not_default else None,
                }
                conditions_by_tier[name] = conditions(
                    verdicts, tier.status.conditions, tier.metadata.generation, self._now()
                )
        await self._declarations.write_tier_conditions(conditions_by_tier, default)


_MATCHES_NOTHING: Final = frozenset({Cause.RULES_MATCH_NOTHING, Cause.PINS_MATCH_NOTHING})
"""Causes that can be decided only after all selected servers have been reconciled."""


def _default_conflict(default: str | None) -> ConditionVerdict:
    message = f"default: true has no effect, because {default} is the default tier; this tier applies by its name only"
    return ConditionVerdict(True, Cause.DEFAULT_TAKEN, message)


def _causes_shown(policy: ToolPolicy) -> tuple[Cause, ...]:
    """Causes that a previous leader announced, from the policy's status."""
    conditions = (
        (kind, verdict_of(policy.status.condition(kind))) for kind in (ConditionType.ACCEPTED, *sorted(ABNORMAL))
    )
    return tuple(v.cause for kind, v in conditions if v is not None and bool(v.ok) == (kind in ABNORMAL))


def _with_stored_condition(policy: ToolPolicy, policy_review: Review) -> Review:
    """The review with the stored condition about rules that match nothing, until this leader has reconciled all
    selected servers and can decide about it.
    """
    condition = policy.status.condition(ConditionType.PARTIALLY_INVALID)
    stored_verdict = verdict_of(condition)
    if (
        policy_review.unmatched_rules is not None
        or policy_review.partially_invalid is not None
        or stored_verdict is None
        or condition is None
    ):
        return policy_review
    if stored_verdict.cause not in _MATCHES_NOTHING or condition.observed_generation != policy.metadata.generation:
        return policy_review
    return dataclasses.replace(policy_review, partially_invalid=stored_verdict)


def status_of(policy: ToolPolicy, policy_review: Review, now: datetime, form: Form = "cluster") -> ToolPolicyStatus:
    """The status that results from a review. Values that are still unknown are copied from the stored status. `form`
    selects the wording of advice.
    """
    stored_status, generation = policy.status, policy.metadata.generation
    verdicts = {
        ConditionType.ACCEPTED: policy_review.accepted,
        ConditionType.PARTIALLY_INVALID: policy_review.partially_invalid,
        ConditionType.CONFLICTED: policy_review.conflict_verdict,
    }
    return ToolPolicyStatus(
        conditions=conditions(verdicts, stored_status.conditions, generation, now, AdviceContext(form)),
        observed_generation=generation,
        servers=policy_review.servers,
        tools=stored_status.tools if policy_review.tools is None else policy_review.tools,
        conflicts=list(policy_review.conflicts),
        unmatched_rules=stored_status.unmatched_rules
        if policy_review.unmatched_rules is None
        else list(policy_review.unmatched_rules),
        unlisted_servers=stored_status.unlisted_servers
        if policy_review.unlisted_servers is None
        else list(policy_review.unlisted_servers),
    )
