"""Calls by `execute_tool` during which the server asks the client a question, or creates a task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client
from mcp.types import ElicitResult

from askers import PICKED, QUESTION, LegacyAsker
from gatewayworld import LEGACY, META, Wire, ask, calling, catalog, entry, modern, running
from rawserver import raw_server
from routercalls import ROUTER, context_of, execute
from tasks_gateway import TOOLS, about, demo, listen_to_tasks, notification
from taskserver import DECLARING, TaskServer, text_result

OFFER: dict[str, Any] = {META + "clientCapabilities": {"elicitation": {"form": {}}}}
EXECUTE = {"name": "execute_tool", "arguments": {"name": "demo__x", "arguments": {}}}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_stock_client_is_asked_what_the_server_of_an_inner_call_asks(tmp_path: Path, mode: Any) -> None:
    asker = LegacyAsker(2)
    heard = []

    async def picks(context: Any, params: Any) -> ElicitResult:
        heard.append(params.message)
        return ElicitResult(action="accept", content={"x": "this"})

    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
        Client(f"http://127.0.0.1:{gateway.port}{ROUTER}", mode=mode, elicitation_callback=picks) as client,
    ):
        answer = await client.call_tool("execute_tool", {"name": "demo__x", "arguments": {}})
        told: Any = answer.content[0]
        assert json.loads(told.text) == [PICKED] * 2
        context = (answer.meta or {})["fairlead.dev/context"]
        assert context["recorded"]
        content: Any = (await client.call_tool("retrieve_context", {"entry_id": context["entryId"]})).content[0]
        assert "this" in json.loads(content.text)["passages"][0]["text"]
    assert heard == ["Which?"] * 2
    assert server.methods().count("tools/call") == 1


async def test_the_rounds_of_an_inner_call_are_one_call_whose_last_result_alone_is_kept(tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        inquiry = await ask(gateway, modern("tools/call", EXECUTE, **OFFER).to(ROUTER))
        result = inquiry.message["result"]
        assert result["resultType"] == "input_required"
        assert [*result["inputRequests"].values()] == [{"method": "elicitation/create", "params": QUESTION}]
        assert "fairlead.dev/context" not in result.get("_meta", {})
        more = {
            "inputResponses": dict.fromkeys(result["inputRequests"], PICKED),
            "requestState": result["requestState"],
        }
        other = {**EXECUTE, "arguments": {"name": "demo__y", "arguments": {}}, **more}
        wrong = await ask(gateway, modern("tools/call", other, number=2, **OFFER).to(ROUTER))
        assert "error" in wrong.message, "the state of one tool's call resumes no other's"
        done = await ask(gateway, modern("tools/call", {**EXECUTE, **more}, number=3, **OFFER).to(ROUTER))
        assert json.loads(done.message["result"]["content"][0]["text"]) == [PICKED]
        session = context_of(done)["sessionId"]
        query = calling("retrieve_context", {"session_id": session, "query": "accept"}).to(ROUTER)
        assert json.loads((await ask(gateway, query)).message["result"]["content"][0]["text"])["entries"] == 1


async def test_the_task_of_an_inner_call_is_polled_answered_and_notified_of_at_the_router(tmp_path: Path) -> None:
    server = TaskServer()
    bounded = tuple(entry(name, result_tokens=500) for name in TOOLS)
    async with raw_server(server.handle) as raw:
        house = msgspec.structs.replace(demo(raw.url), tools=bounded)
        async with running(tmp_path, house) as gateway, await Wire.connect(gateway) as wire:
            made = (await ask(gateway, execute("demo__job", {"ends": "asks"}, meta=DECLARING))).message["result"]
            assert made["resultType"] == "task"
            polled = await ask(gateway, about("tasks/get", made["taskId"]).to(ROUTER))
            assert polled.message["result"]["status"] == "input_required"
            await listen_to_tasks(wire, [made["taskId"]])
            server.ends("t1", result=text_result("a long story\n" * 2000))
            ended = (await notification(wire))["params"]["result"]
            assert ended["_meta"]["fairlead.dev/result"]["shownTokens"] <= 500
            late = (await ask(gateway, about("tasks/get", made["taskId"]).to(ROUTER))).message["result"]
            assert late["status"] == "completed"
            assert late["result"]["_meta"]["fairlead.dev/result"]["kept"]
