"""Results with more tokens than the limit: stored for their principal, shortened, and readable with `read_result`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client

from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Rules, Subject
from fairlead_app.authentication import Trust
from gatewayworld import (
    LEGACY,
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
    scrape,
)
from policyworld import Vouching, anybody, by
from rawserver import Request, raw_server
from restworld import get, post
from tasks_gateway import TOOLS, about, create_task, demo, listen_to_tasks, notification
from taskserver import TaskServer, text_result
from toolservers import modern_server, tool
from waiting import eventually

ROWS = [{"id": number, "name": f"name {number}", "place": {"street": "Elm"}} for number in range(400)]
SCHEMA = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": {"type": "object", "required": ["id", "name"]}}},
    "required": ["rows"],
    "additionalProperties": False,
}
BOTH = Trust(authenticators=(Vouching(anybody("ada"), anybody("bob")),))
EVERY = Rule(action="Allow", tools=("*",))


def table(request: Request) -> dict[str, Any]:
    """A long result, as text and as structured content. `n`: number of rows."""
    rows = ROWS[: request.params["arguments"].get("n", len(ROWS))]
    result: dict[str, Any] = {"content": [{"type": "text", "text": json.dumps({"rows": rows})}]}
    return result if request.params["name"] == "bare" else {**result, "structuredContent": {"rows": rows}}


LISTS = tool("list", outputSchema=SCHEMA)
BARE = tool("bare")


def rules_with_limits(**more: Any) -> Rules:
    return Rules(policies=(Policy(namespace="default", name="p", every=True, rules=(EVERY,), **more),))


def limit(tokens: Any) -> dict[str, Any]:
    """Members of `_meta` that limit the result of a request."""
    return {"fairlead.dev/resultTokens": tokens}


def names(answer: Answer) -> list[str]:
    return [tool["name"] for tool in answer.message["result"]["tools"]]


def answer_meta(answer: Answer) -> Any:
    return result_meta(answer.message["result"])


def result_meta(result: Any) -> Any:
    return result["_meta"]["fairlead.dev/result"]


def tokens(answer: Answer) -> int:
    """Number of tokens that a model reads, at three bytes each."""
    content = answer.message["result"]["content"]
    return sum(len(json.dumps(block.get("text", block), ensure_ascii=False).encode()) for block in content) // 3


def read(**arguments: Any) -> Ask:
    return calling("read_result", arguments)


def text(answer: Answer) -> Any:
    return json.loads(answer.message["result"]["content"][0]["text"])["passages"][0]["text"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_stock_client_reads_on_in_a_result_that_its_tool_bounds(tmp_path: Path, mode: Any) -> None:
    """The SDK's client validates structured content against the outputSchema, and accepts the shortened result."""
    async with modern_server([LISTS], call=table) as server:
        house = catalog("house", server.url, [entry(LISTS, result_tokens=600)])
        async with (
            running(tmp_path, house) as gateway,
            Client(f"http://127.0.0.1:{gateway.port}/mcp", mode=mode) as client,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == ["house__list", "read_result"]
            short = await client.call_tool("house__list", {"n": 2})
            assert short.structured_content == {"rows": ROWS[:2]}
            long = await client.call_tool("house__list", {})
            assert long.structured_content is not None
            assert 0 < len(long.structured_content["rows"]) <= 20
            assert long.structured_content["rows"] == ROWS[: len(long.structured_content["rows"])]
            blocks: Any = long.content
            first, head, tail, link = blocks
            assert "$.rows: array, 400 rows; columns id (number), name (string), place (object)" in first.text
            assert '"name": "name 0"' in head.text
            assert '"name": "name 399"' in tail.text
            ident = (long.meta or {})["fairlead.dev/result"]["id"]
            assert ident in first.text

            async def read_on(**arguments: Any) -> str:
                result = await client.call_tool("read_result", {"id": ident, **arguments})
                content: Any = result.content[0]
                return str(json.loads(content.text)["passages"][0]["text"])

            assert json.loads(await read_on(path="rows[7]")) == ROWS[7]
            assert "name 7" in await read_on(query="the row of name 7")
            assert await read_on(grep=r'"id": 3[78]\b') == '263:    "id": 37,\n270:    "id": 38,'
            assert await read_on(range="264-264") == '   "name": "name 37",'
            assert await read_on(path="rows[7]", range="2-2") == ' "id": 7,'
            assert await read_on(path="rows[7].place", grep="elm") == '2:  "street": "Elm"'
            refused: Any = (await client.call_tool("read_result", {"id": ident, "range": "1-2", "grep": "x"})).content
            unknown: Any = (await client.call_tool("read_result", {"id": "x"})).content
            assert unknown[0].text.startswith("you have no stored result with this id"), "its argument is called id"
            assert "give range or grep, not both; path can be combined with either" in refused[0].text
            whole: Any = (await client.read_resource(link.uri)).contents[0]
            assert json.loads(whole.text) == {"rows": ROWS}
            assert link.size == len(whole.text)


async def test_policies_bound_results_of_their_subjects_who_alone_read_on(tmp_path: Path) -> None:
    subject = (Subject(kind="Agent", name="ada"),)
    every = Policy(namespace="default", name="all", every=True, rules=(EVERY,))
    short = Policy(
        namespace="default",
        name="short",
        every=True,
        rules=(EVERY,),
        subjects=subject,
        limits=PolicyLimits(result_tokens=500),
    )
    audit = tmp_path / "audit"
    async with modern_server([BARE], call=table) as server:
        house = catalog("house", server.url, [entry(BARE, result_tokens=900)])
        documents = house, Rules(policies=(every, short))
        async with running(tmp_path, *documents, trust=BOTH, audit="all", audit_file=audit) as gateway:
            plain = catalog("house", server.url, [BARE])
            for_ada = await ask(gateway, by("ada", calling("house__bare")))
            assert (tokens(for_ada) <= 500, answer_meta(for_ada)["kept"]) == (True, True)
            for_bob = await ask(gateway, by("bob", calling("house__bare")))
            assert 500 < tokens(for_bob) <= 900
            ident = answer_meta(for_ada)["id"]
            assert json.loads(text(await ask(gateway, by("ada", read(id=ident, path="rows[3]"))))) == ROWS[3]
            assert (await ask(gateway, by("bob", read(id=ident, path="rows[3]")))).refusal == "INVALID_ARGUMENTS"
            uri = f"fairlead://results/{ident}"
            whole = modern("resources/read", {"uri": uri}).with_headers(mcp_name=uri)
            assert (await ask(gateway, by("ada", whole))).message["result"]["contents"]
            assert (await ask(gateway, by("bob", whole))).message["error"]["code"] == -32602

            swaps = gateway.snapshots.swaps
            publish(tmp_path / "documents", plain, Rules(policies=(every, short)))
            await eventually(lambda: gateway.snapshots.swaps > swaps)
            assert names(await ask(gateway, by("ada", modern("tools/list")))) == ["house__bare", "read_result"]
            assert names(await ask(gateway, by("bob", modern("tools/list")))) == ["house__bare"]
            assert "_meta" not in text_of(await ask(gateway, by("bob", calling("house__bare"))))

            swaps = gateway.snapshots.swaps
            denied = Policy(namespace="default", name="no", every=True, rules=(Rule(action="Deny", tools=("bare",)),))
            publish(tmp_path / "documents", Rules(policies=(every, short, denied)))
            await eventually(lambda: gateway.snapshots.swaps > swaps)
            late = await ask(gateway, by("ada", read(id=ident, path="rows[3]")))
            assert late.refusal == "INVALID_ARGUMENTS", "today's policies decide about what was kept"
            metrics = await scrape(gateway)
            assert 'fairlead_long_results_total{kept="true"} 2.0' in metrics
            assert 'fairlead_router_calls_total{tool="read_result"} 3.0' in metrics
        lines = [json.loads(line) for line in audit.read_text().splitlines()]
        own = [line for line in lines if line.get("tool") == "read_result"]
        assert [line["principal"].endswith("ada") for line in own if line["method"] == "tools/call"] == [
            True,
            False,
            True,
        ]


def text_of(answer: Answer) -> str:
    return str(answer.message["result"]["content"][0]["text"])


async def test_a_part_of_a_short_result_is_read_without_a_process(tmp_path: Path) -> None:
    async with modern_server([BARE], call=table) as server:
        house = catalog("house", server.url, [BARE], prefix="h")
        async with running(tmp_path, house, validate=False) as gateway:
            pool = gateway.rest.services.results.reading_pool
            assert pool is not None
            for rows, processes in ((40, 0), (len(ROWS), 1)):
                answer = await ask(gateway, calling("h__bare", {"n": rows}, **limit(400)))
                ident = answer_meta(answer)["id"]
                assert json.loads(text(await ask(gateway, read(id=ident, path="rows[7]")))) == ROWS[7]
                assert text(await ask(gateway, read(id=ident, range="11-11"))) == '   "id": 1,'
                assert len(pool.pids) == processes


async def test_a_request_bounds_its_own_result_and_can_only_lower_what_is_declared(tmp_path: Path) -> None:
    async with modern_server([BARE, LISTS], call=table) as server:
        house = catalog("house", server.url, [BARE, entry(LISTS, result_tokens=500)], prefix="h")
        async with running(tmp_path, house, validate=False) as gateway:
            whole = await ask(gateway, calling("h__bare"))
            assert "fairlead.dev/result" not in whole.message["result"]["_meta"]
            answer = await ask(gateway, calling("h__bare", **limit(400)))
            assert tokens(answer) <= 400
            old = calling("h__bare", era="2025-11-25").with_headers(fairlead_result_tokens="300")
            header = await ask(gateway, old)
            assert tokens(header) <= 300
            assert all(block["type"] == "text" for block in header.message["result"]["content"]), "no session, no links"
            more = await ask(gateway, calling("h__list", **limit(9000)))
            assert tokens(more) <= 500
            for bad in (7, "many", 10**9):
                assert (await ask(gateway, calling("h__bare", **limit(bad)))).refusal == "INVALID_ARGUMENTS"
            wrong = await ask(gateway, calling("h__bare").with_headers(fairlead_result_tokens="-1"))
            assert wrong.refusal == "INVALID_ARGUMENTS"
            empty = await ask(gateway, modern("resources/list"))
            assert empty.message["result"]["resources"] == []


async def test_the_router_bounds_results_by_default_and_reads_them_by_its_own_tool(tmp_path: Path) -> None:
    async with modern_server([BARE], call=table) as server:
        house = catalog("house", server.url, [BARE])
        async with running(tmp_path, house, rules_with_limits(pinned=("bare",)), router_result_tokens=700) as gateway:
            execute = calling("execute_tool", {"name": "house__bare"}).to("/router/mcp")
            answer = await ask(gateway, execute)
            context = answer.message["result"]["_meta"]["fairlead.dev/context"]
            assert (context["entryId"], tokens(answer) < 800) == (answer_meta(answer)["id"], True)
            assert f"{context['entryId']}: read on with retrieve_context(entry_id" in text_of(answer)
            pinned = await ask(gateway, calling("house__bare").to("/router/mcp"))
            assert tokens(pinned) <= 700
            assert "fairlead.dev/result" not in (await ask(gateway, calling("house__bare"))).message["result"]["_meta"]
            more = calling("execute_tool", {"name": "house__bare"}, **limit(50_000))
            raised = await ask(gateway, more.to("/router/mcp"))
            assert "fairlead.dev/result" not in raised.message["result"]["_meta"]


async def test_long_results_that_cannot_be_kept_are_cut_and_the_answer_says_so(tmp_path: Path) -> None:
    strict = tool("list", outputSchema={**SCHEMA, "properties": {"rows": {"type": "array", "minItems": 300}}})
    async with modern_server([BARE, strict], call=table) as server:
        house = catalog("house", server.url, [entry(BARE, result_tokens=500), entry(strict, result_tokens=500)])
        async with running(tmp_path, house, context_bytes_each=2000) as gateway:
            cut = await ask(gateway, calling("house__bare"))
            assert answer_meta(cut)["kept"] is False
            assert "The rest is lost (the result has" in text_of(cut)
            unfit = await ask(gateway, calling("house__list"))
            assert unfit.refusal == "RESULT_TOO_LARGE", "no shorter one fits its outputSchema"


async def test_rest_bounds_the_results_of_a_batch_and_of_an_execution(tmp_path: Path) -> None:
    async with (
        modern_server([BARE], call=table) as server,
        running(tmp_path, catalog("house", server.url, [BARE])) as gateway,
    ):
        message = {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "house__bare", "arguments": "{}"}}],
        }
        body = {"format": "openai", "message": message, "resultTokens": 400}
        answered = await post(gateway, "/v1/tool-calls", body)
        content = json.dumps(answered.message["messages"][0]["content"])
        assert len(content) < 1600
        assert "read on with read_result" in content
        executed = await post(gateway, "/v1/executions", {"name": "house__bare", "resultTokens": 400})
        assert executed.message["result"]["_meta"]["fairlead.dev/result"]["shownTokens"] <= 400
        assert (await post(gateway, "/v1/tool-calls", {**body, "resultTokens": 1})).status == 400


