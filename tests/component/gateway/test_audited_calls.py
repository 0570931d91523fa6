"""Limits and the audit log on the path of a call: who is limited, what lines contain, and what they never contain."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_app.gateway import Gateway
from gatewayworld import (
    LEGACY,
    MODERN,
    Answer,
    Ask,
    Wire,
    ask,
    calling,
    catalog,
    entry,
    legacy,
    limits,
    running,
    wait_for_requests,
)
from rawserver import RawServer, Reply, Request, raw_server
from restworld import post
from toolservers import answer_modern, modern_server, tool
from waiting import eventually

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ERROR = "fairlead.dev/error"


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with modern_server([tool("add")]) as started:
        yield started


@contextlib.asynccontextmanager
async def audited(tmp_path: Path, server: RawServer, **settings: Any) -> AsyncIterator[tuple[Gateway, Path]]:
    log = tmp_path / "audit.log"
    demo = catalog("demo", server.url, ["add"])
    async with running(tmp_path, demo, audit_file=log, **{"audit": "all", **settings}) as gateway:
        yield gateway, log


def lines(log: Path) -> list[dict[str, Any]]:
    """Lines of the audit log. Call it after the gateway has stopped."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def error_of(answer: Answer) -> dict[str, Any]:
    return dict(answer.message["result"]["_meta"][ERROR])


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}])
async def test_an_agent_that_calls_too_often_is_told_when_to_come_again(
    tmp_path: Path, server: RawServer, more: dict[str, Any]
) -> None:
    async with audited(tmp_path, server, agent_calls_per_minute=2) as (gateway, log):
        answers = [await ask(gateway, calling("demo__add", {}, **more)) for _ in range(3)]
        assert [answer.message["result"].get("isError", False) for answer in answers] == [False, False, True]
        error = error_of(answers[2])
        assert error["code"] == "RATE_LIMITED"
        assert error["message"] == "The limit of 2 calls a minute for each agent is reached: retry later"
        assert 0 < error["retryAfterMs"] <= 30_000
        assert gateway.call_metrics.limited == {"agent": 1}
    assert [(line["decision"], line["outcome"], line.get("reason")) for line in lines(log)] == [
        ("allowed", "ok", None),
        ("allowed", "ok", None),
        ("limited", "RATE_LIMITED", "agent"),
    ]


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}])
async def test_calls_at_once_of_one_agent_are_bounded_and_each_end_makes_room(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    go = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        await go.wait()
        answer_modern(request, reply, [])

    async with raw_server(handle) as server, audited(tmp_path, server, agent_concurrency=2) as (gateway, _):
        wires = [await Wire.connect(gateway) for _ in range(2)]
        requests = [asyncio.ensure_future(wire.ask(calling("demo__add", {}, **more))) for wire in wires]
        await wait_for_requests(server, 2)
        assert error_of(await ask(gateway, calling("demo__add")))["code"] == "RATE_LIMITED"
        wires[0].close()
        await asyncio.wait([requests[0]])
        assert requests[0].exception() is not None
        go.set()
        await requests[1]
        await eventually(lambda: not gateway.endpoint.calls)
        for _ in range(5):
            assert not (await ask(gateway, calling("demo__add", {}, **more))).message["result"]["isError"]
        wires[1].close()


async def test_calls_of_a_models_message_are_limited_as_any_other(tmp_path: Path, server: RawServer) -> None:
    async with audited(tmp_path, server, agent_calls_per_minute=1) as (gateway, log):
        calls = [
            {"id": str(number), "type": "function", "function": {"name": name, "arguments": "{}"}}
            for number, name in enumerate(("demo__add", "demo__add", "nonesuch"))
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        body = {"format": "openai", "message": message, "strategy": "sequential", "tools": []}
        made = (await post(gateway, "/v1/tool-calls", body)).message["calls"]
        assert [(call["state"], call.get("code")) for call in made] == [
            ("done", None),
            ("refused", "RATE_LIMITED"),
            ("unknown", "UNKNOWN_TOOL"),
        ]
        assert made[1]["retryAfterMs"] > 0
    assert [(line["decision"], line["tool"], line["client"]) for line in lines(log)] == [
        ("allowed", "mcp.demo.add", "127.0.0.1"),
        ("limited", "mcp.demo.add", "127.0.0.1"),
        ("denied", "nonesuch", "127.0.0.1"),
    ]


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}])
async def test_a_tool_takes_so_many_calls_from_everybody_together_and_another_its_own(
    tmp_path: Path, server: RawServer, more: dict[str, Any]
) -> None:
    tools = [entry("add", calls_per_minute=1), entry("sub")]
    async with running(tmp_path, catalog("demo", server.url, tools)) as gateway:
        first, second = [await ask(gateway, calling("demo__add", {}, **more)) for _ in range(2)]
        assert not first.message["result"]["isError"]
        assert error_of(second)["message"] == "The limit of 1 calls a minute for the tool is reached: retry later"
        assert not (await ask(gateway, calling("demo__sub", {}, **more))).message["result"]["isError"]
        assert gateway.call_metrics.limited == {"tool": 1}


