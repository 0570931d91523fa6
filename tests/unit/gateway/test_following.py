"""A new selection prepares the views that were requested from the selection that it replaces."""

from __future__ import annotations

from fairlead_api.documents.codec import Document
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject, Tier
from fairlead_api.slices import finish
from fairlead_gateway.catalog.model import build
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.view import MERGED
from gatewayworld import catalog
from policyworld import anybody
from selections import select

ONE = anybody("one")
OTHER = anybody("other")
POLICIES = (
    Policy(
        namespace="default",
        name="p",
        every=True,
        subjects=(Subject(kind="Agent", name="one"),),
        rules=(Rule(action="Allow", tools=("get",)),),
    ),
    Policy(namespace="default", name="q", every=True, rules=(Rule(action="Deny", tools=("put",)),)),
)


def world(*tools: str) -> dict[str, Document]:
    tiers = (Tier(name="fast"), Tier(name="deep", call_timeout_ms=5))
    return {"1": catalog("web", "http://w", [*tools]), "r": Rules(policies=POLICIES, tiers=tiers)}


def follow(before: Selection, *tools: str) -> Selection:
    after = select(build(world(*tools), before.snapshot), before=before)
    finish(after.prepare_in_slices(before))
    return after


def test_the_views_of_callers_who_asked_are_put_together() -> None:
    before = select(build(world("get", "put")))
    assert [*before.seen_by(ONE)[MERGED].routes] == ["web__get"]
    after = follow(before, "get", "new")
    view = after.built_views.find(ONE, MERGED)
    assert view is not None
    assert view.is_joined
    assert [*view.routes] == ["web__get"]
    assert not after.is_built(ONE, b"/servers/default/web/mcp"), "nobody looked at it"
    assert not after.is_built(OTHER, MERGED), "nor did they"


def test_views_that_nobody_asked_for_since_the_last_time_are_not() -> None:
    before = select(build(world("get")))
    assert [*before.seen_by(ONE)[MERGED].routes] == ["web__get"]
    first = follow(before, "get", "a")
    second = follow(first, "get", "b")
    assert second.built_views.find(ONE, MERGED) is None


def test_looking_up_the_views_of_a_principal_merges_no_rules() -> None:
    made = select(build(world("get")))
    assert made.views_of(ONE) is made.views_of(ONE)
    assert not made.views_of(ONE).rules.is_merged, "that takes milliseconds: it is done in slices"
    assert not made.is_built(ONE, MERGED)


def test_a_list_of_everybody_is_put_together_where_it_was_read() -> None:
    before = select(build(world("get")))
    assert before.targets[b"/mcp/deep"].listing
    after = follow(before, "put")
    assert after.targets[b"/mcp/deep"].is_joined
    assert after.targets[MERGED].is_joined, "most look there"
