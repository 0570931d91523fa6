"""Spans of calls that a collector gets: attributes, parents, and the trace context that the server gets."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import Definition
from fairlead_app.gateway import Gateway
from fairlead_tools.refusal import CONNECTION_LOST
from gatewayworld import Ask, ask, calling, catalog, legacy, limits, modern, running
from otlpreceiver import Receiver, attributes, otlp_receiver
from ports import free_port
from rawserver import RawServer, Reply, Request, raw_server
from toolservers import answer_modern, modern_server, tool

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT_ID = "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT_ID}-01"
UNSAMPLED = f"00-{TRACE}-{PARENT_ID}-00"
SERVER = 2
CLIENT = 3
ERROR = 2


def export_to(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)


@contextlib.asynccontextmanager
async def served(
    tmp_path: Path, starting: contextlib.AbstractAsyncContextManager[RawServer], **more: Any
) -> AsyncIterator[tuple[Gateway, RawServer]]:
    async with starting as server, running(tmp_path, catalog("demo", server.url, **more)) as gateway:
        yield gateway, server


def with_trace(call: Ask, parent: str) -> Ask:
    call.headers.update({"traceparent": parent, "tracestate": "vendor=1"})
    return call


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}])
async def test_a_call_is_a_span_of_the_caller_and_its_attempt_a_span_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    with otlp_receiver() as receiver:
        export_to(receiver, monkeypatch)
        async with served(tmp_path, modern_server([tool("add")]), tools=["add"]) as (gateway, server):
            await ask(gateway, with_trace(calling("demo__add", {"s": "s3cret"}, **more), SAMPLED))
        call, attempt = sorted(receiver.spans, key=lambda span: int(span.kind))
        assert (call.kind, attempt.kind) == (SERVER, CLIENT)
        assert call.name == attempt.name == "tools/call add"
        assert call.trace_id.hex() == attempt.trace_id.hex() == TRACE
        assert (call.parent_span_id.hex(), attempt.parent_span_id) == (PARENT_ID, call.span_id)
        named_attributes = attributes(call)
        assert named_attributes["mcp.method.name"] == "tools/call"
        assert named_attributes["gen_ai.tool.name"] == "add"
        assert named_attributes["gen_ai.operation.name"] == "execute_tool"
        assert named_attributes["mcp.protocol.version"] == "2026-07-28"
        assert named_attributes["fairlead.server"] == "default/demo"
        assert named_attributes["client.address"] == "127.0.0.1"
        assert "error.type" not in named_attributes
        assert attributes(attempt)["gen_ai.tool.name"] == "add"
        assert receiver.resources[0]["service.name"] == "fairlead-gateway"
        assert "s3cret" not in str(receiver.spans)
    request = next(each for each in server.seen if each.method == "tools/call")
    told = f"00-{TRACE}-{attempt.span_id.hex()}-01"
    assert request.headers["traceparent"] == request.params["_meta"]["traceparent"] == told
    assert request.headers["tracestate"] == request.params["_meta"]["tracestate"] == "vendor=1"


async def test_a_caller_that_did_not_sample_its_trace_gets_no_span_and_its_server_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with otlp_receiver() as receiver:
        export_to(receiver, monkeypatch)
        async with served(tmp_path, modern_server([tool("add")]), tools=["add"]) as (gateway, server):
            await ask(gateway, with_trace(calling("demo__add"), UNSAMPLED))
        assert receiver.spans == []
    told = next(each for each in server.seen if each.method == "tools/call").headers["traceparent"]
    assert told.startswith(f"00-{TRACE}-")
    assert told.endswith("-00")


async def test_each_attempt_has_a_span_of_its_own_and_a_failure_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with otlp_receiver() as receiver:
        export_to(receiver, monkeypatch)
        demo = catalog("demo", f"http://127.0.0.1:{free_port()}/mcp", ["add"], limits=limits(retries=1))
        async with running(tmp_path, demo) as gateway:
            answer = await ask(gateway, calling("demo__add"))
            assert answer.refusal == CONNECTION_LOST
        attempts = [span for span in receiver.spans if span.kind == CLIENT]
        (call,) = (span for span in receiver.spans if span.kind == SERVER)
        assert len(attempts) == 2
        assert {span.parent_span_id for span in attempts} == {call.span_id}
        assert [attributes(span)["error.type"] for span in attempts] == ["ConnectFailed"] * 2
        assert attributes(call)["error.type"] == "CONNECTION_LOST"
        assert call.status.code == ERROR
        assert call.parent_span_id == b""


async def test_a_tool_that_says_it_failed_and_a_call_that_is_refused_are_errors_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        answer_modern(request, reply, [], call=lambda _: {"content": [], "isError": True})

    with otlp_receiver() as receiver:
        export_to(receiver, monkeypatch)
        async with raw_server(handle) as server:
            demo = catalog("demo", server.url, ["add"])
            async with running(tmp_path, demo, agent_calls_per_minute=1) as gateway:
                await ask(gateway, calling("demo__add"))
                await ask(gateway, calling("demo__add"))
        calls = [span for span in receiver.spans if span.kind == SERVER]
        assert sorted(attributes(span)["error.type"] for span in calls) == ["RATE_LIMITED", "tool_error"]
        assert len([span for span in receiver.spans if span.kind == CLIENT]) == 1


async def test_prompts_have_spans_too_and_lists_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    async def handle(request: Request, reply: Reply) -> None:
        reply.result(request, {"resultType": "complete", "messages": []})

    prompt = Definition(name="hello", definition=Raw(b'{"name":"hello"}'), hash="")
    with otlp_receiver() as receiver:
        export_to(receiver, monkeypatch)
        async with served(tmp_path, raw_server(handle), prompts=(prompt,)) as (gateway, _):
            await ask(gateway, modern("tools/list"))
            got = await ask(gateway, legacy("prompts/get", {"name": "demo__hello"}))
            assert (got.status, got.message.get("error")) == (200, None)
        assert {span.name for span in receiver.spans} == {"prompts/get hello"}


def test_opentelemetry_and_redis_are_loaded_only_where_configured() -> None:
    code = (
        "import sys, fairlead_app.gateway, json;"
        "wanted = {'opentelemetry.sdk', 'opentelemetry.exporter', 'redis'};"
        "print(json.dumps(sorted(wanted & {*sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    assert json.loads(done.stdout) == []