async def test_calls_per_second_of_a_server_are_a_limit_too(tmp_path: Path, server: RawServer) -> None:
    demo = catalog("demo", server.url, ["add"], limits=limits(calls_per_second=1))
    log = tmp_path / "audit.log"
    async with running(tmp_path, demo, audit_file=log) as gateway:
        answers = [await ask(gateway, calling("demo__add")) for _ in range(2)]
        assert error_of(answers[1])["code"] == "RATE_LIMITED"
        assert gateway.call_metrics.limited == {"server": 1}
    assert [line["reason"] for line in lines(log)] == ["server"]


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_line_has_the_trace_the_sizes_and_the_one_who_called(
    tmp_path: Path, server: RawServer, era: str
) -> None:
    async with audited(tmp_path, server) as (gateway, log):
        call = calling("demo__add", {"a": 1}) if era == MODERN else legacy("tools/call", {"name": "demo__add"})
        call.headers["traceparent"] = PARENT
        await ask(gateway, call)
        await ask(gateway, calling("demo__nonesuch"))
    first, second = lines(log)
    assert first["traceId"] == PARENT[3:35]
    assert (first["principal"], first["kind"], first["client"]) == ("anonymous", "anonymous", "127.0.0.1")
    assert (first["server"], first["tool"], first["method"]) == ("default/demo", "mcp.demo.add", "tools/call")
    assert first["argumentsBytes"] == (len('{"a": 1}') if era == MODERN else 0)
    assert first["resultBytes"] > 0
    assert first["durationMs"] > 0
    assert "arguments" not in first
    assert (second["decision"], second["tool"], second["outcome"]) == ("denied", "demo__nonesuch", "-32602")


async def test_denials_alone_are_written_unless_told_otherwise(tmp_path: Path, server: RawServer) -> None:
    log = tmp_path / "audit.log"
    async with running(tmp_path, catalog("demo", server.url, ["add"]), audit_file=log) as gateway:
        await ask(gateway, calling("demo__add"))
        await ask(gateway, calling("demo__nonesuch"))
    assert [line["decision"] for line in lines(log)] == ["denied"]


async def test_arguments_results_and_credentials_get_into_no_log_by_default(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = ("s3cret-argument", "s3cret-result", "s3cret-token", "s3cret-failure")

    async def handle(request: Request, reply: Reply) -> None:
        if b"s3cret-failure" in request.body:
            reply.send(500, b"oops", kind="text/plain")
        else:
            answer_modern(request, reply, [], call=lambda _: {"content": [{"type": "text", "text": secrets[1]}]})

    caplog.set_level(logging.DEBUG)
    async with raw_server(handle) as server, audited(tmp_path, server) as (gateway, log):
        for value in (secrets[0], secrets[3]):
            call = calling("demo__add", {"password": value})
            call.headers["Authorization"] = f"Bearer {secrets[2]}"
            await ask(gateway, call)
            await ask(gateway, calling("demo__nonesuch", {"password": value}))
            bad = calling("demo__add")
            bad.message["params"]["arguments"] = [value]
            await ask(gateway, bad)
            await ask(gateway, legacy("tools/call", {"name": "demo__add", "arguments": {"password": value}}))
    written = log.read_text() + caplog.text
    assert len(log.read_text().splitlines()) >= 8
    assert [secret for secret in secrets if secret in written] == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"audit_arguments": "redact"}, "FAIRLEAD_AUDIT_REDACT"),
        ({"audit_redact": ("a..b",)}, "is not a path"),
        ({"redis": "http://user:hunter2@x"}, "FAIRLEAD_REDIS"),
    ],
)
async def test_settings_that_cannot_be_used_say_so_at_the_start(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadSetting, match=words) as caught:
        async with running(tmp_path, **settings):
            pass
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}])
async def test_the_trace_of_a_request_goes_on_to_its_server(tmp_path: Path, more: dict[str, Any]) -> None:
    demo = [tool("add")]
    async with modern_server(demo) as server, running(tmp_path, catalog("demo", server.url, ["add"])) as gateway:
        call = calling("demo__add", {}, **more)
        call.headers.update({"traceparent": PARENT, "tracestate": "a=b"})
        await ask(gateway, call)
        await ask(gateway, calling("demo__add", {}, traceparent=PARENT))
        bad = calling("demo__add")
        bad.headers["traceparent"] = "nonsense"
        await ask(gateway, bad)
    first, second, third = [request for request in server.seen if b"tools/call" in request.body]
    assert first.headers["traceparent"] == PARENT
    assert first.headers["tracestate"] == "a=b"
    meta = json.loads(first.body)["params"]["_meta"]
    assert (meta["traceparent"], meta["tracestate"]) == (PARENT, "a=b")
    assert json.loads(second.body)["params"]["_meta"]["traceparent"] == PARENT
    assert "traceparent" not in third.headers
    assert b"traceparent" not in third.body


async def test_calls_of_one_agent_keep_another_waiting_for_one_of_them(tmp_path: Path) -> None:
    served: list[str] = []

    async def handle(request: Request, reply: Reply) -> None:
        served.append(request.params["arguments"]["who"])
        await next_one.wait()
        answer_modern(request, reply, [])

    def begin_call(who: str, address: str) -> asyncio.Task[None]:
        return asyncio.ensure_future(_from(gateway, address, calling("demo__add", {"who": who})))

    next_one = asyncio.Event()
    async with raw_server(handle) as server:
        demo = catalog("demo", server.url, ["add"], limits=limits(concurrency=1))
        async with running(tmp_path, demo) as gateway:
            guard = next(iter(gateway.registry.guards.values()))
            calls = [begin_call("greedy", "127.0.0.1") for _ in range(8)]
            await eventually(lambda: guard.waiting >= 7)
            calls.append(begin_call("polite", "127.0.0.2"))
            await eventually(lambda: guard.waiting >= 8)
            next_one.set()
            await asyncio.gather(*calls)
    assert served.index("polite") == 2
    assert len(served) == 9


async def _from(gateway: Gateway, address: str, call: Ask) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, local_addr=(address, 0))
    async with Wire(reader, writer, f"127.0.0.1:{gateway.port}") as wire:
        assert (await wire.ask(call)).status == 200
