"""`tools/call` with a tool's id, `mcp.{server}.{tool}`, which REST and the Python API show."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_api.documents.catalog import Catalog, DeclaredLatency
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject, Tier
from fairlead_app.authentication import Trust
from gatewayworld import LEGACY, MODERN, Answer, Clock, Reachable, ask, calling, catalog, entry, running
from policyworld import Vouching, anybody, by
from rawserver import RawServer, Reply, Request, raw_server

TRUST = Trust((Vouching(anybody("npc"), anybody("qa")),))


async def handle(request: Request, reply: Reply) -> None:
    reply.result(request, {"resultType": "complete", "content": []})


def called_tools(server: RawServer) -> list[str]:
    """The tools that were called at a server, by the server's own names."""
    return [request.params["name"] for request in server.seen if request.method == "tools/call"]


def namesakes(first: str, other: str) -> list[Catalog]:
    """Two servers with the same name in different namespaces."""
    return [
        catalog("demo", first, ["add", "mine"], namespace="team-a", prefix="a"),
        catalog("demo", other, ["add", "theirs"], namespace="team-b", prefix="b"),
    ]


def message(answer: Answer) -> str:
    assert answer.code == -32602
    return str(answer.message["error"]["message"])


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_tool_is_called_by_its_id(tmp_path: Path, era: str) -> None:
    async with raw_server(handle) as server, running(tmp_path, catalog("demo", server.url, ["add"])) as gateway:
        assert "result" in (await ask(gateway, calling("mcp.demo.add", era=era))).message
        own = calling("mcp.demo.add", era=era).to("/servers/default/demo/mcp")
        assert "result" in (await ask(gateway, own)).message
        assert called_tools(server) == ["add", "add"]
        assert "Unknown tool: mcp.demo.sub" in message(await ask(gateway, calling("mcp.demo.sub", era=era)))
        assert "Unknown tool: mcp.demos.add" in message(await ask(gateway, calling("mcp.demos.add", era=era)))


async def test_names_with_dots_are_understood(tmp_path: Path) -> None:
    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("shop.eu", server.url, ["stock.get"], prefix="s")) as gateway,
    ):
        assert "result" in (await ask(gateway, calling("mcp.shop.eu.stock.get"))).message
        assert called_tools(server) == ["stock.get"]


async def test_a_name_in_the_list_wins(tmp_path: Path) -> None:
    async with raw_server(handle) as server, raw_server(handle) as bare:
        catalogs = [catalog("demo", server.url, ["add"]), catalog("bare", bare.url, ["mcp.demo.add"], prefix="")]
        async with running(tmp_path, *catalogs) as gateway:
            await ask(gateway, calling("mcp.demo.add"))
        assert (called_tools(server), called_tools(bare)) == ([], ["mcp.demo.add"])


async def test_two_servers_of_that_name_are_an_error_that_names_both(tmp_path: Path) -> None:
    async with (
        raw_server(handle) as first,
        raw_server(handle) as other,
        running(tmp_path, *namesakes(first.url, other.url)) as gateway,
    ):
        text = message(await ask(gateway, calling("mcp.demo.add")))
        assert text == (
            "Ambiguous tool: mcp.demo.add matches the servers team-a/demo, team-b/demo. "
            "Call the tool by its name in the list: a__add, b__add"
        )
        alone = message(await ask(gateway, calling("mcp.demo.mine")))
        assert "team-a/demo, team-b/demo" in alone, "it would be another server's if the first lost its tool"
        assert alone.endswith(": a__mine")
        assert called_tools(first) == called_tools(other) == []


async def test_a_server_that_the_caller_may_not_see_makes_no_id_ambiguous_and_is_not_named(tmp_path: Path) -> None:
    every = (Rule(action="Allow", tools=("*",)),)
    npc = (Subject(kind="Agent", name="npc"),)
    rules = Rules(
        policies=(
            Policy(namespace="team-a", name="all", every=True, rules=every),
            Policy(namespace="team-b", name="all", every=True, rules=every),
            Policy(namespace="team-b", name="no", every=True, subjects=npc, rules=(Rule(action="Deny", tools=("*",)),)),
        )
    )

    async def call_body(gateway: Reachable, agent: str, name: str) -> str:
        return (await ask(gateway, by(agent, calling(name)))).body.decode()

    async with (
        raw_server(handle) as first,
        raw_server(handle) as other,
        running(tmp_path, *namesakes(first.url, other.url), rules, trust=TRUST) as gateway,
    ):
        assert "team-b" in await call_body(gateway, "qa", "mcp.demo.add")
        assert '"result"' in await call_body(gateway, "npc", "mcp.demo.add")
        hidden, unknown = [await call_body(gateway, "npc", f"mcp.demo.{name}") for name in ("theirs", "nobody")]
        assert hidden.replace("theirs", "nobody") == unknown
        assert (called_tools(first), called_tools(other)) == (["add"], [])


async def test_a_tool_that_the_tier_hides_says_where_it_is(tmp_path: Path) -> None:
    slow = entry("dig", latency=DeclaredLatency(estimated_duration_ms=9000))
    rules = Rules(tiers=(Tier(name="fast", max_latency_ms=500), Tier(name="deep")))
    clock = Clock()
    mine = catalog("mine", "http://127.0.0.1:1/mcp", [slow])
    async with running(tmp_path, mine, rules, clock=clock) as gateway:
        clock.forward(61.0)
        answer = await ask(gateway, calling("mcp.mine.dig").to("/mcp/fast"))
        assert answer.refusal == "OVER_BUDGET"
        assert "/mcp/deep" in answer.body.decode()
