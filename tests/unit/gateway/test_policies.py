"""The merge table of policies, row by row and against a naive oracle: which tools are listed, and which may be
called."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from examples import examples
from fairlead_api.documents.catalog import LocalEndpoint
from fairlead_api.documents.codec import Document
from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Rules, Subject, Tier
from fairlead_api.documents.state import ServerState, State, ToolState
from fairlead_api.meta import ServerKey
from fairlead_gateway.catalog.model import build
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.core.route import Route
from fairlead_gateway.policy.selection import Selection
from gatewayworld import catalog, entry
from policyworld import Drawn, anybody, is_allowed, tools_of, worlds
from selections import select

NPC = anybody("npc", "players")
QA = anybody("qa")
EVERYTHING = Rule(action="Allow", tools=("*",))


def policy(name: str, *rules: Rule, **more: Any) -> Policy:
    more.setdefault("every", not more.get("servers"))
    return Policy(namespace=more.pop("namespace", "default"), name=name, rules=rules or (EVERYTHING,), **more)


def to(*names: str) -> tuple[Subject, ...]:
    return tuple(Subject(kind="Agent", name=name) for name in names)


def allow(*tools: str, **more: Any) -> Rule:
    return Rule(action="Allow", tools=tools, **more)


def deny(*tools: str, **more: Any) -> Rule:
    return Rule(action="Deny", tools=tools, **more)


def world(*policies: Policy, action: str = "Allow", tiers: Sequence[Tier] = (), **more: Any) -> Selection:
    """Servers `web` and `file` with two tools each in one namespace, and a server in another namespace."""
    rules = Rules(default_action=action, policies=policies, tiers=tuple(tiers), **more)
    documents: dict[str, Document] = {
        "1": catalog("web", "http://w", ["get", "put"]),
        "2": catalog("file", "http://f", ["get", "rm"]),
        "3": catalog("else", "http://e", ["get"], namespace="other"),
        "r": rules,
    }
    return select(build(documents))


def tool_names(selection: Selection, who: Identity, target: bytes = b"/mcp") -> list[str]:
    view = selection.seen_by(who)[target]
    names = [tool["name"] for tool in json.loads(b"".join(view.listing) + b"}")["tools"]]
    assert names == list(view.routes)
    return names


ALL = ["else__get", "file__get", "file__rm", "web__get", "web__put"]
TABLE: dict[str, tuple[Sequence[Policy], str, Identity, list[str]]] = {
    "no policy, default Allow": ((), "Allow", NPC, ALL),
    "no policy, default Deny": ((), "Deny", NPC, []),
    "selected, and nothing else is said of the other namespace": (
        [policy("p", allow("get"))],
        "Allow",
        NPC,
        ["else__get", "file__get", "web__get"],
    ),
    "the default Deny does not touch what a policy allows": (
        [policy("p", allow("get"))],
        "Deny",
        NPC,
        ["file__get", "web__get"],
    ),
    "a selected server is closed to whom nobody speaks of": (
        [policy("p", subjects=to("qa"))],
        "Allow",
        NPC,
        ["else__get"],
    ),
    "and open to whom somebody does": ([policy("p", subjects=to("qa"))], "Allow", QA, ALL),
    "a server that the selector leaves out follows the default": (
        [policy("p", allow("get"), servers=("web",))],
        "Allow",
        NPC,
        ["else__get", "file__get", "file__rm", "web__get"],
    ),
    "deny over allow within a policy": (
        [policy("p", allow("*"), deny("get"))],
        "Allow",
        NPC,
        ["else__get", "file__rm", "web__put"],
    ),
    "deny over allow between policies": (
        [policy("a", allow("*")), policy("b", deny("get"), servers=("web",))],
        "Allow",
        NPC,
        ["else__get", "file__get", "file__rm", "web__put"],
    ),
    "a denial speaks of its subjects only": (
        [policy("a", allow("*")), policy("b", deny("get"), subjects=to("npc"))],
        "Allow",
        QA,
        ALL,
    ),
    "allowances add up": (
        [policy("a", allow("get")), policy("b", allow("rm"), subjects=to("npc"))],
        "Allow",
        NPC,
        ["else__get", "file__get", "file__rm", "web__get"],
    ),
    "a policy that only denies allows nothing": ([policy("p", deny("rm"))], "Allow", NPC, ["else__get"]),
    "an anonymous asker is Any": ([policy("p", subjects=(Subject(kind="Any"),))], "Allow", ANONYMOUS, ALL),
    "but not Authenticated": (
        [policy("p", subjects=(Subject(kind="Authenticated"),))],
        "Allow",
        ANONYMOUS,
        ["else__get"],
    ),
    "globs are about the server's own names": ([policy("p", allow("web__*"))], "Allow", NPC, ["else__get"]),
    "a policy of another namespace has no effect": (
        [policy("p", deny("*"), namespace="third"), policy("q", deny("*"), namespace="other")],
        "Allow",
        NPC,
        ALL[1:],
    ),
    "subjects of a kind that nobody knows are nobody": (
        [policy("p", subjects=(Subject(kind="Robot", name="npc"),))],
        "Allow",
        NPC,
        ["else__get"],
    ),
    "an action that nobody knows allows nothing": (
        [policy("p", Rule(action="Perhaps", tools=("*",)))],
        "Allow",
        NPC,
        ["else__get"],
    ),
}


@pytest.mark.parametrize("row", TABLE)
def test_policies_merge_as_the_table_says(row: str) -> None:
    policies, action, who, expected = TABLE[row]
    assert tool_names(world(*policies, action=action), who) == expected


@settings(max_examples=examples(300), deadline=None)
@given(worlds())
def test_every_decision_is_that_of_a_naive_oracle(drawn: Drawn) -> None:
    documents: dict[str, Document] = {f"{s.namespace}-{s.name}": s.catalog("http://x") for s in drawn.servers}
    selection = select(build({**documents, "rules": drawn.rules}))
    views = selection.seen_by(drawn.asker)
    policies = selection.policies
    for server, name in tools_of(drawn):
        expected = is_allowed(drawn, server, name)
        key = ServerKey(server.namespace, server.name)
        own = views.get(b"/servers/%b/%b/mcp" % (server.namespace.encode(), server.name.encode()))
        for view, shown in ((views[b"/mcp"], f"{server.namespace}{server.name}__{name}"), (own, name)):
            route = None if view is None else view.routes.get(shown)
            assert (route is not None) is bool(expected), (server, name)
            if route is not None:
                for n in (1, 2, 3):
                    takes = expected is True or any(s["properties"]["n"]["const"] == n for s in expected or [])
                    assert takes_arguments(route, n) is takes
        verdict = policies.verdict(key, name, policies.key_for(drawn.asker))
        assert verdict is not None
        assert verdict.allowed is bool(expected)
        assert policies.sentence(verdict)


def takes_arguments(route: Route, n: int) -> bool:
    return route.constraint is None or route.constraint.refusal(b'{"n":%d}' % n) is None


def test_askers_of_one_rule_set_share_their_views() -> None:
    selection = world(policy("p", allow("get"), subjects=(Subject(kind="Authenticated"),)))
    first = selection.seen_by(anybody("one"))
    other = selection.seen_by(anybody("other", "group"))
    assert first is other
    assert first[b"/mcp"] is other[b"/mcp"]


def test_rule_sets_that_see_the_same_share_its_bytes() -> None:
    selection = world(policy("p", allow("get"), subjects=to("npc")), policy("q", allow("g*"), subjects=to("qa")))
    first = selection.seen_by(NPC)[b"/mcp"]
    other = selection.seen_by(QA)[b"/mcp"]
    assert first is not other
    assert first.listing is other.listing


def test_principals_without_restrictions_get_the_very_views_of_everybody() -> None:
    selection = world(policy("p", subjects=to("qa")))
    assert selection.seen_by(QA)[b"/mcp"] is selection.targets[b"/mcp"]
    assert selection.seen_by(QA) is selection.targets
    assert selection.seen_by(NPC)[b"/mcp"] is not selection.targets[b"/mcp"]


def test_a_server_that_shows_nothing_does_not_exist() -> None:
    views = world(policy("p", deny("*"), servers=("web",))).seen_by(NPC)
    assert b"/servers/default/web/mcp" not in views
    assert views.get(b"/servers/default/web/mcp") is None
    assert b"/servers/default/file/mcp" in views
    assert len(views) == len([*views]) == 4


def test_a_server_that_the_rules_do_not_know_yet_is_nobodys() -> None:
    selection = world(policy("p", servers=("web",)), judged={"default": ("web",)})
    assert tool_names(selection, NPC) == ["else__get", "web__get", "web__put"]


def test_tools_of_the_gateway_itself_are_selected_by_policies_without_a_selector_alone() -> None:
    local = catalog("local", LocalEndpoint(), ["mine"])
    some = Rules(policies=(policy("p", deny("*"), servers=("web",)),), judged={"default": ("web",)})
    assert tool_names(select(build({"1": local, "r": some})), NPC) == ["local__mine"]
    every = Rules(policies=(policy("p", deny("*")),))
    assert tool_names(select(build({"1": local, "r": every})), NPC) == []


def test_the_last_rules_stay_in_force_when_their_document_is_gone() -> None:
    documents: dict[str, Document] = {
        "1": catalog("web", "http://w", ["get"]),
        "r": Rules(policies=(policy("p", deny("*")),)),
    }
    before = build(documents)
    del documents["r"]
    assert tool_names(select(build(documents, before)), NPC) == []


def test_rules_that_come_later_are_prepared_for_though_the_servers_are_the_same() -> None:
    documents: dict[str, Document] = {
        "1": catalog("web", "http://w", [entry("get", tags=("a",)), entry("put")]),
        "r": Rules(policies=(policy("p"),)),
    }
    before = select(build(documents))
    documents["r"] = Rules(policies=(policy("p", deny("*t", tags=("a",))), policy("q")))
    after = select(build(documents, before.snapshot), before=before)
    index = after.policies.index("default")
    assert index is before.policies.index("default")
    assert "tags" in index._words, "read with the first question, it would hold the loop up"
    assert tool_names(after, NPC) == ["web__put"]


FAST = Tier(name="fast", max_latency_ms=500, default=True)
SLOW = Tier(name="slow", max_latency_ms=4000)


def tiered_selection(*policies: Policy) -> Selection:
    """A selection with the tiers `fast` and `slow`, in which `web__put` is too slow for `fast`."""
    put = ToolState(name="put", tiers=("slow",), hidden={"fast": "over_budget"})
    state = State(servers=(ServerState(namespace="default", name="web", tools=(put,)),))
    documents: dict[str, Document] = {
        "1": catalog("web", "http://w", ["get", "put"]),
        "2": catalog("else", "http://e", ["get"], namespace="other"),
        "r": Rules(policies=policies, tiers=(FAST, SLOW)),
        "s": state,
    }
    return select(build(documents))


def test_a_policy_chooses_the_tier_of_those_who_name_none() -> None:
    selection = tiered_selection(policy("p", subjects=to("npc"), default_tier="slow"))
    assert tool_names(selection, NPC) == ["else__get", "web__get", "web__put"]
    assert tool_names(tiered_selection(), NPC) == ["else__get", "web__get"]


def test_a_tier_above_the_greatest_does_not_exist_where_no_server_allows_it() -> None:
    selection = tiered_selection(policy("p", max_tier="fast"))
    views = selection.seen_by(NPC)
    assert b"/servers/default/web/mcp/slow" not in views
    assert b"/mcp/slow" in views, "the other namespace bounds nothing"
    assert tool_names(selection, NPC, b"/mcp/slow") == ["else__get", "web__get"]
    both = tiered_selection(policy("p", max_tier="fast"), policy("q", max_tier="fast", namespace="other"))
    assert b"/mcp/slow" not in both.seen_by(NPC)
    assert b"/mcp/fast" in both.seen_by(NPC)


def test_a_tier_is_not_told_to_principals_who_may_not_have_it() -> None:
    view = tiered_selection(policy("p", max_tier="fast")).seen_by(NPC)[b"/mcp"]
    route = view.find_unlisted("web__put", now=1e9)
    assert route is not None
    assert route.unavailable is not None
    assert "slow" not in route.unavailable.message
    open_to_all = tiered_selection(policy("p")).seen_by(NPC)[b"/mcp"].find_unlisted("web__put", 1e9)
    assert open_to_all is not None
    assert open_to_all.unavailable is not None
    assert "slow shows the tool" in open_to_all.unavailable.message


@pytest.mark.parametrize(
    ("policies", "default", "most"),
    [
        ([("slow", None), ("fast", None)], "fast", None),
        ([("slow", "slow"), (None, "fast")], "slow", "fast"),
        ([("nowhere", None)], None, None),
        ([(None, "nowhere")], None, "fast"),
    ],
)
def test_of_several_tiers_the_faster_counts(
    policies: list[tuple[str | None, str | None]], default: str | None, most: str | None
) -> None:
    made = [policy(f"p{n}", default_tier=d, max_tier=m) for n, (d, m) in enumerate(policies)]
    selection = tiered_selection(*made)
    rules = selection.views_of(NPC).rules
    rules.merge()
    bounds = rules.tiers(ServerKey("default", "web"))
    assert (bounds.default, bounds.max) == (default, most)


def test_of_several_limits_the_smallest_counts() -> None:
    first = policy("a", limits=PolicyLimits(max_tools=3, calls_per_minute=10))
    second = policy("b", limits=PolicyLimits(max_tools=5, calls_per_minute=6, concurrency=2), subjects=to("npc"))
    third = policy("c", limits=PolicyLimits(max_tools=1), subjects=to("qa"))
    share = world(first, second, third).seen_by(NPC)[b"/mcp"].routes["web__get"].quota
    assert share is not None
    assert (share.max_tools, share.calls_per_minute, share.concurrency) == (3, 6, 2)
    assert share.policies == {"max_tools": "default/a", "calls_per_minute": "default/b", "concurrency": "default/b"}
    assert world(first).seen_by(NPC)[b"/mcp"].routes["else__get"].quota is None


def test_a_list_is_cut_to_max_tools_in_the_order_of_names_and_pins_stay() -> None:
    bounded = policy("p", limits=PolicyLimits(max_tools=2), pinned=("put",))
    selection = world(bounded)
    assert tool_names(selection, NPC) == ["else__get", "file__get", "web__put"]
    view = selection.seen_by(NPC)[b"/mcp"]
    assert view.pinned == {"web__put"}
    route = view.find_unlisted("web__get", now=1e9)
    assert route is not None
    assert route.unavailable is not None
    assert route.unavailable.code == "OVER_BUDGET"
    assert "maxTools=2 policy=default/p" in route.unavailable.message


def test_tools_cut_from_a_list_stay_callable_for_a_while() -> None:
    documents: dict[str, Document] = {"1": catalog("web", "http://w", ["b", "c"])}
    documents["r"] = Rules(policies=(policy("p", limits=PolicyLimits(max_tools=2)),))
    before = select(build(documents))
    assert tool_names(before, NPC) == ["web__b", "web__c"]
    documents["1"] = catalog("web", "http://w", ["a", "b", "c"])
    after = select(build(documents), before=before, now=1000.0)
    assert tool_names(after, NPC) == ["web__a", "web__b"]
    view = after.seen_by(NPC)[b"/mcp"]
    soon = view.find_unlisted("web__c", now=1059.0)
    late = view.find_unlisted("web__c", now=1061.0)
    assert soon is not None
    assert late is not None
    assert (soon.unavailable is None, late.unavailable is None) == (True, False)


def test_a_list_is_cut_to_tool_tokens() -> None:
    schema = {"type": "object"}
    small = {"name": "b", "inputSchema": schema}
    large = {"name": "a", "description": "x" * 4000, "inputSchema": schema}
    documents: dict[str, Document] = {
        "1": catalog("s", "http://s", [entry(small), entry(large)]),
        "r": Rules(policies=(policy("p", limits=PolicyLimits(tool_tokens=500)),)),
    }
    assert tool_names(select(build(documents)), NPC) == ["s__b"]


def test_pins_add_up_and_never_show_what_is_denied() -> None:
    selection = world(policy("a", pinned=("get",)), policy("b", deny("rm"), pinned=("put", "rm")))
    assert selection.seen_by(NPC)[b"/mcp"].pinned == {"file__get", "web__get", "web__put"}


def test_a_wrong_name_is_never_answered_with_a_hidden_one() -> None:
    view = world(policy("p", deny("put"), allow("*"))).seen_by(NPC)[b"/mcp"]
    assert view.nearest("web__pu") != "web__put"
    assert world().seen_by(NPC)[b"/mcp"].nearest("web__pu") == "web__put"


def test_reasons_are_told_only_where_every_policy_about_the_asker_says_so() -> None:
    told = policy("a", allow("get"), denied="Explain")
    view = world(told).seen_by(NPC)[b"/mcp"]
    assert view.why_denied("web__put") == "no rule of default/a allows the tool"
    assert view.why_denied("web__none") is None
    assert view.why_denied("web__get") is None
    both = world(told, policy("b", allow("get"), subjects=to("npc")))
    assert both.seen_by(NPC)[b"/mcp"].why_denied("web__put") is None
    assert both.seen_by(QA)[b"/mcp"].why_denied("web__put") == "no rule of default/a allows the tool"
    nobody = world(policy("a", denied="Explain", subjects=to("qa"))).seen_by(NPC)[b"/mcp"]
    assert nobody.why_denied("web__put") is None


def test_a_selection_ends_with_its_last_reference() -> None:
    """The garbage collector never visits large catalogs (`gc.freeze`), so a reference cycle would never be freed."""
    selection = world(policy("p", deny("get"), denied="Explain"))
    assert selection.seen_by(NPC)[b"/mcp"].why_denied("web__get") is not None
    assert tool_names(selection, QA) != []
    gc.collect()
    gc.disable()
    try:
        held = weakref.ref(selection)
        del selection
        assert held() is None
    finally:
        gc.enable()


def test_views_of_rule_sets_are_let_go_of_beyond_their_bytes() -> None:
    some = tuple(policy(f"p{n}", allow("get"), subjects=to(f"agent{n}")) for n in range(20))
    documents: dict[str, Document] = {"1": catalog("web", "http://w", ["get", "put"]), "r": Rules(policies=some)}
    selection = select(build(documents), view_bytes=2000)
    agents = [anybody(f"agent{n}") for n in range(20)]
    first = weakref.ref(selection.views_of(agents[0]))
    for agent in agents:
        assert tool_names(selection, agent) == ["web__get"]
    assert 0 < selection.weight <= 2000
    gc.collect()
    assert first() is None  # the agent's identity does not keep the dropped view alive
    assert tool_names(selection, agents[0]) == ["web__get"]
