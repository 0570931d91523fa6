"""`GET /v1/calls`: the last calls of a real gateway with caller and phases, and the live tail."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fixed_authenticator import Names
from gatewayworld import Answer, Ask, Wire, ask, calling, catalog, entry, limits, modern, running
from rawserver import Reply, Request, raw_server
from restworld import get, post, problem
from toolservers import answer_modern, modern_server, tool
from waiting import eventually

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
NO_BUYING = Rules(
    policies=(
        Policy(
            namespace="default",
            name="no-buying",
            every=True,
            rules=(Rule(action="Deny", tools=("buy",)), Rule(action="Allow", tools=("*",))),
        ),
    ),
)

QUERIES: dict[str, dict[str, Any]] = {
    "all": {},
    "tool": {"tool": "demo__add"},
    "id": {"tool": "mcp.demo.add"},
    "own": {"tool": "sub"},
    "server": {"server": "down"},
    "key": {"server": "default/demo"},
    "failed": {"outcome": "failed"},
    "ok": {"outcome": "ok"},
    "code": {"outcome": "-32602"},
    "agent": {"agent": "nobody"},
    "slow": {"slow": 1e9},
}


async def assert_listed(gateway: Gateway, key: str = "", **query: Any) -> Any:
    """Assert that the document lists `calls` by name. Returns the document."""
    answer = await get(gateway, f"/v1/calls?{urlencode(query)}", **({"authorization": f"Bearer {key}"} if key else {}))
    assert answer.status == 200, answer.body
    return answer.message


def names(document: Any) -> list[str]:
    return [call["name"] for call in document["calls"]]


async def get_call(gateway: Gateway, ident: str, key: str = "") -> Any:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return (await get(gateway, f"/v1/calls/{ident}", **headers)).message


async def call_tool(gateway: Gateway, name: str, arguments: Any = None, key: str = "", **headers: str) -> Answer:
    more = {"authorization": f"Bearer {key}"} if key else {}
    return await ask(gateway, calling(name, arguments).with_headers(**more, **headers))


async def test_a_call_is_listed_with_its_time_and_what_that_went_to(tmp_path: Path) -> None:
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, ["add"])) as gateway:
        await call_tool(gateway, "demo__add", {"a": 1}, traceparent=PARENT)
        (call,) = (await assert_listed(gateway))["calls"]
        whole = await get_call(gateway, call["id"])

    assert (call["method"], call["name"], call["server"]) == ("tools/call", "demo__add", "default/demo")
    assert (call["agent"], call["outcome"], call["traceId"]) == ("anonymous", "ok", TRACE)
    assert call.items() <= whole.items()
    phases = whole["phases"]
    assert [phase["phase"] for phase in phases] == ["checks", "attempt", "translation"]
    assert sum(phase["durationMs"] for phase in phases) == pytest.approx(whole["durationMs"], abs=0.01)
    assert (whole["attempts"], whole["client"], whole["argumentsBytes"]) == (1, "127.0.0.1", 8)
    assert "arguments" not in whole


async def test_a_retry_shows_the_attempt_that_failed_and_the_wait(tmp_path: Path) -> None:
    tries = 0

    async def handle(request: Request, reply: Reply) -> None:
        nonlocal tries
        tries += request.method == "tools/call"
        if tries == 1 and request.method == "tools/call":
            return reply.close()
        return answer_modern(request, reply, [tool("add")])

    async with raw_server(handle) as server:
        add = entry("add", latency=DeclaredLatency(idempotent=True))
        demo = catalog("demo", server.url, [add], limits=limits(retries=1))
        async with running(tmp_path, demo) as gateway:
            answer = await call_tool(gateway, "demo__add")
            (call,) = (await assert_listed(gateway))["calls"]
            whole = await get_call(gateway, call["id"])

    assert "isError" not in answer.message["result"] or not answer.message["result"]["isError"]
    phases = whole["phases"]
    assert [phase["phase"] for phase in phases] == ["checks", "attempt", "backoff", "attempt", "translation"]
    assert phases[1]["error"] == "ConnectionLost"
    assert whole["attempts"] == 2


async def test_a_wait_for_a_place_at_the_server_is_a_phase(tmp_path: Path) -> None:
    free = asyncio.Event()
    seen = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        if request.method == "tools/call":
            seen.set()
            await free.wait()
        return answer_modern(request, reply, [tool("add")])

    async with raw_server(handle) as server:
        demo = catalog("demo", server.url, ["add"], limits=limits(concurrency=1))
        async with running(tmp_path, demo) as gateway:
            first = asyncio.create_task(call_tool(gateway, "demo__add"))
            await seen.wait()
            second = asyncio.create_task(call_tool(gateway, "demo__add"))
            await eventually(lambda: any(guard.waiting for guard in gateway.registry.guards.values()))
            free.set()
            await asyncio.gather(first, second)
            ids = [call["id"] for call in (await assert_listed(gateway))["calls"]]
            phases = [[phase["phase"] for phase in (await get_call(gateway, ident))["phases"]] for ident in ids]

    assert sorted(phases) == [
        ["checks", "attempt", "translation"],
        ["checks", "queue", "attempt", "translation"],
    ]


async def test_a_kept_result_is_told_as_such(tmp_path: Path) -> None:
    async with modern_server() as server:
        demo = catalog("demo", server.url, [entry("add", latency=DeclaredLatency(cacheable_seconds=60))])
        async with running(tmp_path, demo) as gateway:
            for _ in range(2):
                await call_tool(gateway, "demo__add")
            newest = await get_call(gateway, (await assert_listed(gateway))["calls"][0]["id"])

    assert "cache" in [phase["phase"] for phase in newest["phases"]]
    assert newest["attempts"] == 0


async def test_filters_pages_and_values(tmp_path: Path) -> None:
    async with modern_server() as server:
        documents = (catalog("demo", server.url, ["add", "sub"]), catalog("down", "http://127.0.0.1:9/mcp", ["x"]))
        async with running(tmp_path, *documents) as gateway:
            for name in ("demo__add", "demo__sub", "down__x", "demo__add", "demo__none"):
                await call_tool(gateway, name)
            results = {label: names(await assert_listed(gateway, **query)) for label, query in QUERIES.items()}
            first = await assert_listed(gateway, limit=2)
            second = await assert_listed(gateway, limit=2, before=first["next"])
            third = await assert_listed(gateway, limit=2, before=second["next"])
            wrong = [await get(gateway, f"/v1/calls?{query}") for query in ("before=other-1", "limit=0", "tol=x")]
            bad = await get(gateway, "/v1/calls/other-1")

    assert results["all"] == ["demo__none", "demo__add", "down__x", "demo__sub", "demo__add"]
    assert results["tool"] == results["id"] == ["demo__add", "demo__add"]
    assert results["own"] == ["demo__sub"]
    assert results["server"] == ["down__x"]
    assert results["key"] == ["demo__none", "demo__add", "demo__sub", "demo__add"][1:]
    assert results["failed"] == ["demo__none", "down__x"]
    assert results["ok"] == ["demo__add", "demo__sub", "demo__add"]
    assert results["code"] == ["demo__none"]
    assert results["agent"] == results["slow"] == []
    assert [*names(first), *names(second), *names(third)] == results["all"]
    assert third["next"] is None
    assert first["kept"] == 5
    assert first["values"] == {
        "agents": ["anonymous"],
        "servers": ["default/demo", "default/down"],
        "tools": ["demo__add", "demo__none", "demo__sub", "down__x"],
        "outcomes": ["-32602", "CONNECTION_LOST", "ok"],
    }
    assert [problem(answer) for answer in wrong] == [(400, "INVALID_ARGUMENTS")] * 3
    assert problem(bad) == (404, "NOT_FOUND")


async def test_callers_see_their_own_calls_and_administrators_all(tmp_path: Path) -> None:
    trust = Trust((Names("npc", "king", "boss"),))
    async with modern_server() as server:
        demo = catalog("demo", server.url, ["add", "buy"])
        async with running(tmp_path, demo, NO_BUYING, trust=trust, admin_groups=("name:boss",)) as gateway:
            for key, name in (("npc", "demo__add"), ("king", "demo__add"), ("npc", "demo__buy")):
                await call_tool(gateway, name, key=key)
            mine = await assert_listed(gateway, key="npc")
            theirs = (await assert_listed(gateway, key="king"))["calls"][0]["id"]
            other = await get(gateway, f"/v1/calls/{theirs}", authorization="Bearer npc")
            denied = await get_call(gateway, mine["calls"][0]["id"], key="npc")
            nobody = await get(gateway, "/v1/calls")
            by_server = await assert_listed(gateway, key="npc", server="demo")
            names_of_own = [call["agent"] for call in mine["calls"]]

    assert names(mine) == ["demo__buy", "demo__add"]
    assert set(names_of_own) == {"npc"}
    assert mine["kept"] == 2
    assert mine["values"]["agents"] == ["npc"]
    assert problem(other) == (404, "NOT_FOUND")
    assert nobody.status == 401
    assert "server" not in denied
    assert "reason" not in denied
    assert names(by_server) == ["demo__add"], "a tool that one does not know of has no server"


async def test_administrators_see_all_calls_and_the_rule_that_denied_one(tmp_path: Path) -> None:
    async with modern_server() as server:
        demo = catalog("demo", server.url, ["add", "buy"])
        async with running(tmp_path, demo, NO_BUYING) as gateway:
            await call_tool(gateway, "demo__buy")
            whole = await get_call(gateway, (await assert_listed(gateway))["calls"][0]["id"])

    assert whole["server"] == "default/demo"
    assert "no-buying" in whole["reason"]
    assert (whole["name"], whole["outcome"], whole["attempts"]) == ("demo__buy", "-32602", 0)


async def test_anonymous_callers_of_a_gateway_that_knows_others_see_none(tmp_path: Path) -> None:
    trust = Trust((Names("npc"),))
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), trust=trust, anonymous="allow") as gateway,
    ):
        await call_tool(gateway, "demo__add")
        assert (await assert_listed(gateway))["kept"] == 0


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"audit": "off", "audit_arguments": "full"}, {}),
        ({"audit": "denials", "audit_arguments": "full"}, {}),
        ({"audit": "all", "audit_arguments": "none"}, {}),
        ({"audit": "all", "audit_arguments": "full"}, {"arguments": {"user": "bo", "pin": 7}}),
        (
            {"audit": "all", "audit_arguments": "redact", "audit_redact": ("pin",)},
            {"arguments": {"user": "bo", "pin": "[redacted]"}},
        ),
    ],
)
async def test_arguments_are_there_where_the_audit_log_has_them(
    tmp_path: Path, settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    log = {"audit_file": tmp_path / "audit.log", **settings}
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, ["add"]), **log) as gateway:
        await call_tool(gateway, "demo__add", {"user": "bo", "pin": 7})
        whole = await get_call(gateway, (await assert_listed(gateway))["calls"][0]["id"])

    assert {name: whole[name] for name in whole if name in ("arguments", "argumentsHash")} == expected
    assert whole["argumentsBytes"] > 0


async def test_large_arguments_are_left_out_with_a_word_and_hashes_tell_equal_ones(tmp_path: Path) -> None:
    log: dict[str, Any] = {
        "audit_file": tmp_path / "audit.log",
        "audit": "all",
        "audit_arguments": "hash",
        "audit_key": "k",
    }
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, ["add"]), **log) as gateway:
        for arguments in ({"a": 1}, {"a": 1}, {"a": "x" * 20_000}):
            await call_tool(gateway, "demo__add", arguments)
        large, *equal = [await get_call(gateway, call["id"]) for call in (await assert_listed(gateway))["calls"]]

    assert len({call["argumentsHash"] for call in equal}) == 1
    assert "argumentsHash" not in large
    assert "too large" in large["argumentsLeftOut"]


async def test_reasons_of_refusals_are_told_but_not_the_errors_of_servers(tmp_path: Path) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        if request.method == "tools/call":
            return reply.error(request, 200, -32000, "the secret is s3cret")
        return answer_modern(request, reply)

    strict = tool("strict", inputSchema={"type": "object", "properties": {"pin": {"enum": ["a"]}}})
    async with raw_server(handle) as server:
        demo = catalog("demo", server.url, [strict, "x"], limits=limits(calls_per_second=0.1))
        async with running(tmp_path, demo) as gateway:
            for name, arguments in (("demo__strict", {"pin": "s3cret"}), *([("demo__x", {})] * 3)):
                await call_tool(gateway, name, arguments)
            documents = [await get_call(gateway, call["id"]) for call in (await assert_listed(gateway))["calls"]]

    limited = documents[0]
    assert (limited["outcome"], limited["limit"]) == ("RATE_LIMITED", "server")
    assert "for the server default/demo is reached" in limited["message"]
    assert {call["outcome"] for call in documents} == {"RATE_LIMITED", "UPSTREAM_ERROR", "INVALID_ARGUMENTS"}
    assert "s3cret" not in json.dumps(documents)


async def test_calls_over_rest_and_of_the_gateways_own_tools_are_kept_too(tmp_path: Path) -> None:
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, ["add"])) as gateway:
        message = [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "demo__add"}}]
        await post(gateway, "/v1/tool-calls", {"format": "mcp", "message": message})
        await ask(gateway, calling("search_tools", {"query": "add"}).to("/router/mcp"))
        assert names(await assert_listed(gateway)) == ["search_tools", "demo__add"]


async def test_without_a_ring_there_is_nothing_to_read(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:9/mcp", ["add"]), recent_calls=0) as gateway:
        for path in ("/v1/calls", "/v1/calls/x-1", "/v1/calls/events"):
            assert problem(await get(gateway, path)) == (409, "NOT_KEPT")


class Tail:
    """One reader of the stream."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def next(self) -> Any:
        async with asyncio.timeout(20):
            while True:
                line = (await self._wire.reader.readline()).decode()
                assert line, "the stream has ended"
                if line.startswith("data: "):
                    return json.loads(line[6:])


