"""The status of a policy: selected servers, matched tools, faults, and policies that contradict it."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Rules, Subject, Tier
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy
from fairlead_operator.publish.compile import compile_rules
from fairlead_operator.publish.policies import PolicyStatuses
from fairlead_operator.publish.policy_review import Review, review, selectable_tools
from gatewayworld import catalog, entry
from operatorfakes import MemoryDeclarations, MemoryPlatform
from toolservers import tool

WEB = ServerKey("n", "web")
FILE = ServerKey("n", "file")
CATALOGS = [
    catalog("web", "http://w", [entry(tool("get"), tags=("safe",)), "put"], namespace="n"),
    catalog("file", "http://f", ["get", entry(tool("off"), enabled=False)], namespace="n"),
]
TIERS = (Tier(name="fast", max_latency_ms=500), Tier(name="slow"))


def policy(name: str, *rules: Rule, **more: Any) -> Policy:
    more.setdefault("every", not more.get("servers"))
    return Policy(namespace="n", name=name, rules=rules or (allow("*"),), **more)


def allow(*tools: str, **more: Any) -> Rule:
    return Rule(action="Allow", tools=tools, **more)


def deny(*tools: str, **more: Any) -> Rule:
    return Rule(action="Deny", tools=tools, **more)


def look(*policies: Policy, catalogs: list[Any] = CATALOGS, unlisted: tuple[ServerKey, ...] = ()) -> Review:
    """Review of the first policy."""
    listed = {each.key: selectable_tools(each) for each in catalogs}
    rules = Rules(policies=policies, tiers=TIERS)
    return review(rules, [WEB, FILE], listed, unlisted)[ServerKey("n", policies[0].name)]


def subject(kind: str, name: str | None = None) -> dict[str, Any]:
    return {"subjects": (Subject(kind=kind, name=name),)}


def test_tools_are_those_that_its_own_rules_allow() -> None:
    review = look(policy("p", allow("*"), deny("put")))
    assert (review.servers, review.tools, review.unmatched_rules, review.warnings) == (2, 2, (), ())


def test_tools_that_are_not_enabled_count_nowhere() -> None:
    assert look(policy("p", allow("off"))).unmatched_rules == ("0",)


def test_matches_of_a_policy_are_not_judged_while_a_server_was_not_asked_yet() -> None:
    review = look(policy("p", allow("none")), catalogs=CATALOGS[:1])
    assert (review.tools, review.unmatched_rules, review.unlisted_servers, review.warnings) == (None, None, None, ())


def test_a_server_that_lists_nothing_is_named_beside_rules_that_match_no_listed_tool() -> None:
    review_of_policy = look(policy("p", allow("get"), allow("none")), catalogs=CATALOGS[:1], unlisted=(FILE,))
    assert (review_of_policy.tools, review_of_policy.unmatched_rules, review_of_policy.unlisted_servers) == (
        1,
        ("1",),
        ("file",),
    )
    assert review_of_policy.warnings == (), "the rule may match a tool of that server: nobody is warned"


def test_a_name_with_the_prefix_of_a_server_is_told_though_another_server_lists_nothing_yet() -> None:
    (condition,) = look(policy("p", deny("web__get"), deny("file__off")), catalogs=CATALOGS[:1]).warnings
    assert "rules[0].tools: web__get matches no tool" in condition.message
    assert condition.message.endswith("without prefix: get")


def test_a_server_that_is_not_selected_is_not_waited_for() -> None:
    review_of_policy = look(policy("p", allow("none"), servers=("web",)), catalogs=CATALOGS[:1])
    assert (review_of_policy.unmatched_rules, review_of_policy.unlisted_servers) == (("0",), ())


FAULTS: dict[str, tuple[Policy, str, str]] = {
    "nothing selected": (policy("p", servers=("none",)), "NothingSelected", "no McpServer"),
    "no match by name": (
        policy("p", allow("*"), allow("x", name="strays")),
        "RulesMatchNothing",
        "rules that match no tool: strays",
    ),
    "no match": (policy("p", allow("*"), allow("x")), "RulesMatchNothing", "no tool: rules[1]"),
    "unknown default": (
        policy("p", default_tier="x"),
        "UnknownTier",
        "tiers.default: LatencyTier x does not exist",
    ),
    "unknown max": (policy("p", max_tier="x"), "UnknownTier", "only the fastest tier is allowed"),
    "default slower than max": (
        policy("p", default_tier="slow", max_tier="fast"),
        "DefaultBeyondMax",
        "LatencyTier slow is slower than fast, tiers.max, so fast applies instead",
    ),
    "idle pins": (
        policy("p", pinned=("get", "nosuch*")),
        "PinsMatchNothing",
        "pinned names that match no tool: nosuch*",
    ),
    "unknown floor": (
        policy("p", allow("*", min_tier="x")),
        "UnknownTier",
        "rules[0].minTier: LatencyTier x does not exist",
    ),
    "no schema": (policy("p", allow("*", arguments={"type": 1})), "RuleInvalid", "rules[0].arguments"),
    "misspelt keyword": (
        policy("p", allow("*", arguments={"properties": {"limit": {"maximun": 5, "x-own": 1}}})),
        "UnknownKeyword",
        "rules[0].arguments: keywords that JSON Schema does not have restrict nothing: maximun (did you mean maximum?)",
    ),
    "argument in place of a keyword": (
        policy("p", allow("*", arguments={"limit": {"maximum": 5}})),
        "UnknownKeyword",
        "restrict nothing: limit",
    ),
    "look-around": (policy("p", allow("*", arguments={"pattern": "(?=a)"})), "RuleInvalid", "rules[0].arguments"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_faults_of_a_policy_are_named(what: str) -> None:
    given, cause, message = FAULTS[what]
    review = look(given)
    assert review.accepted.ok, "the rest of the policy is in force"
    assert review.partially_invalid is not None
    assert (review.partially_invalid.ok, review.partially_invalid.cause) == (True, cause)
    assert message in review.partially_invalid.message


@pytest.mark.parametrize("trusted", [False, True])
def test_policy_rules_that_compare_hints_of_untrusted_servers_are_named(trusted: bool) -> None:
    hinted = tool("read", annotations={"readOnlyHint": True, "destructiveHint": False, "title": "Read"})
    web = catalog("web", "http://w", [hinted, "put"], namespace="n", trust_annotations=trusted)
    file = catalog("file", "http://f", ["get"], namespace="n")
    review = look(policy("p", allow("*"), deny("*", annotations={"destructiveHint": True})), catalogs=[web, file])
    assert review.tools == int(trusted)
    if trusted:
        assert review.partially_invalid is None
        return
    assert review.partially_invalid is not None
    assert (review.partially_invalid.cause, review.partially_invalid.reason) == ("HintsNotTrusted", "Invalid")
    assert "rules[1].annotations: hints of web do not count" in review.partially_invalid.message


def test_policy_rules_that_untrusted_hints_would_not_change_are_not_named() -> None:
    hinted = tool("drop", annotations={"destructiveHint": True})
    web = catalog("web", "http://w", [hinted], namespace="n")
    assert look(policy("p", deny("*", annotations={"destructiveHint": True})), catalogs=[web]).warnings == ()


def test_pins_are_judged_once_all_servers_have_listed_their_tools_and_equal_tiers_are_fine() -> None:
    pinning = policy("p", pinned=("nosuch",), default_tier="fast", max_tier="fast")
    assert look(pinning, catalogs=CATALOGS[:1], unlisted=(FILE,)).partially_invalid is None
    assert look(policy("p", pinned=("put",), servers=("file",))).partially_invalid is not None


def test_all_policy_rules_without_effect_are_named_at_once() -> None:
    review = look(policy("p", allow("x"), default_tier="y"))
    assert review.partially_invalid is not None
    assert (review.partially_invalid.cause, review.partially_invalid.reason) == ("UnknownTier", "InvalidRef")
    assert "LatencyTier y does not exist" in review.partially_invalid.message
    assert "no tool: rules[0]" in review.partially_invalid.message


A = subject("Agent", "a")
B = subject("Agent", "b")
KNOWN = subject("Authenticated")
CONFLICTS: dict[str, tuple[Policy, Policy, str | None]] = {
    "it denies": (
        policy("p"),
        policy("q", deny("put")),
        "that policy denies web/put, which this policy allows: calls are denied",
    ),
    "this denies": (
        policy("p", deny("put")),
        policy("q"),
        "that policy allows web/put, which this policy denies: calls are denied",
    ),
    "both deny": (policy("p", deny("put")), policy("q", deny("put")), None),
    "same": (policy("p"), policy("q"), None),
    "other servers": (policy("p", servers=("file",)), policy("q", deny("*"), servers=("web",)), None),
    "bounded here": (
        policy("p", allow("put", arguments={})),
        policy("q", allow("p*")),
        "that policy allows web/put with any arguments, which this policy restricts: any arguments are allowed",
    ),
    "limits": (
        policy("p", limits=PolicyLimits(max_tools=3)),
        policy("q", limits=PolicyLimits(max_tools=5)),
        "limits.maxTools of that policy is 5, of this policy 3: 3 applies",
    ),
    "tiers": (
        policy("p", max_tier="slow"),
        policy("q", max_tier="fast"),
        "tiers.max of that policy is fast, of this policy slow",
    ),
    "the same agent": (policy("p", **A), policy("q", deny("put"), **A), "web/put"),
    "another agent": (policy("p", **A), policy("q", deny("put"), **B), None),
    "everybody known": (policy("p", **A), policy("q", deny("put"), **KNOWN), "web/put"),
}


@pytest.mark.parametrize("what", CONFLICTS)
def test_policies_that_contradict_are_named(what: str) -> None:
    mine, other, message = CONFLICTS[what]
    conflicts = look(mine, other).conflicts
    assert [conflict.policy for conflict in conflicts] == ([] if message is None else ["q"])
    assert message is None or message in conflicts[0].message


def test_policies_of_other_namespaces_do_not_conflict() -> None:
    other = Policy(namespace="m", name="q", every=True, rules=(deny("*"),))
    assert look(policy("p"), other).conflicts == ()


async def test_after_a_restart_rules_that_match_nothing_stay_told_until_the_servers_were_looked_at() -> None:
    spec = {"rules": [{"action": "Allow", "tools": ["none"]}]}
    head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "ToolPolicy"}
    declared = ToolPolicy.model_validate({**head, "metadata": {"name": "p", "namespace": "n"}, "spec": spec})
    world = MemoryDeclarations(policy_list=[declared], label_map={WEB: {}})
    rules = compile_rules([], [declared], world.label_map)

    async def causes(*catalogs: Catalog) -> list[str]:
        """Causes in the status after the operator has seen these catalogs, and the events that it posts."""
        platform = MemoryPlatform()
        statuses = PolicyStatuses(world, platform)
        statuses.take_rules(rules)
        for each in catalogs:
            statuses.take_catalog(each)
        await statuses.show()
        condition = world.policy_list[0].status.condition("PartiallyInvalid")
        shown = [] if condition is None else [condition.message.partition(":")[0]]
        return [*shown, *(announcement.reason for announcement in platform.announced)]

    assert await causes() == []
    assert await causes(CATALOGS[0]) == ["RulesMatchNothing", "NothingMatched"]
    assert await causes() == ["RulesMatchNothing"], "kept, and told no second time"
    assert await causes(CATALOGS[0]) == ["RulesMatchNothing"]
