"""Calls between clients and servers in all four combinations of eras, modern and legacy.

Log messages, cancellation, large results, unknown members, questions to the client.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from askers import PICKED, QUESTION, LegacyAsker, conversation, session_of
from fairlead_api.documents.catalog import ToolEntry, definition_hash
from gatewayworld import (
    LEGACY,
    META,
    MODERN,
    Ask,
    Wire,
    ask,
    calling,
    catalog,
    legacy,
    modern,
    running,
    wait_for_requests,
)
from rawserver import Reply, Request, raw_server
from waiting import eventually

ERAS = (MODERN, LEGACY)
X = {"name": "demo__x", "arguments": {}}
HELLO = {
    "protocolVersion": LEGACY,
    "capabilities": {"tools": {}, "logging": {}},
    "serverInfo": {"name": "s", "version": "1"},
}


def notice(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def message(level: str) -> dict[str, Any]:
    return notice("message", level=level, logger="l", data={"of": level})


async def answer_unless_call(request: Request, reply: Reply) -> bool:
    """Answer a message that is not a call. Returns False for calls."""
    if request.method == "initialize":
        reply.result(request, HELLO, mcp_session_id="s")
    elif request.verb == "GET":
        reply.send(405)
    elif "id" not in request.message:
        reply.send(202)
    else:
        return request.method != "tools/call"
    return True


async def logging_server(request: Request, reply: Reply) -> None:
    if await answer_unless_call(request, reply):
        return
    reply.open_stream()
    for level in ("debug", "info", "error"):
        reply.event(message(level))
    reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": {"content": [], "resultType": "complete"}})
    reply.end_stream()


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_log_messages_of_the_requested_level_or_above_reach_the_client(
    tmp_path: Path, client: str, server_era: str
) -> None:
    async with (
        raw_server(logging_server) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=server_era)) as gateway,
    ):
        if client == MODERN:
            answer = await ask(gateway, modern("tools/call", X, **{META + "logLevel": "info"}))
        else:
            session = await session_of(gateway, {})
            await ask(gateway, legacy("logging/setLevel", {"level": "info"}, session=session))
            answer = await ask(gateway, calling("demo__x", era=LEGACY, session=session))
        call = next(request for request in server.seen if request.method == "tools/call")
    assert [event["params"]["level"] for event in answer.events[:-1] if "method" in event] == ["info", "error"]
    assert answer.events[-2] == message("error"), "logger and data untouched"
    if server_era == MODERN:
        assert call.params["_meta"][META + "logLevel"] == "info", "a modern server is asked with each request"


@pytest.mark.parametrize("server_era", ERAS)
async def test_a_modern_client_that_asked_for_no_log_messages_gets_json(tmp_path: Path, server_era: str) -> None:
    async with (
        raw_server(logging_server) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=server_era)) as gateway,
    ):
        answer = await ask(gateway, calling("demo__x"))
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
@pytest.mark.parametrize("progress", [False, True], ids=["plain", "with progress"])
async def test_a_cancelled_call_is_cancelled_at_the_server_as_its_era_prescribes(
    tmp_path: Path, client: str, server_era: str, progress: bool
) -> None:
    async def never(request: Request, reply: Reply) -> None:
        if not await answer_unless_call(request, reply):
            await asyncio.Event().wait()

    params = {"name": "demo__x", "arguments": {}, **({"_meta": {"progressToken": 1}} if progress else {})}
    async with (
        raw_server(never) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=server_era)) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        session = None if client == MODERN else await session_of(gateway, {})
        if client == MODERN:
            meta: dict[str, Any] = {"progressToken": 1} if progress else {}
            wire.send(modern("tools/call", X, **meta))
        else:
            wire.send(legacy("tools/call", params, number=7, session=session))
        await wait_for_requests(server, 1 if server_era == MODERN else 3)
        if client == MODERN:
            wire.close()
        else:
            await ask(gateway, legacy("notifications/cancelled", {"requestId": 7}, number=None, session=session))
            assert (await wire.answer()).refusal == "CANCELLED"
        if server_era == MODERN:
            await asyncio.wait_for(server.broken_off.wait(), 10)
        else:
            await eventually(lambda: "notifications/cancelled" in server.methods())
            by_method = {request.method: request for request in server.seen}
            cancelled = by_method["notifications/cancelled"].params["requestId"]
            assert cancelled == by_method["tools/call"].message["id"]
        await eventually(lambda: not gateway.endpoint.calls)


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
async def test_a_result_over_a_megabyte_arrives_as_json_and_untouched(
    tmp_path: Path, client: str, server_era: str, streamed: bool
) -> None:
    text = "é" * 900_000 + "end"

    async def large(request: Request, reply: Reply) -> None:
        if await answer_unless_call(request, reply):
            return None
        result = {"content": [{"type": "text", "text": text}], "isError": False, "unknown": {"kept": [1.50, None]}}
        if server_era == MODERN:
            result["resultType"] = "complete"
        if not streamed:
            return reply.result(request, result)
        reply.open_stream()
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
        return reply.end_stream()

    async with (
        raw_server(large) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=server_era)) as gateway,
    ):
        answer = await ask(gateway, calling("demo__x", era=client))
    result = answer.message["result"]
    assert answer.headers["content-type"] == "application/json", "clients refuse events over 1 MiB"
    assert (result["content"][0]["text"], result["unknown"]) == (text, {"kept": [1.50, None]})
    assert ("resultType" in result) is (client == MODERN)


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_traces_and_unknown_members_of_a_request_pass(tmp_path: Path, client: str, server_era: str) -> None:
    async def echo(request: Request, reply: Reply) -> None:
        if not await answer_unless_call(request, reply):
            reply.result(request, {"content": [], "resultType": "complete"})

    meta = {"traceparent": "00-1-2-01", "tracestate": "a=b", "vendor.example/x": [1]}
    params = {"name": "demo__x", "arguments": {"b": 1, "a": 2.50}, "unknown": {"z": None}, "_meta": meta}
    async with (
        raw_server(echo) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=server_era)) as gateway,
    ):
        traced = legacy("tools/call", params)
        if client == MODERN:
            traced = modern("tools/call", {key: params[key] for key in ("name", "arguments", "unknown")}, **meta)
        await ask(gateway, traced)
        got = next(request for request in server.seen if request.method == "tools/call")
    assert {key: got.params["_meta"][key] for key in meta} == meta
    assert (got.params["name"], got.params["unknown"]) == ("x", {"z": None})
    assert b'"arguments":{"b": 1, "a": 2.5}' in got.body
    eras_own = [key for key in got.params["_meta"] if key.startswith(META)]
    assert bool(eras_own) is (server_era == MODERN)


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("target", ["/mcp", "/servers/default/demo/mcp"])
async def test_schemas_and_unknown_members_are_listed_byte_for_byte(tmp_path: Path, client: str, target: str) -> None:
    schema = b'{ "type":"object","$defs":{"a":{"$anchor":"b"}},\t"n":1.50e2,"\\u00e9":"\\/","x":12345678901234567890}'
    raw = b'{"name":"x","inputSchema":%b , "outputSchema":%b,"z":[ ],"_meta":{"k" :1}}' % (schema, schema)
    entry = ToolEntry(name="x", definition=Raw(raw), hash=definition_hash(raw), search_hash="")
    document = msgspec.structs.replace(catalog("demo", "http://127.0.0.1:1/mcp", []), tools=(entry,))
    async with running(tmp_path, document) as gateway:
        request = legacy("tools/list") if client == LEGACY else modern("tools/list")
        body = (await ask(gateway, request.to(target))).body
    assert body.count(schema) == 2
    assert b'"z":[ ]' in body
    assert b'"_meta":{"k" :1}' in body
    if target != "/mcp":
        assert raw in body, "at a server's own endpoint names have no prefix, so the definition is unchanged"


async def test_a_retry_with_a_state_returns_to_the_pod_that_made_it(tmp_path: Path) -> None:
    def pod(name: str) -> Any:
        async def handle(request: Request, reply: Reply) -> None:
            state = request.params.get("requestState")
            if state is None:
                questions = {"k": {"method": "elicitation/create", "params": QUESTION}}
                return reply.result(
                    request, {"resultType": "input_required", "inputRequests": questions, "requestState": name}
                )
            text = f"{state} at {name}"
            return reply.result(request, {"resultType": "complete", "content": [{"type": "text", "text": text}]})

        return handle

    async with raw_server(pod("one")) as server_a, raw_server(pod("two")) as server_b:

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", server_a.port), ("127.0.0.1", server_b.port)]

        document = catalog("demo", "http://demo.tools.svc:80/mcp", ["x"])
        async with running(tmp_path, document, resolve=resolve) as gateway:
            firsts = await asyncio.gather(*(ask(gateway, calling("demo__x")) for _ in range(8)))
            texts = []
            for first in firsts * 2:
                more = {"inputResponses": {"k": PICKED}, "requestState": first.message["result"]["requestState"]}
                retry = modern("tools/call", {"name": "demo__x", "arguments": {}, **more}, number=2)
                texts.append((await ask(gateway, retry)).message["result"]["content"][0]["text"])
    assert {*texts} <= {"one at one", "two at two"}


async def test_a_legacy_client_is_asked_in_mid_call_what_a_legacy_server_asks(tmp_path: Path) -> None:
    asker = LegacyAsker(2)
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        session = await session_of(gateway, {"elicitation": {}})
        questions, last = await conversation(gateway, session, {"result": PICKED})
    assert questions == [("elicitation/create", QUESTION)] * 2
    assert json.loads(last["result"]["content"][0]["text"]) == [PICKED] * 2


async def test_only_the_session_that_was_asked_may_answer(tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        mine = await session_of(gateway, {"elicitation": {}})
        other = await session_of(gateway, {"elicitation": {}})
        wire.send(calling("demo__x", era=LEGACY, number=7, session=mine))
        event = await wire.reader.readuntil(b"elicitation/create")
        event += await wire.reader.readuntil(b"\n\n")
        ident = json.loads(event.rpartition(b"data: ")[2])["id"]
        assert len(ident) >= 20, "nobody guesses it"
        for session, text in ((other, "theirs"), (None, "nobody's"), (mine, "mine")):
            answer = {"jsonrpc": "2.0", "id": ident, "result": {"action": "accept", "content": {"x": text}}}
            headers = {**legacy("x").headers, **({} if session is None else {"mcp-session-id": session})}
            await ask(gateway, Ask(answer, headers))
        last = await wire.reader.readuntil(b"mine")
    assert b"theirs" not in last
    assert b"nobody" not in last


@pytest.mark.parametrize("client", ERAS)
async def test_a_question_that_its_server_withdraws_is_withdrawn(tmp_path: Path, client: str) -> None:
    going_on = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        if request.method == "" or await answer_unless_call(request, reply):
            return
        reply.open_stream()
        reply.event({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": QUESTION})
        await reply.flush()
        await going_on.wait()
        reply.event(notice("cancelled", requestId="q", reason="too late"))
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": {"content": []}})
        reply.end_stream()

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        if client == LEGACY:
            wire.send(calling("demo__x", era=LEGACY, session=await session_of(gateway, {"elicitation": {}})))
            question = await wire.reader.readuntil(b"elicitation/create")
            question += await wire.reader.readuntil(b"\n\n")
            going_on.set()
            ident = json.loads(question.rpartition(b"data: ")[2])["id"]
            withdrawn = json.loads((await wire.reader.readuntil(b"}}\n\n")).rpartition(b"data: ")[2])
            assert withdrawn == notice("cancelled", requestId=ident, reason="too late")
            return
        offer: dict[str, Any] = {META + "clientCapabilities": {"elicitation": {}}}
        first = await ask(gateway, modern("tools/call", X, **offer))
        going_on.set()
        state = first.message["result"]["requestState"]
        await eventually(lambda: gateway.endpoint.context.bridge._parked_calls[state].done)
        more = {"inputResponses": {}, "requestState": state}
        last = await ask(gateway, modern("tools/call", {"name": "demo__x", "arguments": {}, **more}, **offer))
    assert last.message["result"]["resultType"] == "complete"
