"""Custom tools in a complete gateway: they are listed, called, selected and counted like other tools, and may shadow
them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from custom_tools import lookup_user, of, text
from fairlead_api.documents.rules import Rules, Tier
from fairlead_app.call_path import ServerAccess
from fairlead_app.compose import CatalogFeed, compose
from fairlead_app.settings import Settings
from fairlead_gateway import tool
from fairlead_gateway.catalog.directory import DirectoryCredentials, DirectorySource
from fairlead_gateway.custom.load import load
from gatewayworld import LEGACY, MODERN, ask, calling, catalog, modern, running, scrape
from restworld import MESSAGES, get, post
from toolservers import modern_server
from toolservers import tool as served_tool

LOCAL = "/servers/fairlead-system/local/mcp"


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_custom_tool_is_called_like_any_other_in_both_eras(tmp_path: Path, era: str) -> None:
    async with running(tmp_path, custom=lookup_user()) as gateway:
        answer = await ask(gateway, calling("lookup_user", {"email": "ada@example.com"}, era=era))
        assert answer.message["result"]["content"] == [{"type": "text", "text": "7 Ada"}]
        assert "isError" not in answer.message["result"]


async def test_a_custom_tool_is_listed_under_its_own_name_on_the_merged_endpoint_and_on_that_of_local(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, custom=lookup_user()) as gateway:
        for target in ("/mcp", LOCAL):
            listing = await ask(gateway, modern("tools/list").to(target))
            (listed,) = listing.message["result"]["tools"]
            assert listed["name"] == "lookup_user"
            assert listed["inputSchema"]["required"] == ["email"]
        alone = calling("lookup_user", {"email": "ada@example.com"}).to(LOCAL)
        assert text(await ask(gateway, alone)) == "7 Ada"


async def test_a_custom_tool_shadows_the_tool_of_a_server_that_is_shown_under_its_name(tmp_path: Path) -> None:
    @tool(name="demo__add")
    def ours() -> str:
        return "ours"

    async with (
        modern_server([served_tool("add"), served_tool("subtract")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add", "subtract"]), custom=of(ours)) as gateway,
    ):
        listing = await ask(gateway, modern("tools/list"))
        assert [each["name"] for each in listing.message["result"]["tools"]] == ["demo__add", "demo__subtract"]
        assert text(await ask(gateway, calling("demo__add"))) == "ours"
        alone = await ask(gateway, calling("add").to("/servers/default/demo/mcp"))
        assert text(alone) != "ours"


async def test_a_custom_tool_that_fails_does_not_fall_through_to_the_tool_that_it_shadows(tmp_path: Path) -> None:
    @tool(name="demo__add")
    def ours() -> str:
        raise ConnectionRefusedError("Connection refused")

    async with (
        modern_server([served_tool("add")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), custom=of(ours)) as gateway,
    ):
        result = (await ask(gateway, calling("demo__add"))).message["result"]
        assert result["isError"] is True
        assert result["content"] == [{"type": "text", "text": "Connection refused"}]
        assert not [request for request in server.seen if request.method == "tools/call"]


async def test_arguments_that_a_handler_does_not_take_are_refused_before_it_is_called(tmp_path: Path) -> None:
    called = False

    @tool
    def add(left: int, right: int = 0) -> int:
        nonlocal called
        called = True
        return left + right

    async with running(tmp_path, custom=of(add)) as gateway:
        assert (await ask(gateway, calling("add", {"left": "x"}))).refusal == "INVALID_ARGUMENTS"
        assert (await ask(gateway, calling("add", {"left": 1, "middle": 2}))).refusal == "INVALID_ARGUMENTS"
        assert not called
        assert text(await ask(gateway, calling("add", {"left": 1}))) == "1"


async def test_custom_tools_are_in_rest_with_their_tags_and_in_the_metrics_under_local(tmp_path: Path) -> None:
    @tool(tags=("crm",), meta={"owner": "sales"}, annotations={"readOnlyHint": True})
    def lookup(email: str) -> str:
        return email

    async with running(tmp_path, custom=of(lookup)) as gateway:
        offered = (await get(gateway, "/v1/tools?format=anthropic&tags=crm")).message
        assert [each["name"] for each in offered["tools"]] == ["lookup"]
        shown = (await get(gateway, "/v1/tools/mcp.local.lookup")).message
        assert shown["server"] == "fairlead-system/local"
        assert shown["definition"]["annotations"] == {"readOnlyHint": True}
        assert shown["definition"]["_meta"] == {"owner": "sales"}
        calls = {"format": "anthropic", "message": MESSAGES["anthropic"]([("1", "lookup", {"email": "a@b"})])}
        (outcome,) = (await post(gateway, "/v1/tool-calls", calls)).message["calls"]
        assert outcome["state"] == "done"
        metrics = (await scrape(gateway)).splitlines()
        assert any('gen_ai_tool_name="lookup"' in line and "fairlead-system/local" in line for line in metrics)


async def test_a_custom_tool_is_in_the_tiers_that_its_declared_speed_fits(tmp_path: Path) -> None:
    @tool(estimated_duration_ms=50)
    def quick() -> str:
        return "quick"

    @tool(estimated_duration_ms=3000)
    def thorough() -> str:
        return "thorough"

    rules = Rules(tiers=(Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000)))
    async with running(tmp_path, rules, custom=of(quick, thorough)) as gateway:
        listed = {}
        for tier in ("fast", "deep"):
            answer = await ask(gateway, modern("tools/list").to(f"/mcp/{tier}"))
            listed[tier] = [each["name"] for each in answer.message["result"]["tools"]]
        assert listed == {"fast": ["quick"], "deep": ["quick", "thorough"]}


async def test_a_custom_tool_that_says_so_answers_equal_calls_once(tmp_path: Path) -> None:
    called = 0

    @tool(cacheable_seconds=60, idempotent=True)
    def count(number: int) -> int:
        nonlocal called
        called += 1
        return called

    async with running(tmp_path, custom=of(count)) as gateway:
        answers = [text(await ask(gateway, calling("count", {"number": number}))) for number in (1, 1, 2)]
    assert answers == ["1", "1", "2"]


async def test_custom_tools_that_could_not_be_loaded_are_counted_for_an_alert(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from fairlead_gateway import tool\n\n@tool\ndef fine() -> None: ...\n")
    loaded = load([str(tmp_path / "mine.py"), "nothing.here"], points=())
    async with running(tmp_path, custom=loaded.tools) as gateway:
        metrics = (await scrape(gateway)).splitlines()
    assert "fairlead_custom_tools 1.0" in metrics
    assert "fairlead_custom_tool_problems 1.0" in metrics


async def test_a_server_declared_under_the_name_of_the_custom_tools_is_told_and_not_served(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/mcp"
    intruder = catalog("local", url, ["lookup_user", "other"], namespace="fairlead-system")
    async with running(tmp_path, intruder, custom=lookup_user()) as gateway:
        listing = await ask(gateway, modern("tools/list"))
        assert [each["name"] for each in listing.message["result"]["tools"]] == ["lookup_user"]
        (why,) = gateway.snapshots.broken.values()
        assert "give the McpServer of that name another name" in why


async def test_custom_tools_are_never_kept_in_the_cache(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    async with running(tmp_path, custom=lookup_user(), cache_dir=cache) as gateway:
        assert "lookup_user" in gateway.snapshot.merged
    async with running(tmp_path, cache_dir=cache) as gateway:
        assert "lookup_user" not in gateway.snapshot.merged


async def test_custom_tools_are_served_while_the_source_of_the_documents_is_away_from_the_start(
    tmp_path: Path,
) -> None:
    gateway = compose(
        Settings.of(port=0, metrics_port=0),
        CatalogFeed(source=DirectorySource(tmp_path / "not" / "there")),
        ServerAccess(credentials=DirectoryCredentials(tmp_path), custom=lookup_user()),
    )
    await gateway.start()
    try:
        await asyncio.wait_for(gateway.snapshots.first_snapshot.wait(), 20)
        assert text(await ask(gateway, calling("lookup_user", {"email": "ada@example.com"}))) == "7 Ada"
        assert gateway.readiness().stale
    finally:
        await gateway.stop(0.5)
