"""Publishes the rules document when the declared tiers, policies or labels of servers have changed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fairlead_api.documents.codec import RULES_NAME, encode
from fairlead_api.documents.rules import RULES, Rules
from fairlead_api.documents.store import pack
from fairlead_operator.ports import Declarations, Documents
from fairlead_operator.publish.compile import compile_rules

logger = logging.getLogger(__name__)


class RulesPublisher:
    """Compiles the rules document, and publishes it if it differs from the stored document."""

    def __init__(
        self,
        declarations: Declarations,
        documents: Documents,
        default_action: str = "Allow",
        *,
        default_tier: str = "",
        on_compiled: Callable[[Rules], None] = lambda rules: None,
    ) -> None:
        """`on_compiled` receives the rules after each compilation. `default_tier` is the default tier in the
        installation's settings, which overrides `default: true` of LatencyTiers; empty if the settings name no tier.
        """
        self._declarations = declarations
        self._documents = documents
        self._default_action = default_action
        self._on_compiled = on_compiled
        self._default_tier = default_tier
        self._warned_tiers: tuple[str, ...] | None = None
        """The existing tiers that the last warning about a missing default tier listed; None without such a warning."""

    async def publish(self) -> bool:
        """Publish the rules of the current declarations; return whether they had to be written."""
        rules = compile_rules(
            await self._declarations.tiers(),
            await self._declarations.policies(),
            await self._declarations.labels(),
            self._default_action,
            self._default_tier,
        )
        self._warn_if_default_missing(tuple(tier.name for tier in rules.tiers))
        self._on_compiled(rules)
        document = encode(rules)
        blobs = pack(RULES_NAME, RULES, document)
        if await self._documents.read(RULES_NAME) == document and await self._documents.holds(blobs):
            return False
        await self._documents.publish(blobs)
        logger.info("rules published: %d tiers, %d policies", len(rules.tiers), len(rules.policies))
        return True

    def _warn_if_default_missing(self, names: tuple[str, ...]) -> None:
        """Log once that the configured default tier does not exist."""
        listed_tiers = names if self._default_tier and self._default_tier not in names else None
        if listed_tiers is not None and listed_tiers != self._warned_tiers:
            logger.warning(
                "LatencyTier %r, the default tier of FAIRLEAD_DEFAULT_TIER, does not exist: clients that name no tier "
                "see every tool, unless a LatencyTier has `default: true`. Create it, or name one of these tiers: %s",
                self._default_tier,
                ", ".join(names),
            )
        self._warned_tiers = listed_tiers