def call_body(name: str, **arguments: Any) -> dict[str, Any]:
    """A body of `/v1/tool-calls` with one call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    message = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    return {"format": "openai", "message": message}


def stored_id(content: str) -> str:
    """Id of the stored result, from the first sentences of a shortened result."""
    return content.split("The whole result is stored as ")[1].split(":", maxsplit=1)[0]


async def test_rest_lists_the_reader_where_documents_bound_results_and_reads_on_by_it(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    async with modern_server([BARE], call=table) as server:
        bounded = catalog("house", server.url, [entry(BARE, result_tokens=400)])
        other = catalog("shed", server.url, ["saw"])
        async with running(tmp_path, bounded, other, audit="all", audit_file=audit) as gateway:
            listed = (await get(gateway, "/v1/tools")).message["tools"]
            assert [each["definition"] for each in listed] == (await ask(gateway, modern("tools/list"))).message[
                "result"
            ]["tools"]
            assert (listed[1]["name"], listed[1]["server"]) == ("read_result", "fairlead.dev/gateway")
            assert (await get(gateway, f"/v1/tools/{listed[1]['id']}")).message == listed[1]
            assert len((await get(gateway, "/v1/tools?servers=shed")).message["tools"]) == 1, "none of it is bounded"
            offered = (await get(gateway, "/v1/tools?format=openai&maxTools=1")).message
            assert [*offered["names"]] == ["read_result"], "no budget cuts what reads on"
            planned = await post(gateway, "/v1/plan", {"models": ["gpt-4o"]})
            assert "read_result" in planned.message["offer"]["names"]
            batch = await post(gateway, "/v1/tool-calls", call_body("house__bare"))
            ident = stored_id(batch.message["messages"][0]["content"])
            read_on = await post(gateway, "/v1/tool-calls", call_body("read_result", id=ident, path="rows[7]"))
            assert (read_on.message["calls"][0]["state"], read_on.message["calls"][0]["tool"]) == (
                "done",
                "read_result",
            )
            passages = json.loads(read_on.message["messages"][0]["content"])
            assert json.loads(passages["passages"][0]["text"]) == ROWS[7]
            body = {"name": "read_result", "arguments": {"id": ident, "path": "rows[9]"}}
            executed = (await post(gateway, "/v1/executions", body)).message["result"]
            assert json.loads(json.loads(executed["content"][0]["text"])["passages"][0]["text"]) == ROWS[9]
            lost = await post(gateway, "/v1/tool-calls", call_body("read_result", id="no-such"))
            assert (lost.message["calls"][0]["state"], lost.message["calls"][0]["code"]) == (
                "invalid",
                "INVALID_ARGUMENTS",
            )
            assert 'fairlead_router_calls_total{tool="read_result"} 3.0' in await scrape(gateway)
        lines = [json.loads(line) for line in audit.read_text().splitlines()]
        assert len([line for line in lines if line.get("tool") == "read_result"]) == 3


async def test_rest_reads_on_unlisted_where_a_request_bounds_its_own_results(tmp_path: Path) -> None:
    """A tool of the caller with the name `read_result` still belongs to the caller."""
    async with (
        modern_server([BARE], call=table) as server,
        running(tmp_path, catalog("house", server.url, [BARE])) as gateway,
    ):
        assert len((await get(gateway, "/v1/tools")).message["tools"]) == 1
        batch = await post(gateway, "/v1/tool-calls", {**call_body("house__bare"), "resultTokens": 400})
        ident = stored_id(batch.message["messages"][0]["content"])
        call = call_body("read_result", id=ident, path="rows[7].name")
        read_on = await post(gateway, "/v1/tool-calls", call)
        assert "name 7" in read_on.message["messages"][0]["content"]
        theirs = {"type": "function", "function": {"name": "read_result", "parameters": {"type": "object"}}}
        handed = await post(gateway, "/v1/tool-calls", {**call, "tools": [theirs]})
        assert handed.message["calls"][0]["state"] == "pending"


async def test_results_of_tasks_are_bounded_polled_waited_for_and_notified(tmp_path: Path) -> None:
    server = TaskServer()
    long = text_result("a long story\n" * 2000)
    bounded = tuple(entry(name, result_tokens=500) for name in TOOLS)
    async with raw_server(server.handle) as raw:
        jobs = msgspec.structs.replace(demo(raw.url), tools=bounded)
        async with running(tmp_path, jobs) as gateway, await Wire.connect(gateway) as wire:
            task = await create_task(gateway, ends="asks")
            server.ends("t1", result=long)
            polled = (await ask(gateway, about("tasks/get", task))).message["result"]["result"]
            assert result_meta(polled)["kept"]
            await listen_to_tasks(wire, [task])
            ended = (await notification(wire))["params"]["result"]
            assert result_meta(ended)["shownTokens"] <= 500
            client = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            opened = await ask(gateway, legacy("initialize", client))
            session = opened.headers["mcp-session-id"]
            waited = ask(gateway, legacy("tools/call", {"name": "demo__must", "arguments": {}}, session=session))
            async with asyncio.TaskGroup() as group:
                answering = group.create_task(waited)
                await eventually(lambda: len(server.tasks) == 2)
                server.ends("t2", result=long)
            result = answering.result().message["result"]
            assert result_meta(result)["shownTokens"] <= 500
            assert result["content"][-1]["type"] == "resource_link"
