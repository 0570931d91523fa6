"""Policies with real clients: an agent cannot distinguish denied tools from tools that do not exist."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec import Raw

from examples import examples
from fairlead_api.documents.catalog import Catalog, Definition
from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Rules, Subject, Tier
from fairlead_app.authentication import Trust
from gatewayworld import (
    LEGACY,
    MODERN,
    Answer,
    Ask,
    Wire,
    ask,
    calling,
    catalog,
    entry,
    legacy,
    modern,
    publish,
    running,
    wait_for_snapshots,
)
from policyworld import Drawn, Vouching, anybody, by, handle, is_allowed, list_tools, tavern, tools_of, worlds
from rawserver import raw_server
from restworld import MESSAGES, get, post
from toolservers import tool

NPC = anybody("npc")
QA = anybody("qa")
FORMATS = ("mcp", "openai-chat", "openai-responses", "anthropic", "gemini", "bedrock")
ALLOWED = Policy(namespace="default", name="all", every=True, rules=(Rule(action="Allow", tools=("*",)),))
NO_WEB = Policy(
    namespace="default",
    name="no-web",
    every=True,
    subjects=(Subject(kind="Agent", name="npc"),),
    rules=(Rule(action="Deny", tools=("web-search",)),),
)
LISTEN = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})


def without(answer: Answer, name: str) -> tuple[int, list[str], bytes]:
    """An answer without the requested name."""
    return answer.status, sorted(answer.headers), answer.body.replace(name.encode(), b"NAME")


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_an_npc_may_not_search_the_web_and_the_agent_for_questions_may(tmp_path: Path, era: str) -> None:
    async with (
        raw_server(handle) as server,
        running(
            tmp_path, tavern(server.url), Rules(policies=(ALLOWED, NO_WEB)), trust=Trust((Vouching(NPC, QA),))
        ) as gateway,
    ):
        assert await list_tools(gateway, "npc") == ["tavern__roll-dice"]
        assert await list_tools(gateway, "qa") == ["tavern__roll-dice", "tavern__web-search"]
        search = calling("tavern__web-search", era=era)
        assert "result" in (await ask(gateway, by("qa", search))).message
        assert "result" in (await ask(gateway, by("npc", calling("tavern__roll-dice", era=era)))).message
        refused = await ask(gateway, by("npc", search))
        assert refused.code == -32602
        assert refused.message["error"]["message"] == "Unknown tool: tavern__web-search"
        assert len([request for request in server.seen if request.method == "tools/call"]) == 2


@pytest.mark.parametrize("target", ["/mcp", "/servers/default/tavern/mcp"])
@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_refused_call_is_answered_as_one_of_an_unknown_tool(tmp_path: Path, era: str, target: str) -> None:
    """The answers are equal byte by byte, including headers. The names have the same length, and resemble no other
    name."""
    prefix = "" if "servers" in target else "tavern__"
    denied = f"{prefix}web-search"
    unknown = f"{prefix}qzx-qzxqzx"
    async with (
        raw_server(handle) as server,
        running(
            tmp_path, tavern(server.url), Rules(policies=(ALLOWED, NO_WEB)), trust=Trust((Vouching(NPC),))
        ) as gateway,
    ):
        answers = [await ask(gateway, by("npc", calling(name, era=era).to(target))) for name in (denied, unknown)]
        assert without(answers[0], denied) == without(answers[1], unknown)


async def test_no_part_of_the_rest_plane_knows_a_hidden_tool(tmp_path: Path) -> None:
    async with (
        raw_server(handle) as server,
        running(
            tmp_path,
            tavern(server.url),
            catalog("vault", server.url, ["open"], namespace="bank"),
            Rules(
                policies=(ALLOWED, NO_WEB, Policy(namespace="bank", name="shut", every=True, rules=NO_WEB.rules)),
                tiers=(Tier(name="fast", max_latency_ms=500, default=True),),
            ),
            trust=Trust((Vouching(NPC, QA),)),
        ) as gateway,
    ):
        npc = {"authorization": "Bearer npc"}
        targets = ["/v1/tools", *(f"/v1/tools?format={name}" for name in FORMATS), "/v1/tools?tier=fast"]
        targets += ["/v1/tools/tavern__web-search", "/v1/tools/mcp.tavern.web-search", "/v1/tools/tavern__web-searc"]
        targets += ["/v1/tools/tavern__web-search/explain", "/v1/servers", "/v1/servers/vault", "/v1/tiers"]
        for target in targets:
            answer = await get(gateway, target, **npc)
            shown = answer.body if answer.status == 200 else json.dumps(answer.message.get("didYouMean")).encode()
            assert b"web-search" not in shown, target
            assert b"bank/vault" not in answer.body, target
        for target in ("/v1/tools/tavern__web-search", "/v1/tools/tavern__web-search/explain", "/v1/servers/vault"):
            assert (await get(gateway, target, **npc)).status == 404
        assert (await post(gateway, "/v1/servers/bank/vault/refresh", {}, **npc)).status == 404
        assert (await post(gateway, "/v1/servers/default/tavern/refresh", {}, **npc)).status == 202
        assert b"web-search" in (await get(gateway, "/v1/tools", authorization="Bearer qa")).body
        plan = {"models": ["gpt-4o"], "messages": []}
        planned = (await post(gateway, "/v1/plan", plan, **npc)).message
        assert [*planned["offer"]["names"].values()] == ["tavern__roll-dice"]
        assert (await post(gateway, "/v1/plan", {**plan, "pinned": ["tavern__web-search"]}, **npc)).status == 404
        message = MESSAGES["mcp"]([("1", "tavern__web-search", {}), ("2", "tavern__roll-dice", {})])
        body = {"format": "mcp", "message": message, "tools": []}
        calls = (await post(gateway, "/v1/tool-calls", body, **npc)).message["calls"]
        assert [call["state"] for call in calls] == ["unknown", "done"]
        assert [request.params["name"] for request in server.seen if request.method == "tools/call"] == ["roll-dice"]


@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
async def test_lists_and_calls_agree_with_a_naive_oracle_whatever_is_declared(drawn: Drawn) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await play(drawn, Path(folder))


async def play(drawn: Drawn, folder: Path) -> None:
    asker = drawn.asker
    identities = () if asker.kind == "anonymous" else (asker,)

    def mine(message: Ask) -> Ask:
        return message if not identities else by(asker.agent or "", message)

    async with raw_server(handle) as server:
        documents = [each.catalog(server.url) for each in drawn.servers]
        options: dict[str, Any] = {"trust": Trust((Vouching(*identities),))} if identities else {}
        async with running(folder, *documents, drawn.rules, **options) as gateway, await Wire.connect(gateway) as wire:
            expected = {(s.namespace, s.name, name): is_allowed(drawn, s, name) for s, name in tools_of(drawn)}
            shown = sorted(f"{space}{name}__{tool_}" for (space, name, tool_), say in expected.items() if say)
            merged = (await wire.ask(mine(modern("tools/list")))).message["result"]["tools"]
            assert [each["name"] for each in merged] == shown
            headers = mine(modern("tools/list")).headers
            authorization = {k: v for k, v in headers.items() if k == "authorization"}
            rest = (await get(gateway, "/v1/tools", **authorization)).message["tools"]
            assert [each["name"] for each in rest] == shown
            for (space, name, tool_), say in expected.items():
                for n in (1, 2, 3):
                    takes = say is True or any(s["properties"]["n"]["const"] == n for s in say or [])
                    exposed = f"{space}{name}__{tool_}"
                    for message in (
                        calling(exposed, {"n": n}),
                        calling(exposed, {"n": n}, era=LEGACY),
                        calling(tool_, {"n": n}).to(f"/servers/{space}/{name}/mcp"),
                    ):
                        answer = await wire.ask(mine(message))
                        outcome = "unknown" if "error" in answer.message else "known"
                        assert (outcome == "known") is bool(say), (exposed, say)
                        if say:
                            assert bool(answer.message["result"].get("isError")) is not takes, (exposed, n, say)


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_server_of_which_nothing_is_seen_has_no_prompts_and_resources_either(tmp_path: Path, era: str) -> None:
    def make_catalog(url: str, name: str, namespace: str) -> Catalog:
        def items(member: str, value: str) -> tuple[Definition, ...]:
            return (
                Definition(name=value, definition=Raw(json.dumps({"name": value, member: value}).encode()), hash=""),
            )

        return catalog(
            name,
            url,
            ["x"],
            namespace=namespace,
            prompts=items("name", "greet"),
            resources=items("uri", f"test://{name}"),
            resource_templates=items("uriTemplate", f"test://{name}/{{id}}"),
            capabilities=Raw(b'{"prompts":{},"resources":{},"completions":{}}'),
        )

    shut = Policy(namespace="bank", name="shut", every=True, rules=(Rule(action="Deny", tools=("*",)),))
    asking = modern if era == MODERN else legacy
    async with (
        raw_server(handle) as server,
        running(
            tmp_path,
            make_catalog(server.url, "vault", "bank"),
            make_catalog(server.url, "tavern", "default"),
            Rules(policies=(shut,)),
            trust=Trust((Vouching(NPC),)),
        ) as gateway,
        await Wire.connect(gateway) as wire,
    ):

        async def request(method: str, **params: Any) -> Any:
            name = params.get("name") or params.get("uri")
            headers = {"mcp_name": name} if era == MODERN else {}
            return (await wire.ask(by("npc", asking(method, params).with_headers(**headers)))).message

        assert [p["name"] for p in (await request("prompts/list"))["result"]["prompts"]] == ["tavern__greet"]
        assert [r["uri"] for r in (await request("resources/list"))["result"]["resources"]] == ["test://tavern"]
        templates = (await request("resources/templates/list"))["result"]["resourceTemplates"]
        assert [t["uriTemplate"] for t in templates] == ["test://tavern/{id}"]
        assert "result" in await request("prompts/get", name="tavern__greet")
        assert "error" in await request("prompts/get", name="vault__greet")
        for uri, there in (("test://tavern", True), ("test://vault", False), ("test://vault/1", False)):
            assert ("result" in await request("resources/read", uri=uri)) is there, uri
        ref = {"type": "ref/prompt", "name": "vault__greet"}
        assert "error" in await request("completion/complete", ref=ref, argument={"name": "a", "value": ""})
        for form in ("/servers/bank/{}/mcp", "/servers/{}/mcp"):
            gone = await wire.ask(by("npc", asking("tools/list").to(form.format("vault"))))
            none = await wire.ask(by("npc", asking("tools/list").to(form.format("nones"))))
            assert (gone.status, gone.body) == (none.status, none.body)
            assert gone.status == 404


async def test_an_agent_is_told_of_changes_of_its_own_list_alone(tmp_path: Path) -> None:
    async with (
        raw_server(handle) as server,
        running(
            tmp_path, tavern(server.url), Rules(policies=(ALLOWED, NO_WEB)), trust=Trust((Vouching(NPC, QA),))
        ) as gateway,
        await Wire.connect(gateway) as npcs,
        await Wire.connect(gateway) as qas,
    ):
        for wire, who in ((npcs, "npc"), (qas, "qa")):
            wire.send(by(who, LISTEN))
            await wire.reader.readuntil(b"acknowledged")
        changed = entry(tool("web-search", description="another"))
        swaps = gateway.snapshots.swaps
        publish(tmp_path / "documents", tavern(server.url, changed, "roll-dice"))
        await qas.reader.readuntil(b"list_changed")
        await wait_for_snapshots(gateway, swaps + 1)
        publish(tmp_path / "documents", tavern(server.url, changed, "roll-dice", "sing"))
        first = await npcs.reader.readuntil(b"list_changed")
        assert await list_tools(gateway, "npc") == ["tavern__roll-dice", "tavern__sing"]
        assert first.count(b"list_changed") == 1


async def test_a_list_of_one_caller_is_not_given_to_another(tmp_path: Path) -> None:
    """Lists depend on the caller, and one connection may carry requests of several callers."""
    async with (
        raw_server(handle) as server,
        running(
            tmp_path, tavern(server.url), Rules(policies=(ALLOWED, NO_WEB)), trust=Trust((Vouching(NPC, QA),))
        ) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        for who, count in (("qa", 2), ("npc", 1), ("qa", 2), ("npc", 1)):
            answer = await wire.ask(by(who, modern("tools/list")))
            assert len(answer.message["result"]["tools"]) == count
            assert answer.message["result"]["cacheScope"] == "private"


async def test_a_tier_that_policies_do_not_allow_does_not_exist(tmp_path: Path) -> None:
    tiers = (Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000))
    bounded = Policy(
        namespace="default", name="quick", every=True, rules=ALLOWED.rules, max_tier="fast", default_tier="fast"
    )
    async with (
        raw_server(handle) as server,
        running(
            tmp_path, tavern(server.url), Rules(policies=(bounded,), tiers=tiers), trust=Trust((Vouching(NPC),))
        ) as gateway,
    ):
        npc = {"authorization": "Bearer npc"}
        gone = await ask(gateway, by("npc", modern("tools/list").to("/mcp/deep")))
        none = await ask(gateway, by("npc", modern("tools/list").to("/mcp/none")))
        assert (gone.status, gone.body) == (none.status, none.body)
        assert "tiers: fast" in gone.message["error"]["message"]
        assert "deep" not in gone.message["error"]["message"]
        shown = (await get(gateway, "/v1/tiers", **npc)).message["tiers"]
        assert [(tier["name"], tier["default"]) for tier in shown] == [("fast", True)]
        assert (await get(gateway, "/v1/tools?tier=deep", **npc)).status == 404
        chosen = (await post(gateway, "/v1/tier", {"text": "think about it"}, **npc)).message
        assert chosen["tier"] == "fast"


async def test_pinned_tools_are_cut_by_no_budget(tmp_path: Path) -> None:
    names = [f"tool{n}" for n in range(9)]
    pinning = Policy(
        namespace="default",
        name="pins",
        every=True,
        rules=ALLOWED.rules,
        pinned=("tool8",),
        limits=PolicyLimits(max_tools=3),
    )
    async with (
        raw_server(handle) as server,
        running(
            tmp_path, tavern(server.url, *names), Rules(policies=(pinning,)), trust=Trust((Vouching(NPC),))
        ) as gateway,
    ):
        assert await list_tools(gateway, "npc") == ["tavern__tool0", "tavern__tool1", "tavern__tool8"]
        offer = await get(gateway, "/v1/tools?format=mcp&maxTools=1", authorization="Bearer npc")
        assert [*offer.message["names"].values()] == ["tavern__tool8"]
        assert (await ask(gateway, by("npc", calling("tavern__tool5")))).refusal == "OVER_BUDGET"


async def test_a_policy_bounds_the_calls_of_its_own_namespace(tmp_path: Path) -> None:
    bounded = Policy(
        namespace="default", name="slow", every=True, rules=ALLOWED.rules, limits=PolicyLimits(calls_per_minute=2)
    )
    async with (
        raw_server(handle) as server,
        running(
            tmp_path,
            tavern(server.url),
            catalog("harbor", server.url, ["moor"], namespace="other"),
            Rules(policies=(bounded,)),
            trust=Trust((Vouching(NPC, QA),)),
        ) as gateway,
    ):
        for era in (MODERN, LEGACY):
            await ask(gateway, by("npc", calling("tavern__roll-dice", era=era)))
        assert (await ask(gateway, by("npc", calling("tavern__web-search")))).refusal == "RATE_LIMITED"
        progress = calling("tavern__web-search", progressToken="p")
        assert (await ask(gateway, by("npc", progress))).refusal == "RATE_LIMITED"
        assert "isError" not in (await ask(gateway, by("npc", calling("harbor__moor")))).message["result"]
        assert "isError" not in (await ask(gateway, by("qa", calling("tavern__web-search")))).message["result"]


async def test_limits_of_a_policy_count_calls_of_servers_that_its_selector_does_not_select(tmp_path: Path) -> None:
    """As the field's description says, the limits are a subject's share of the namespace."""
    bounded = Policy(
        namespace="default",
        name="slow",
        servers=("harbor",),
        rules=ALLOWED.rules,
        limits=PolicyLimits(calls_per_minute=2),
    )
    async with (
        raw_server(handle) as server,
        running(
            tmp_path,
            tavern(server.url),
            catalog("harbor", server.url, ["roll-dice"]),
            Rules(policies=(bounded,), judged={"default": ("harbor", "tavern")}),
            trust=Trust((Vouching(NPC, QA),)),
        ) as gateway,
    ):
        answers = [
            await ask(gateway, by("npc", calling(name)))
            for name in ("tavern__web-search", "tavern__roll-dice", "harbor__roll-dice", "tavern__roll-dice")
        ]
    assert ["isError" in answer.message["result"] for answer in answers] == [False, False, True, True]
    assert [answer.refusal for answer in answers[2:]] == ["RATE_LIMITED", "RATE_LIMITED"]


async def test_scores_ranks_histograms_and_predictions_know_no_hidden_tool(tmp_path: Path) -> None:
    tools = [entry(tool(name), categories=("inn",), tags=()) for name in ("web-search", "roll-dice")]
    body = {"format": "anthropic", "message": MESSAGES["anthropic"]([("a", "tavern__web-search", {})]), "tools": []}
    paths = ("/v1/scores", "/v1/leaderboard", "/v1/aggregates")
    async with (
        raw_server(handle) as server,
        running(
            tmp_path,
            tavern(server.url, *tools),
            Rules(policies=(ALLOWED, NO_WEB)),
            trust=Trust((Vouching(NPC, QA),)),
            aggregates=True,
        ) as gateway,
    ):
        for name in ("tavern__web-search", "tavern__roll-dice"):
            await ask(gateway, by("qa", calling(name)))
        headers = {who: by(who, Ask()).headers for who in ("npc", "qa")}
        told = {who: [(await get(gateway, path, **headers[who])).body for path in paths] for who in headers}
        predicted = {
            who: (await post(gateway, "/v1/tool-calls/predict", body, **headers[who])).message for who in headers
        }
    assert [b"roll-dice" in answer for answer in told["npc"] + told["qa"]] == [True] * 6
    assert [b"web-search" in answer for answer in told["npc"] + told["qa"]] == [False] * 3 + [True] * 3
    assert predicted["npc"]["calls"][0]["tool"] is None
    assert predicted["npc"]["cost"]["unknown"] == []
    assert predicted["qa"]["calls"][0]["tool"] == "tavern__web-search"


async def test_a_gateway_on_a_cluster_shows_nothing_before_it_knows_the_rules(tmp_path: Path) -> None:
    """It also shows nothing after a restart. If somebody deletes the rules, the last ones stay in force."""
    async with raw_server(handle) as server, running(tmp_path, tavern(server.url), closed=True) as gateway:
        empty = (await ask(gateway, modern("tools/list"))).message["result"]["tools"]
        assert empty == []
        assert (await ask(gateway, calling("tavern__roll-dice"))).code == -32602
        swaps = gateway.snapshots.swaps
        publish(tmp_path / "documents", Rules())
        await wait_for_snapshots(gateway, swaps + 1)
        assert len((await ask(gateway, modern("tools/list"))).message["result"]["tools"]) == 2