async def open_tail(wire: Wire, target: str, **headers: str) -> Tail:
    wire.send(Ask(verb="GET", target=target, body=b"", headers=headers))
    assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    return Tail(wire)


async def test_the_tail_tells_calls_that_pass_its_filter_and_goes_on_behind_the_last(tmp_path: Path) -> None:
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, ["add", "sub"])) as gateway:
        async with await Wire.connect(gateway) as wire:
            tail = await open_tail(wire, "/v1/calls/events?tool=demo__add")
            assert (await tail.next())["type"] == "stream.opened"
            await call_tool(gateway, "demo__sub")
            await call_tool(gateway, "demo__add")
            first = await tail.next()
        assert (first["type"], names(first), first["more"], first["missed"]) == ("calls.ended", ["demo__add"], 0, False)
        await call_tool(gateway, "demo__add")
        async with await Wire.connect(gateway) as wire:
            tail = await open_tail(wire, "/v1/calls/events", **{"last-event-id": "other-1"})
            assert (await tail.next())["missed"] is True
        async with await Wire.connect(gateway) as wire:
            tail = await open_tail(wire, "/v1/calls/events", **{"last-event-id": first["id"]})
            assert (await tail.next())["missed"] is False
            assert names(await tail.next()) == ["demo__add"]


async def test_the_tail_of_a_principal_has_its_own_calls_and_ends_with_the_gateway(tmp_path: Path) -> None:
    trust = Trust((Names("npc", "king"),))
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, ["add", "sub"]), trust=trust) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        tail = await open_tail(wire, "/v1/calls/events", authorization="Bearer npc")
        await tail.next()
        await call_tool(gateway, "demo__sub", key="king")
        await call_tool(gateway, "demo__add", key="npc")
        assert names(await tail.next()) == ["demo__add"]
        await gateway.stop(5)
        assert (await wire.read_to_end(20)).endswith(b"0\r\n\r\n")


async def test_a_hostile_name_is_cut_and_told_as_it_is(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:9/mcp", ["add"])) as gateway:
        hostile = "<script>" + "\u202e" * 5000
        request = modern("tools/call", {"name": hostile, "arguments": {}})
        await ask(gateway, request.with_headers(**{"mcp-name": None}))
        document = await assert_listed(gateway)
        page = await assert_listed(gateway, tool=quote("<script>"))

    assert [len(name) <= 256 for name in names(document)] in ([], [True])
    assert page["calls"] == []
