"""The router endpoint: with its three tools, ordinary MCP clients search and call all other tools and read long
results."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_app.authentication import Trust
from fairlead_mcp.http.target import Target
from fairlead_mcp.session import McpSession
from gatewayworld import Answer, Ask, ask, calling, catalog, modern, publish, running, scrape, wait_for_snapshots
from policyworld import Vouching, anybody, by
from rawserver import Request
from routercalls import ROUTER, context_of, execute
from toolservers import modern_server, sdk_server, tool


async def discover_catalog(url: str) -> Catalog:
    """The catalog that an operator would publish for a server."""
    async with McpSession.over_http(Target.from_url(url)) as session:
        tools = await session.list_all("tools/list")
    return catalog("demo", url, [json.loads(bytes(raw)) for raw in tools])


META = ["execute_tool", "retrieve_context", "search_tools"]


def content_of(result: Any) -> Any:
    return json.loads(result.content[0].text)


def many(count: int) -> list[dict[str, Any]]:
    """Definitions of tools that nobody calls."""
    return [
        {
            "name": f"report_{number}",
            "description": f"Write report number {number} of department {number % 37}.",
            "inputSchema": {"type": "object", "properties": {"title": {"type": "string"}}},
        }
        for number in range(count)
    ]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_stock_client_finds_calls_and_later_retrieves_among_a_thousand_tools(tmp_path: Path, mode: Any) -> None:
    heard: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with sdk_server() as url:
        demo = await discover_catalog(url)
        crowd = catalog("crowd", "http://127.0.0.1:9/mcp", many(1000))
        async with (
            running(tmp_path, demo, crowd) as gateway,
            Client(f"http://127.0.0.1:{gateway.port}{ROUTER}", mode=mode) as client,
        ):
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == META
            hits = content_of(await client.call_tool("search_tools", {"query": "add two numbers", "limit": 3}))
            assert hits["searched"] > 1000
            of_demo = content_of(await client.call_tool("search_tools", {"query": "add", "servers": ["demo"]}))
            assert of_demo["searched"] == hits["searched"] - 1000
            best = hits["tools"][0]
            assert best["name"] == "demo__add"
            assert set(best["inputSchema"]["properties"]) == {"a", "b"}
            added = await client.call_tool("execute_tool", {"name": best["name"], "arguments": {"a": 2, "b": 3}})
            assert added.structured_content == {"result": 5}
            context = (added.meta or {})["fairlead.dev/context"]
            assert context["recorded"]
            assert context["entryId"] in str(added.content[-1])
            session = context["sessionId"]
            moved = await client.call_tool(
                "execute_tool",
                {"name": "demo__progress", "arguments": {"steps": 4}, "session_id": session},
                progress_callback=on_progress,
            )
            assert heard == [1, 2, 3, 4]
            assert (moved.meta or {})["fairlead.dev/context"]["sessionId"] == session
            again = content_of(
                await client.call_tool("retrieve_context", {"session_id": session, "query": "result of adding"})
            )
            assert again["entries"] == 2
            assert again["passages"][0]["tool"] == "demo__add"
            assert json.loads(again["passages"][0]["text"]) == {"result": 5}
            passage = content_of(
                await client.call_tool("retrieve_context", {"entry_id": context["entryId"], "path": "result"})
            )
            assert passage["passages"][0]["text"] == "5"
            assert gateway.call_metrics.search.executed["1"] == 1


def answering_server(*tools: dict[str, Any]) -> Any:
    """A modern server whose tools return their name and arguments in many lines."""

    def call(request: Request) -> dict[str, Any]:
        rows = "\n".join(f"row {number}: nothing of note" for number in range(40))
        text = f"{rows}\n{request.params['name']} got {json.dumps(request.params['arguments'])}"
        return {"content": [{"type": "text", "text": text}]}

    return modern_server(list(tools), call=call)


def retrieve(**arguments: Any) -> Ask:
    return calling("retrieve_context", arguments).to(ROUTER)


def text_of(answer: Answer) -> Any:
    return json.loads(answer.message["result"]["content"][0]["text"])


def rules(*listed: Rule, pinned: tuple[str, ...] = ()) -> Rules:
    every = Rule(action="Allow", tools=("*",))
    policy = Policy(namespace="default", name="doors", every=True, rules=listed or (every,), pinned=pinned)
    return Rules(policies=(policy,))


async def test_another_principal_gets_nothing_and_policies_of_today_judge_what_was_kept(tmp_path: Path) -> None:
    trust = Trust(authenticators=(Vouching(anybody("ada"), anybody("bob")),))
    async with answering_server(tool("ask"), tool("tell")) as server:
        house = catalog("house", server.url, [tool("ask"), tool("tell")])
        async with running(tmp_path, house, rules(pinned=("tell",)), trust=trust) as gateway:
            listed = await ask(gateway, by("ada", modern("tools/list").to(ROUTER)))
            assert [tool["name"] for tool in listed.message["result"]["tools"]] == [*META, "house__tell"]
            pinned = await ask(gateway, by("ada", calling("house__tell").to(ROUTER)))
            assert "fairlead.dev/context" not in pinned.message["result"]["_meta"]
            direct = await ask(gateway, by("ada", calling("house__ask").to(ROUTER)))
            assert "use execute_tool" in direct.message["error"]["message"]

            told = context_of(await ask(gateway, by("ada", execute("house__ask", {"door": 7}, session_id="mine"))))
            assert told["sessionId"] == "mine"
            question = retrieve(session_id="mine", query="what door did I ask for")
            passages = text_of(await ask(gateway, by("ada", question)))
            assert '"door": 7' in passages["passages"][0]["text"]
            assert text_of(await ask(gateway, by("bob", question)))["passages"] == []
            theirs = await ask(gateway, by("bob", retrieve(entry_id=told["entryId"])))
            assert theirs.refusal == "INVALID_ARGUMENTS"

            swaps = gateway.snapshots.swaps
            publish(
                tmp_path / "documents",
                rules(Rule(action="Allow", tools=("ask",), arguments={"properties": {"door": {"const": 8}}})),
            )
            await wait_for_snapshots(gateway, swaps + 1)
            assert text_of(await ask(gateway, by("ada", question)))["passages"] == []
            publish(tmp_path / "documents", rules(Rule(action="Allow", tools=("tell",))))
            await wait_for_snapshots(gateway, swaps + 2)
            assert text_of(await ask(gateway, by("ada", question)))["passages"] == []
            unknown = await ask(gateway, by("ada", execute("house__ask")))
            assert unknown.code == -32602
            searched = calling("search_tools", {"query": "ask"}).to(ROUTER)
            assert text_of(await ask(gateway, by("ada", searched)))["tools"] == []


async def test_an_anonymous_caller_goes_on_with_an_issued_session_and_chooses_none(tmp_path: Path) -> None:
    async with (
        answering_server(tool("ask")) as server,
        running(tmp_path, catalog("house", server.url, [tool("ask")]), context_bytes_each=3000) as gateway,
    ):
        first = context_of(await ask(gateway, execute("house__ask", {"n": 1})))
        session = first["sessionId"]
        chosen = await ask(gateway, execute("house__ask", session_id="mine"))
        assert chosen.refusal == "INVALID_ARGUMENTS"
        forged = await ask(gateway, execute("house__ask", session_id=("B" if session[0] == "A" else "A") + session[1:]))
        assert forged.refusal == "INVALID_ARGUMENTS"
        last = context_of(await ask(gateway, execute("house__ask", {"n": 2}, session_id=session)))
        line = text_of(await ask(gateway, retrieve(entry_id=last["entryId"], grep="GOT")))["passages"][0]["text"]
        assert line == '41: ask got {"n": 2}'
        lines = text_of(await ask(gateway, retrieve(entry_id=last["entryId"], range="2-3")))
        assert (lines["passages"][0]["text"], lines["lines"]) == ("row 1: nothing of note\nrow 2: nothing of note", 41)
        gone = await ask(gateway, retrieve(entry_id=first["entryId"]))
        why = gone.message["result"]["content"][0]["text"]
        assert "you have no stored result with this id" in why, "oldest is evicted first"
        metrics = await scrape(gateway)
        assert 'fairlead_context_results_total{kept="true"} 2.0' in metrics
        assert 'fairlead_router_calls_total{tool="execute_tool"} 4.0' in metrics


async def test_the_commands_of_the_page_execute_read_and_forget(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "connect" / "router.md").read_text()
    commands = [line for line in page.splitlines() if line.startswith("curl ")]
    async with (
        answering_server(tool("get_stock")) as server,
        running(tmp_path, catalog("demo", server.url, [tool("get_stock")])) as gateway,
    ):

        async def run(command: str, session: str = "") -> Any:
            command = command.replace("localhost:8080", f"127.0.0.1:{gateway.port}").replace("SESSION", session)
            child = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
            return json.loads((await child.communicate())[0])

        executed = (await run(commands[0]))["result"]
        session = executed["_meta"]["fairlead.dev/context"]["sessionId"]
        result = await run(commands[1].replace("query=rope", "query=get_stock"), session)
        assert result["passages"][0]["tool"] == "demo__get_stock"
        assert await run(commands[2], session) == {"entries": 1}
        assert (await run(commands[1], session))["passages"] == []
