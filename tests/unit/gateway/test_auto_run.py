"""`autoRun` of policies: which tools a loop of model and tools may call by itself, the strictest policy first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_gateway.catalog.model import build
from fairlead_gateway.policy.selection import Selection
from gatewayworld import catalog, entry
from policyworld import anybody
from selections import select
from toolservers import tool

NPC = anybody("npc")
QA = anybody("qa")
EVERYTHING = (Rule(action="Allow", tools=("*",)),)
READS = entry({**tool("get"), "annotations": {"readOnlyHint": True}})
WRITES = entry({**tool("put"), "annotations": {"readOnlyHint": False}})
SILENT = entry(tool("ask"))
READ_ONLY = "has autoRun: ReadOnly, and the tool has no trusted readOnlyHint"


def policy(name: str, auto_run: str, *agents: str, servers: tuple[str, ...] = (), **more: Any) -> Policy:
    subjects = tuple(Subject(kind="Agent", name=agent) for agent in agents)
    return Policy(
        namespace="default",
        name=name,
        every=not servers,
        servers=servers,
        subjects=subjects,
        rules=more.pop("rules", EVERYTHING),
        auto_run=auto_run,
        **more,
    )


def world(*policies: Policy) -> Selection:
    """A trusted and an untrusted server, each with a tool that reads, a tool that writes, and a tool without
    annotations."""
    tools = [READS, WRITES, SILENT]
    documents = {
        "1": catalog("own", "http://own", tools, trust_annotations=True),
        "2": catalog("far", "http://far", tools, trust_annotations=False),
    }
    return select(build({**documents, "r": Rules(policies=policies)}))


def manual(selection: Selection, who: Any = NPC) -> Mapping[str, str]:
    view = selection.seen_by(who)[b"/mcp"]
    return {name: why for name in view.everything if (why := view.why_manual(name))}


def test_without_a_policy_that_says_so_all_tools_run_by_themselves() -> None:
    assert manual(world()) == {}
    assert manual(world(policy("p", "All"))) == {}


def test_read_only_lets_tools_of_trusted_servers_run_that_say_they_only_read() -> None:
    assert manual(world(policy("p", "ReadOnly"))) == dict.fromkeys(
        ("far__ask", "far__get", "far__put", "own__ask", "own__put"), f"policy default/p {READ_ONLY}"
    )


def test_auto_run_none_lets_nothing_run() -> None:
    reasons = manual(world(policy("p", "None", servers=("own",))))
    assert reasons == dict.fromkeys(("own__ask", "own__get", "own__put"), "policy default/p has autoRun: None")


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_of_several_policies_the_strictest_counts_whatever_their_order(order: tuple[str, str]) -> None:
    names = dict(zip(("ReadOnly", "None"), order, strict=True))
    policies = [policy(names["ReadOnly"], "ReadOnly"), policy(names["None"], "None", servers=("own",))]
    reasons = manual(world(*sorted(policies, key=lambda each: each.name), policy("z", "All")))
    assert reasons["own__get"] == reasons["own__put"] == f"policy default/{names['None']} has autoRun: None"
    assert reasons["far__put"] == f"policy default/{names['ReadOnly']} {READ_ONLY}"


def test_a_policy_speaks_of_its_subjects_and_of_tools_that_they_see() -> None:
    selection = world(
        policy("everybody", "All", rules=(*EVERYTHING, Rule(action="Deny", tools=("put",)))),
        policy("npc", "None", "npc"),
    )
    assert manual(selection, QA) == {}
    assert {*manual(selection)} == {"far__ask", "far__get", "own__ask", "own__get"}
    view = selection.seen_by(NPC)[b"/mcp"]
    assert view.why_manual("own__put") == "", "nobody is told of a tool that is denied"


def test_a_value_that_a_newer_version_wrote_lets_nothing_run() -> None:
    assert len(manual(world(policy("p", "Sometimes")))) == 6
