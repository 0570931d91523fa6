"""Who may call which tool, and why: `GET /v1/access` and `fairlead can` agree with the decisions about calls."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode

from commands import fairlead
from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Rules, Subject, Tier
from fairlead_api.documents.state import ServerState, State, ToolState
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from gatewayworld import Answer, Clock, catalog, running
from policyworld import Vouching, anybody
from restworld import get

NOWHERE = "http://127.0.0.1:9/mcp"
TAVERN = catalog("tavern", NOWHERE, ["web-search", "roll-dice"])
PUBLIC = {"type": "object", "properties": {"q": {"pattern": "^public"}}, "required": ["q"]}
ALL = Policy(
    namespace="default",
    name="all",
    every=True,
    limits=PolicyLimits(calls_per_minute=60),
    pinned=("roll*",),
    rules=(Rule(action="Allow", tools=("roll-dice",)), Rule(action="Allow", tools=("*",), arguments=PUBLIC)),
)
NO_WEB = Policy(
    namespace="default",
    name="no-web",
    every=True,
    subjects=(Subject(kind="Group", name="players"),),
    rules=(Rule(name="web", action="Deny", tools=("web-*",)),),
)
RULES = Rules(policies=(ALL, NO_WEB))
TRUST = Trust((Vouching(anybody("npc", "players"), anybody("qa"), anybody("root", "admins")),))


async def access(gateway: Gateway, who: str | None, **query: str) -> Answer:
    headers = {} if who is None else {"authorization": f"Bearer {who}"}
    return await get(gateway, f"/v1/access?{urlencode(query)}", **headers)


async def test_callers_may_ask_about_their_own_access(tmp_path: Path) -> None:
    async with running(tmp_path, TAVERN, RULES, trust=TRUST) as gateway:
        decision = (await access(gateway, "npc", tool="tavern__roll-dice")).message
        assert (decision["allowed"], decision["policy"], decision["rule"]) == (True, "default/all", 0)
        assert (decision["bounded"], decision["listed"], decision["pinned"]) == (False, True, True)
        assert decision["limits"] == {"callsPerMinute": 60}
        assert decision["policies"] == [], "which policies there are is told to administrators"
        for name in ("mcp.tavern.roll-dice", "default/tavern/roll-dice", "tavern/roll-dice"):
            assert (await access(gateway, "npc", tool=name)).message["tool"] == "tavern__roll-dice"


async def test_access_to_a_denied_tool_is_answered_as_to_an_unknown_one(tmp_path: Path) -> None:
    async with running(tmp_path, TAVERN, RULES, trust=TRUST) as gateway:
        for name, none in (
            ("tavern__web-search", "tavern__qzxqzxqzxq"),
            ("mcp.tavern.web-search", "mcp.tavern.qqqqqqzzzz"),
        ):
            denied, unknown = [await access(gateway, "npc", tool=each) for each in (name, none)]
            assert denied.status == unknown.status == 404
            assert denied.body.replace(name.encode(), b"") == unknown.body.replace(none.encode(), b"")


async def test_access_of_others_is_told_to_administrators_alone(tmp_path: Path) -> None:
    query = {"agent": "npc", "groups": "players", "tool": "tavern__web-search"}
    async with running(tmp_path, TAVERN, RULES, trust=TRUST, admin_groups=("admins",)) as gateway:
        refused = await access(gateway, "qa", **query)
        assert refused.status == 403
        assert "gateway.settings.adminGroups" in refused.message["detail"], "what a cluster sets it by"
        assert (await access(gateway, "npc", **{**query, "groups": "admins"})).status == 404, "groups are not chosen"
        decision = (await access(gateway, "root", **query)).message
        assert (decision["allowed"], decision["reason"]) == (False, "rule web of policy default/no-web denies the tool")
        assert (decision["rule"], decision["ruleName"]) == (0, "web")
        assert decision["policies"] == ["default/all", "default/no-web"]
        assert (await access(gateway, "root", **{**query, "groups": ""})).message["allowed"] is True


async def test_access_names_the_policies_of_the_tools_server_alone(tmp_path: Path) -> None:
    elsewhere = Policy(namespace="market", name="all", every=True)
    other_server = Policy(namespace="default", name="other-server", servers=("mill",))
    limiting = Policy(namespace="default", name="limiting", limits=PolicyLimits(max_tools=40))
    rules = Rules(policies=(ALL, elsewhere, other_server, limiting))
    async with running(tmp_path, TAVERN, rules) as gateway:
        decision = (await access(gateway, None, agent="npc", tool="tavern__web-search")).message
        assert decision["policies"] == ["default/all", "default/limiting"], "limits count for the whole namespace"
        assert decision["limits"] == {"callsPerMinute": 60, "maxTools": 40}


async def test_a_policy_that_allows_no_calls_a_minute_is_a_no(tmp_path: Path) -> None:
    closed = Policy(
        namespace="default",
        name="closed",
        every=True,
        rules=(Rule(action="Allow", tools=("roll-dice",)),),
        limits=PolicyLimits(calls_per_minute=0),
    )
    async with running(tmp_path, TAVERN, Rules(policies=(closed,))) as gateway:
        limited = (await access(gateway, None, tool="tavern__roll-dice")).message
        denied = (await access(gateway, None, tool="tavern__web-search")).message
        code, out, _ = await fairlead(
            "can", "me", "call", "tavern__roll-dice", "--url", f"http://127.0.0.1:{gateway.port}/mcp"
        )
    assert (limited["allowed"], limited["policy"], limited["rule"]) == (False, "default/closed", None)
    assert limited["reason"] == "limits.callsPerMinute of default/closed is 0, so all calls are refused"
    assert denied["reason"] != limited["reason"], "a rule that denies is told of first"
    assert (code, out.splitlines()[0]) == (1, f"no: {limited['reason']}")


async def test_a_tool_that_a_limit_on_lists_cuts_is_a_no_as_its_calls_are_refused(tmp_path: Path) -> None:
    short = Policy(
        namespace="default", name="short", every=True, limits=PolicyLimits(max_tools=2), rules=(Rule(action="Allow"),)
    )
    mill = catalog("mill", NOWHERE, ["grind"])
    async with running(tmp_path, mill, TAVERN, Rules(policies=(short,))) as gateway:
        cut = (await access(gateway, None, tool="tavern__web-search")).message
        code, out, _ = await fairlead(
            "can", "me", "call", "tavern__web-search", "--url", f"http://127.0.0.1:{gateway.port}/mcp"
        )
        shown = (await access(gateway, None, tool="tavern__roll-dice")).message
    why = "the tool tavern__web-search is left out of the list: over_limit maxTools=2 policy=default/short"
    where = "the endpoint of its server lists it, at /servers/default/tavern/mcp"
    assert (cut["allowed"], cut["reason"]) == (False, f"{why}; {where}")
    assert (cut["listed"], cut["policy"], cut["rule"]) == (False, "default/short", None)
    assert (code, out.splitlines()[0]) == (1, f"no: {cut['reason']}")
    assert (shown["allowed"], shown["listed"]) == (True, True)


async def test_a_tool_that_no_tier_of_the_agent_shows_is_a_no_after_its_grace(tmp_path: Path) -> None:
    tiers = (Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000))
    hidden = ToolState(name="roll-dice", environment="cluster", tiers=("deep",), hidden={"fast": "over_budget p95=1s"})
    state = State(
        servers=(ServerState(namespace="default", name="tavern", tools=(hidden,)),), decided_at="2026-01-01T00:00Z"
    )
    quick = Policy(namespace="default", name="quick", every=True, max_tier="fast", rules=(Rule(action="Allow"),))
    clock, reasons = Clock(), []
    for policies, allowed in (((), [True, True]), ((quick,), [True, False])):
        async with running(tmp_path, TAVERN, Rules(tiers=tiers, policies=policies), state, clock=clock) as gateway:
            for is_allowed in allowed:
                answer = (await access(gateway, None, tool="tavern__roll-dice")).message
                assert (answer["allowed"], answer["listed"]) == (is_allowed, False)
                reasons.append(answer["reason"])
                clock.forward(61)
    assert reasons[-1] == "tier fast hides the tool tavern__roll-dice: over_budget p95=1s; no tier shows the tool now"


async def test_where_nobody_is_asked_who_they_are_everybody_may_ask_everything(tmp_path: Path) -> None:
    async with running(tmp_path, TAVERN, RULES) as gateway:
        decision = (await access(gateway, None, agent="npc", groups="players", tool="tavern__web-search")).message
        assert decision["allowed"] is False


async def test_arguments_are_part_of_the_question(tmp_path: Path) -> None:
    async with running(tmp_path, TAVERN, RULES, trust=TRUST) as gateway:
        for arguments, allowed in ((None, True), ({"q": "public x"}, True), ({"q": "secret"}, False), ({}, False)):
            more = {} if arguments is None else {"arguments": json.dumps(arguments)}
            decision = (await access(gateway, "qa", tool="tavern__web-search", **more)).message
            assert (decision["allowed"], decision["bounded"]) == (allowed, True)


async def test_the_command_says_yes_or_no_and_why(tmp_path: Path) -> None:
    async with running(tmp_path, TAVERN, RULES) as gateway:

        async def can(*words: str) -> tuple[int, str, str]:
            return await fairlead("can", *words, "--url", f"http://127.0.0.1:{gateway.port}/mcp")

        code, out, _ = await can("npc", "call", "tavern__web-search", "--group", "players")
        assert (code, out.splitlines()[0]) == (1, "no: rule web of policy default/no-web denies the tool")
        code, out, _ = await can("qa", "call", "tavern__web-search", "--arguments", '{"q": "public"}')
        assert (code, out.splitlines()[0]) == (0, "yes: rule 1 of policy default/all allows the tool")
        assert "  arguments  a policy restricts the arguments" in out.splitlines()
        code, out, _ = await can("me", "call", "tavern__roll-dice", "--output", "json")
        assert (code, json.loads(out)["allowed"]) == (0, True)
        code, _, err = await can("qa", "call", "tavern__roll-dic")
        assert (code, "Did you mean tavern__roll-dice?" in err) == (2, True)
        code, _, err = await can("qa", "run", "tavern__roll-dice")
        assert (code, "the second word must be `call`" in err) == (2, True)
