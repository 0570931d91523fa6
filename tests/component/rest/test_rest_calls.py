"""`POST /v1/tool-calls`: a model's message in every format, run over real servers."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.types import AudioContent, ImageContent

from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_formats.registry import message_format
from fairlead_gateway.telemetry import MetricsRegistry
from gatewayworld import Wire, ask, calling, catalog, entry, limits, running, wait_for_requests
from rawserver import Reply, Request, raw_server
from restworld import MESSAGES, Calls, get, post, problem
from toolservers import modern_server, sdk_server, serve_asgi
from waiting import eventually

ADD = {
    "name": "add",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["a", "b"],
    },
}
MEDIA = base64.b64encode(random.Random(1).randbytes(3000)).decode()
OTHER = base64.b64encode(random.Random(2).randbytes(3000)).decode()
CALLS: Calls = (("call_1", "demo__add", {"a": 1, "b": 2}), ("call_2", "demo__slow", {"ms": 1}))


def recorded_calls(registry: MetricsRegistry) -> dict[tuple[str, str], int]:
    """Number of recorded calls by tool and error type."""
    return {
        (tool, error): series.count
        for (method, tool, _, error), series in registry.histograms()
        if method == "tools/call" and series.count
    }


@pytest.mark.parametrize("name", MESSAGES)
async def test_a_models_calls_are_run_and_answered_in_its_format_and_order(tmp_path: Path, name: str) -> None:
    message = MESSAGES[name](CALLS)
    async with sdk_server() as url, running(tmp_path, catalog("demo", url, [ADD, "slow"])) as gateway:
        answer = (await post(gateway, "/v1/tool-calls", {"format": name.upper(), "message": message})).message
    made = 1 if name == "openai-functions" else 2
    assert [call["tool"] for call in answer["calls"]] == ["demo__add", "demo__slow"][:made]
    assert {call["state"] for call in answer["calls"]} == {"done"}
    assert answer["pending"] == []
    results = message_format(name).parse_results(answer["messages"])
    assert len(results) == made
    texts = [json.dumps(result.result) for result in results]
    assert "3" in texts[0]
    if made == 2:
        assert "slept 1 ms" in texts[1]
        assert [result.id for result in results] == ["call_1", "call_2"]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_media_that_a_real_server_tells_twice_reach_the_model_once(tmp_path: Path, streamed: bool) -> None:
    server = MCPServer("pictures")

    @server.tool(structured_output=True)
    def picture() -> list[ImageContent | AudioContent]:
        image = ImageContent(type="image", data=MEDIA, mime_type="image/png")
        return [image, AudioContent(type="audio", data=OTHER, mime_type="audio/wav")]

    use = {"type": "tool_use", "id": "t1", "name": "demo__picture", "input": {}}
    events = [
        {"type": "content_block_start", "index": 0, "content_block": use},
        {"type": "content_block_stop", "index": 0},
    ]
    body = {"stream": events} if streamed else {"message": {"role": "assistant", "content": [use]}}
    async with serve_asgi(server.streamable_http_app()) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with running(tmp_path, catalog("demo", url, ["picture"])) as gateway:
            told = await post(gateway, "/v1/tool-calls", {"format": "anthropic", **body})
            result = (await ask(gateway, calling("demo__picture", {}))).message["result"]
    assert told.body.count(MEDIA.encode()) == 1
    assert OTHER.encode() not in told.body
    (block,) = told.message["messages"][0]["content"]
    assert [part["type"] for part in block["content"]] == ["image", "text"]
    assert block["content"][1]["text"] == "[audio: audio/wav, 3000 bytes, not shown]"
    assert json.dumps(result["structuredContent"]).count(MEDIA) == 1, "MCP clients get what the server said"


async def test_safe_names_given_names_and_ids_lead_to_the_tool(tmp_path: Path) -> None:
    async with (
        modern_server([{"name": "päth/x"}]) as server,
        running(tmp_path, catalog("demo", server.url, ["päth/x"])) as gateway,
    ):
        offer = (await get(gateway, "/v1/tools?format=anthropic")).message
        (safe,) = offer["names"]
        message = MESSAGES["anthropic"]([("a", safe, {}), ("b", "mine", {}), ("c", "mcp.demo.päth/x", {})])
        body = {"format": "anthropic", "message": message, "names": {"mine": "demo__päth/x"}}
        answer = (await post(gateway, "/v1/tool-calls", body)).message
    assert [call["tool"] for call in answer["calls"]] == ["demo__päth/x"] * 3
    assert [call["name"] for call in answer["calls"]] == [safe, "mine", "mcp.demo.päth/x"]


async def test_nulls_of_strict_mode_are_taken_out_before_the_call(tmp_path: Path) -> None:
    async with modern_server([ADD]) as server, running(tmp_path, catalog("demo", server.url, [ADD])) as gateway:
        message = MESSAGES["openai-chat"]([("a", "demo__add", {"a": 1, "b": 2, "note": None})])
        await post(gateway, "/v1/tool-calls", {"format": "openai", "message": message})
    assert server.seen[-1].params["arguments"] == {"a": 1, "b": 2}


async def test_refusals_and_metrics_are_those_of_a_call_over_mcp(tmp_path: Path) -> None:
    async with sdk_server() as url:
        away = catalog("away", url, ["add"], online=False)
        demo = catalog("demo", url, ["fail", "slow"], limits=limits(timeout_ms=1500))
        async with running(tmp_path, demo, away) as gateway:
            given: Calls = [("1", "away__add", {}), ("2", "demo__slow", {"ms": 5000}), ("3", "demo__fail", {})]
            body = {"format": "mcp", "message": MESSAGES["mcp"](given)}
            answer = (await post(gateway, "/v1/tool-calls", body)).message
            over_rest = recorded_calls(gateway.endpoint.metrics)
            over_mcp = [await ask(gateway, calling(name, arguments)) for _, name, arguments in given]
            twice = recorded_calls(gateway.endpoint.metrics)
    codes = [call.get("code") for call in answer["calls"]]
    assert codes == ["CONNECTION_LOST", "TIMEOUT", None]
    assert [call["state"] for call in answer["calls"]] == ["refused", "refused", "failed"]
    assert [each.refusal for each in over_mcp[:2]] == codes[:2]
    for mine, theirs in zip(answer["messages"], over_mcp, strict=True):
        assert mine["result"]["content"] == theirs.message["result"]["content"]
    assert over_rest == {("add", "CONNECTION_LOST"): 1, ("slow", "TIMEOUT"): 1, ("fail", "tool_error"): 1}
    assert twice == {key: 2 * count for key, count in over_rest.items()}


async def test_arguments_that_cannot_be_read_are_answered_without_a_call_and_counted(tmp_path: Path) -> None:
    message: Any = MESSAGES["openai-chat"](CALLS)
    message["tool_calls"][0]["function"]["arguments"] = '{"a": '
    async with sdk_server() as url, running(tmp_path, catalog("demo", url, [ADD, "slow"])) as gateway:
        answer = (await post(gateway, "/v1/tool-calls", {"format": "openai", "message": message})).message
        counted = recorded_calls(gateway.endpoint.metrics)
    assert [(call["state"], call.get("code")) for call in answer["calls"]] == [
        ("invalid", "INVALID_ARGUMENTS"),
        ("done", None),
    ]
    assert "not valid JSON" in answer["messages"][0]["content"]
    assert counted == {("add", "INVALID_ARGUMENTS"): 1, ("slow", ""): 1}


async def test_tools_of_the_caller_come_back_to_it_and_misspelt_ones_are_explained(tmp_path: Path) -> None:
    own = {"name": "browse", "input_schema": {"type": "object", "properties": {}}}
    given: Calls = [("1", "browse", {}), ("2", "demo__ad", {}), ("3", "demo__add", {"a": 1, "b": 1})]
    message = MESSAGES["anthropic"](given)
    async with sdk_server() as url, running(tmp_path, catalog("demo", url, [ADD])) as gateway:
        told = (await post(gateway, "/v1/tool-calls", {"format": "claude", "message": message, "tools": [own]})).message
        untold = (await post(gateway, "/v1/tool-calls", {"format": "claude", "message": message})).message
    assert [call["state"] for call in told["calls"]] == ["pending", "unknown", "done"]
    assert told["pending"] == ["1"]
    assert told["calls"][1]["didYouMean"] == "demo__add"
    explained, _ = told["messages"][0]["content"]
    assert explained["is_error"] is True
    assert "Did you mean demo__add?" in json.dumps(explained["content"])
    assert untold["pending"] == ["1", "2"]
    assert untold["calls"][1]["didYouMean"] == "demo__add"


async def test_a_misspelt_tool_of_the_caller_is_explained_too(tmp_path: Path) -> None:
    own = {"name": "browse_web", "input_schema": {"type": "object", "properties": {}}}
    message = MESSAGES["anthropic"]([("1", "browse-wep", {}), ("2", "browse_web", {})])
    body = {"format": "anthropic", "message": message, "tools": [own]}
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:9/mcp", ["x"])) as gateway:
        misspelt, right = (await post(gateway, "/v1/tool-calls", body)).message["calls"]
    assert (misspelt["state"], misspelt["didYouMean"]) == ("unknown", "browse_web")
    assert right["state"] == "pending"
    assert "didYouMean" not in right


async def test_no_name_is_suggested_that_the_caller_may_not_see(tmp_path: Path) -> None:
    async with sdk_server() as url:
        hidden = catalog("demo", url, [entry(ADD, enabled=False), "slow"])
        off = catalog("off", url, [ADD], prefix=None)
        async with running(tmp_path, hidden, off) as gateway:
            message = MESSAGES["anthropic"]([("1", "demo__ad", {}), ("2", "off__ad", {}), ("3", "demo__slo", {})])
            answer = (await post(gateway, "/v1/tool-calls", {"format": "anthropic", "message": message})).message
            assert [call.get("didYouMean") for call in answer["calls"]] == [None, None, "demo__slow"]
            over_mcp = [(await ask(gateway, calling(name))).message["error"] for name in ("demo__ad", "demo__slo")]
    assert [error["message"] for error in over_mcp] == [
        "Unknown tool: demo__ad",
        "Unknown tool: demo__slo. Did you mean demo__slow?",
    ]
    assert {error["code"] for error in over_mcp} == {-32602}


async def test_arguments_that_do_not_fit_the_tools_own_schema_are_invalid_whatever_the_format(tmp_path: Path) -> None:
    async with modern_server([ADD]) as server, running(tmp_path, catalog("demo", server.url, [ADD])) as gateway:
        for name in MESSAGES:
            message = MESSAGES[name]([("1", "demo__add", {"a": "one", "b": 2})])
            (call,) = (await post(gateway, "/v1/tool-calls", {"format": name, "message": message})).message["calls"]
            assert (call["state"], call["code"]) == ("invalid", "INVALID_ARGUMENTS")
            assert "a: expected integer" in call["message"]
        assert [request for request in server.seen if request.method == "tools/call"] == []


@pytest.mark.parametrize(("options", "most"), [({}, 6), ({"limit": 2}, 2), ({"strategy": "sequential"}, 1)])
async def test_calls_run_as_many_at_once_as_was_asked(tmp_path: Path, options: dict[str, Any], most: int) -> None:
    come = 0
    leave = asyncio.Semaphore(0)

    async def handle(request: Request, reply: Reply) -> None:
        nonlocal come
        if request.params["name"] == "x":
            come += 1
            await leave.acquire()
        reply.result(request, {"content": [], "resultType": "complete"})

    def has_arrived(count: int) -> bool:
        return come >= count

    message = MESSAGES["gemini"]([(f"c{n}", "demo__x", {"n": n}) for n in range(6)])
    body = {"format": "gemini", "message": message, **options}
    async with raw_server(handle) as server, running(tmp_path, catalog("demo", server.url, ["x", "y"])) as gateway:
        async with asyncio.TaskGroup() as group:
            posted = group.create_task(post(gateway, "/v1/tool-calls", body))
            for gone in range(6):
                await eventually(partial(has_arrived, min(gone + most, 6)))
                await ask(gateway, calling("demo__y"))  # an unwanted call would have arrived before this one
                assert come == min(gone + most, 6)
                leave.release()
        answer = posted.result().message
    assert [call["id"] for call in answer["calls"]] == [f"c{n}" for n in range(6)]


@pytest.mark.timing
async def test_a_time_limit_holds_for_each_tool_and_can_only_shorten(tmp_path: Path) -> None:
    given: Calls = [("1", "demo__slow", {"ms": 20_000}), ("2", "demo__x", {"ms": 1})]
    message = MESSAGES["anthropic"](given)
    body = {"format": "anthropic", "message": message, "timeoutMs": 9_000, "timeoutsMs": {"demo__slow": 50}}
    async with (
        sdk_server() as url,
        modern_server([{"name": "x"}]) as other,
        running(tmp_path, catalog("demo", url, ["slow"]), catalog("other", other.url, ["x"])) as gateway,
    ):
        message["content"][2]["name"] = "other__x"
        began = time.monotonic()
        answer = (await post(gateway, "/v1/tool-calls", body)).message
        took = time.monotonic() - began
    assert [call.get("code") for call in answer["calls"]] == ["TIMEOUT", None]
    assert took < 9, "the limit of the request"


@pytest.mark.parametrize(
    ("options", "idempotent", "allowed", "attempts"),
    [
        ({}, True, None, 2),
        ({"retries": 0}, True, None, 1),
        ({"retries": 2}, True, None, 3),
        ({"retries": 2}, False, None, 1),
        ({"retries": 3}, True, 1, 2),
        ({"retries": 0, "retriesOf": {"demo__x": 2}}, True, None, 3),
        ({"retries": 2, "timeoutMs": 20_000}, True, None, 3),
    ],
)
async def test_calls_are_made_again_as_often_as_was_asked_where_that_is_safe(
    tmp_path: Path, options: dict[str, Any], idempotent: bool, allowed: int | None, attempts: int
) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        reply.close()

    async with raw_server(handle) as server:
        tool = entry("x", latency=DeclaredLatency(idempotent=idempotent))
        async with running(tmp_path, catalog("demo", server.url, [tool], limits=limits(retries=allowed))) as gateway:
            body = {"format": "mcp", "message": MESSAGES["mcp"]([("1", "demo__x", {})]), **options}
            (call,) = (await post(gateway, "/v1/tool-calls", body)).message["calls"]
    assert (call["state"], call["code"]) == ("refused", "CONNECTION_LOST")
    assert len(server.seen) == attempts


async def test_a_result_that_does_not_fit_its_output_schema_is_done_with_a_warning(tmp_path: Path) -> None:
    result = {"content": [], "structuredContent": {"a": "one"}}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    definition = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": schema}
    async with (
        modern_server([{"name": "x"}], call=lambda request: result) as server,
        running(tmp_path, catalog("demo", server.url, [definition])) as gateway,
    ):
        body = {"format": "mcp", "message": MESSAGES["mcp"]([("1", "demo__x", {})])}
        (call,) = (await post(gateway, "/v1/tool-calls", body)).message["calls"]
    assert call["state"] == "done"
    assert call["warning"].startswith("OUTPUT_SCHEMA_MISMATCH: ")
    assert "a: expected integer" in call["warning"]


async def test_errors_of_the_tool_itself_are_not_retried(tmp_path: Path) -> None:
    failed = {"content": [{"type": "text", "text": "no"}], "isError": True}
    async with modern_server([{"name": "x"}], call=lambda request: failed) as server:
        tool = entry("x", latency=DeclaredLatency(idempotent=True))
        async with running(tmp_path, catalog("demo", server.url, [tool])) as gateway:
            body = {"format": "mcp", "message": MESSAGES["mcp"]([("1", "demo__x", {})]), "retries": 3}
            (call,) = (await post(gateway, "/v1/tool-calls", body)).message["calls"]
    assert call["state"] == "failed"
    assert len(server.seen) == 1


async def test_a_client_that_leaves_takes_its_calls_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    left = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    async with raw_server(handle) as server, running(tmp_path, catalog("demo", server.url, ["x"])) as gateway:
        body = json.dumps({"format": "mcp", "message": MESSAGES["mcp"]([("1", "demo__x", {})])}).encode()
        wire = await Wire.connect(gateway)
        head = f"POST /v1/tool-calls HTTP/1.1\r\nhost: {wire.host}\r\ncontent-type: application/json\r\n"
        wire.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        await wait_for_requests(server, 1)
        assert gateway.endpoint.metrics.in_flight == 1
        wire.close()
        await eventually(lambda: not gateway.endpoint.metrics.in_flight)
        counted = recorded_calls(gateway.endpoint.metrics)
    assert counted == {("x", "CANCELLED"): 1}
    assert "Exception in ASGI application" not in caplog.text


async def test_a_tool_that_is_not_enabled_cannot_be_called_by_any_name(tmp_path: Path) -> None:
    async with sdk_server() as url:
        document = catalog("demo", url, [entry(ADD, enabled=False), "slow"])
        async with running(tmp_path, document) as gateway:
            given: Calls = [("1", "demo__add", {}), ("2", "mcp.demo.add", {}), ("3", "add", {})]
            body = {"format": "mcp", "message": MESSAGES["mcp"](given), "tools": []}
            answer = (await post(gateway, "/v1/tool-calls", body)).message
            assert [call["state"] for call in answer["calls"]] == ["unknown"] * 3
            # the name is left out, because the caller chose it
            assert recorded_calls(gateway.endpoint.metrics) == {("", "-32602"): 3}


async def test_a_message_without_calls_is_answered_with_no_messages(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:9/mcp", ["x"])) as gateway:
        answer = await post(gateway, "/v1/tool-calls", {"format": "openai", "message": {"content": "Hello"}})
        assert answer.message["messages"] == []
        assert problem(await post(gateway, "/v1/tool-calls", b'{"format":"openai"}')) == (400, "INVALID_ARGUMENTS")
