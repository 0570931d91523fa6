"""Instructions at merged endpoints: only those of servers that the caller sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, DeclaredLatency, Definition
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject, Tier
from fairlead_app.authentication import Trust
from gatewayworld import LEGACY, MODERN, Reachable, ask, catalog, entry, legacy, modern, publish, running
from policyworld import Vouching, anybody, by
from waiting import until_async

NOWHERE = "http://127.0.0.1:1/mcp"
NPC = anybody("npc")
QA = anybody("qa")
TRUST = Trust((Vouching(NPC, QA),))
EVERYTHING = Policy(namespace="default", name="all", every=True, rules=(Rule(action="Allow", tools=("*",)),))
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


def catalog_with_instructions(name: str, text: str, *tools: Any, **more: Any) -> Catalog:
    return catalog(name, NOWHERE, tools or ["a"], instructions=text, **more)


def denying_rules(*tools: str) -> Rules:
    """Rules that hide these servers from the agent npc."""
    npc = (Subject(kind="Agent", name="npc"),)
    deny = Policy(namespace="default", name="no", every=True, subjects=npc, rules=(Rule(action="Deny", tools=tools),))
    return Rules(policies=(EVERYTHING, deny))


async def instructions(
    gateway: Reachable, target: str = "/mcp", agent: str | None = None, era: str = MODERN
) -> str | None:
    request = modern("server/discover") if era == MODERN else legacy("initialize", HELLO)
    request = request.to(target)
    answer = await ask(gateway, request if agent is None else by(agent, request))
    text: str | None = answer.message["result"].get("instructions")
    return text


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_every_server_is_quoted_under_its_prefix(tmp_path: Path, era: str) -> None:
    servers = [
        catalog_with_instructions("files", "Paths are absolute."),
        catalog_with_instructions("shop", "Ask first.", prefix="s"),
        catalog("x", NOWHERE),
    ]
    async with running(tmp_path, *servers) as gateway:
        text = await instructions(gateway, era=era)
    assert text is not None
    assert text.split("\n\n")[1:] == [
        "# files (tools files__*)\nPaths are absolute.",
        "# shop (tools s__*)\nAsk first.",
    ]


async def test_no_instructions_are_none(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("x", NOWHERE, ["a"])) as gateway:
        assert await instructions(gateway) is None


async def test_instructions_leave_out_servers_of_which_the_caller_sees_no_tool(tmp_path: Path) -> None:
    servers = [
        catalog_with_instructions("files", "Paths are absolute.", "read", "write"),
        catalog_with_instructions("bank", "The vault is open.", "pay"),
    ]
    async with running(tmp_path, *servers, denying_rules("pay", "write"), trust=TRUST) as gateway:
        assert "vault" in str(await instructions(gateway, agent="qa"))
        text = str(await instructions(gateway, agent="npc"))
    assert "Paths are absolute." in text
    assert "vault" not in text
    assert "bank" not in text


async def test_a_tier_without_a_tool_of_a_server_does_not_quote_it(tmp_path: Path) -> None:
    slow = entry("dig", latency=DeclaredLatency(estimated_duration_ms=9000))
    rules = Rules(tiers=(Tier(name="fast", max_latency_ms=500), Tier(name="deep")))
    servers = [catalog_with_instructions("mine", "Dig deep.", slow), catalog_with_instructions("shop", "Ask first.")]
    async with running(tmp_path, *servers, rules) as gateway:
        assert "Dig deep." in str(await instructions(gateway))
        assert "Dig deep." not in str(await instructions(gateway, "/mcp/fast"))
        assert "Ask first." in str(await instructions(gateway, "/mcp/fast"))


async def test_a_server_of_prompts_alone_is_quoted(tmp_path: Path) -> None:
    prompt = Definition(name="p", definition=Raw(b'{"name":"p"}'), hash="")
    prompts = catalog("prompts", NOWHERE, instructions="Begin with p.", prompts=(prompt,))
    async with running(tmp_path, prompts) as gateway:
        assert "Begin with p." in str(await instructions(gateway))


async def test_control_characters_are_shown_where_a_policy_wants_it(tmp_path: Path) -> None:
    npc = (Subject(kind="Agent", name="npc"),)
    escape = Policy(
        namespace="default",
        name="visible",
        every=True,
        subjects=npc,
        control_characters="Escape",
        rules=(Rule(action="Allow", tools=("*",)),),
    )
    rules = Rules(policies=(EVERYTHING, escape))
    async with running(tmp_path, catalog_with_instructions("x", "red \x1b[31m"), rules, trust=TRUST) as gateway:
        assert "red \\u001b[31m" in str(await instructions(gateway, agent="npc"))
        assert "red \x1b[31m" in str(await instructions(gateway, agent="qa"))


async def test_merged_instructions_have_2000_tokens_and_a_server_tells_all_on_its_own_endpoint(tmp_path: Path) -> None:
    long = "Use the search before the export. " * 2000
    async with running(
        tmp_path, catalog_with_instructions("long", long), catalog_with_instructions("short", "Be brief.")
    ) as gateway:
        text = str(await instructions(gateway))
        assert f"[cut here; see /servers/default/long/mcp for all {len(long):,} characters]" in text
        assert text.endswith("Be brief.")
        assert len(text) < 2000 * 6
        assert await instructions(gateway, "/servers/default/long/mcp") == long


async def test_instructions_that_change_are_quoted_with_the_next_catalog(tmp_path: Path) -> None:
    async with running(tmp_path, catalog_with_instructions("x", "Before.")) as gateway:
        assert "Before." in str(await instructions(gateway))
        publish(tmp_path / "documents", catalog_with_instructions("x", "After."))

        async def after() -> bool:
            return "After." in json.dumps(await instructions(gateway))

        await until_async("the new instructions", after)
