"""The choice of a tier for a subject that may see none."""

from __future__ import annotations

import pytest

from fairlead_api.documents.rules import Rules, Tier
from fairlead_gateway.catalog.model import build
from fairlead_gateway.conversation.turn import Choice
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog, limit_tier
from fairlead_offers.problems import UNKNOWN_TIER, Problem
from policyworld import anybody
from selections import select


class BlindCatalog(SubjectCatalog):
    """Catalog of a subject whose policies show no tier."""

    @property
    def tiers(self) -> tuple[str, ...]:
        return ()


def test_a_choice_for_a_subject_without_a_tier_says_whom_to_ask() -> None:
    selection = select(build({"r": Rules(tiers=(Tier(name="fast", max_latency_ms=500),))}))
    choice = Choice(tier="fast", number=0, rule="default", matched=None, limit_ms=500)
    with pytest.raises(Problem, match="ask for a ToolPolicy that shows you one") as caught:
        limit_tier(choice, BlindCatalog(selection, anybody("npc")))
    assert caught.value.document.code == UNKNOWN_TIER
