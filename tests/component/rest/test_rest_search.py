"""Searching tools over REST, by the command and in Python, with a real gateway."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from commands import fairlead
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_app.authentication import Trust
from fairlead_client import ToolRegistry
from gatewayworld import catalog, entry, publish, running, scrape, wait_for_snapshots
from policyworld import Vouching, anybody
from restworld import get, problem
from waiting import eventually

NOWHERE = "http://127.0.0.1:9/mcp"


def describe_tool(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


FILES = catalog(
    "files",
    NOWHERE,
    [
        entry(describe_tool("delete_directory", "Delete a directory."), tags=("disk",), categories=("storage",)),
        entry(describe_tool("list_directory", "List a directory."), tags=("disk",)),
    ],
)
MAIL = catalog(
    "mail",
    NOWHERE,
    [describe_tool("send_mail", "Send a message to somebody."), describe_tool("read_mail", "Read mail.")],
)


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def names(gateway: Any, query: str, **headers: str) -> list[str]:
    answer = await get(gateway, f"/v1/search?{query}", **headers)
    assert answer.status == 200
    return [hit["tool"]["name"] for hit in answer.message["tools"]]


@pytest.mark.parametrize("processes", [0, 1])
async def test_tools_are_found_by_their_words_and_related_ones_best_first(tmp_path: Path, processes: int) -> None:
    async with running(tmp_path, FILES, MAIL, rest_processes=processes) as gateway:
        answer = (await get(gateway, "/v1/search?query=erase+a+folder")).message
        assert [hit["tool"]["name"] for hit in answer["tools"]] == ["files__delete_directory", "files__list_directory"]
        assert answer["tools"][0]["score"] > answer["tools"][1]["score"] > 0
        assert answer["tools"][0]["tool"] == (await get(gateway, "/v1/tools/files__delete_directory")).message
        assert (answer["searched"], answer["ranking"]) == (4, "bm25")
        assert await names(gateway, "query=zebra") == []
        assert await names(gateway, "query=delete+directory&query=mail&limit=2") == [
            "files__delete_directory",
            "mail__read_mail",
        ]


async def test_filters_narrow_what_is_searched(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, MAIL) as gateway:
        assert await names(gateway, "query=directory&categories=storage") == ["files__delete_directory"]
        assert await names(gateway, "query=directory&tags=mailbox") == []
        assert await names(gateway, "query=send+list&servers=mail") == ["mail__send_mail"]
        assert (await get(gateway, "/v1/search?query=mail&tags=disk")).message["searched"] == 2


async def test_a_provider_gets_its_own_form_and_no_more_tokens_than_it_has_room_for(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, MAIL) as gateway:
        offer = (await get(gateway, "/v1/search?query=erase+folder&format=anthropic")).message
        short = (await get(gateway, "/v1/search?query=erase+folder&toolTokens=39")).message
    assert [tool["name"] for tool in offer["tools"]] == ["files__delete_directory", "files__list_directory"]
    assert [hit["tool"]["name"] for hit in short["tools"]] == ["files__delete_directory"]
    assert short["cut"] == [{"name": "files__list_directory", "tokens": 20, "reason": "toolTokens"}]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("query=", "empty"),
        ("query=a&limit=0", "limit"),
        ("query=a&limit=101", "limit"),
        ("", "query"),
        (f"query={'x' * 1001}", "1000 characters"),
        ("&".join(["query=a"] * 17), "16 queries"),
        ("query=a&model=gpt-5", "format"),
        ("query=a&format=smoke", "smoke"),
        ("query=a&tgas=b", "tags"),
    ],
)
async def test_a_search_that_cannot_be_made_says_what_is_wrong(tmp_path: Path, query: str, words: str) -> None:
    async with running(tmp_path, FILES) as gateway:
        answer = await get(gateway, f"/v1/search?{query}")
    assert answer.status == 400
    assert words in answer.message["detail"]
    assert problem(answer)[0] == 400


async def test_tools_that_a_policy_hides_are_not_found_and_move_no_score(tmp_path: Path) -> None:
    everything = Policy(namespace="default", name="all", every=True, rules=(Rule(action="Allow", tools=("*",)),))
    no_mail = Policy(
        namespace="default",
        name="no-mail",
        every=True,
        subjects=(Subject(kind="Agent", name="npc"),),
        rules=(Rule(action="Deny", tools=("*_mail",)),),
    )
    npc = anybody("npc")
    dm = anybody("dm")
    trust = Trust((Vouching(npc, dm),))
    rules = Rules(policies=(everything, no_mail))
    async with running(make_folder(tmp_path / "a"), FILES, MAIL, rules, trust=trust) as gateway:
        assert await names(gateway, "query=mail", authorization="Bearer npc") == []
        assert await names(gateway, "query=mail", authorization="Bearer dm") == ["mail__read_mail", "mail__send_mail"]
        beside = (await get(gateway, "/v1/search?query=delete+directory", authorization="Bearer npc")).message
    async with running(make_folder(tmp_path / "b"), FILES, rules, trust=trust) as gateway:
        alone = (await get(gateway, "/v1/search?query=delete+directory", authorization="Bearer npc")).message
    assert beside == alone


async def test_a_tool_that_is_added_or_removed_is_searched_from_then_on(tmp_path: Path) -> None:
    async with running(tmp_path, FILES) as gateway:
        assert await names(gateway, "query=mail") == []
        publish(tmp_path / "documents", MAIL)
        await wait_for_snapshots(gateway, 2)
        assert await names(gateway, "query=mail") == ["mail__read_mail", "mail__send_mail"]
        assert set(await names(gateway, "query=directory")) == {"files__delete_directory", "files__list_directory"}
        await eventually(lambda: gateway.call_metrics.search.changes["added"] == 2)
        page = await scrape(gateway)
        assert 'fairlead_search_changes_total{change="added"} 2.0' in page
        assert 'fairlead_searches_total{ranking="bm25"} 3.0' in page


async def test_a_process_that_was_killed_costs_no_search(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, MAIL) as gateway:
        assert await names(gateway, "query=mail") == ["mail__read_mail", "mail__send_mail"]
        (pid,) = gateway.rest.services.search.pids
        os.kill(pid, signal.SIGKILL)
        assert await names(gateway, "query=mail") == ["mail__read_mail", "mail__send_mail"]
        await eventually(lambda: gateway.rest.services.search.pids not in ([], [pid]))


async def test_the_command_prints_what_was_found_or_what_to_do(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, MAIL) as gateway:
        url = ("--url", f"http://127.0.0.1:{gateway.port}/mcp")
        code, table, _ = await fairlead("search", "erase", "a", "folder", "--limit", "1", *url)
        _, whole, _ = await fairlead("search", "mail", "--server", "default/mail", "--json", *url)
        none = await fairlead("search", "zebra", *url)
        untagged = await fairlead("search", "mail", "--tag", "nope", *url)
    assert code == 0
    assert "files__delete_directory" in table
    assert "Delete a directory." in table
    assert "list_directory" not in table
    assert [hit["tool"]["name"] for hit in json.loads(whole)["tools"]] == ["mail__read_mail", "mail__send_mail"]
    assert none[0] == 0
    assert "none of 4 tools matches" in none[2]
    assert "no tool has the tag nope; `fairlead tools" in untagged[2]


async def test_the_searches_of_the_page_find_the_tool(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "connect" / "search.md").read_text()
    shell = page.split("```sh\n")[1].split("```")[0].splitlines()
    program = page.split("```python\n")[1].split("```")[0]
    demo = catalog("demo", NOWHERE, [describe_tool("get_stock", "How many of an item are in stock.")])
    async with running(tmp_path, demo) as gateway:
        code, out, _ = await fairlead(*shell[0].split()[1:], "--url", f"http://127.0.0.1:{gateway.port}/mcp")
        offer = (await get(gateway, shell[1].split("localhost:8080")[1].rstrip("'"))).message
        script = tmp_path / "script.py"
        script.write_text(program.replace("8080", str(gateway.port)))
        process = await asyncio.create_subprocess_exec(sys.executable, str(script), stdout=asyncio.subprocess.PIPE)
        printed, _ = await asyncio.wait_for(process.communicate(), 30)
    assert (code, "demo__get_stock" in out) == (0, True)
    assert [tool["function"]["name"] for tool in offer["tools"]] == ["demo__get_stock"]
    assert printed.decode().split() == ["fairlead__demo__get_stock"]


def test_a_tool_registry_finds_its_own_tools() -> None:
    def delete_directory(path: str) -> str:
        """Delete a directory."""
        return path

    def send_mail(to: str) -> str:
        """Send a message."""
        return to

    with ToolRegistry(local_tools=[delete_directory]) as registry:
        assert [tool.name for tool in registry.search("erase folder")] == ["delete_directory"]
        assert registry.search("mail") == ()
        registry.add_tool(send_mail)
        assert [tool.name for tool in registry.search("mail", limit=1)] == ["send_mail"]
        with pytest.raises(ValueError, match="at least 1"):
            registry.search("mail", limit=0)
