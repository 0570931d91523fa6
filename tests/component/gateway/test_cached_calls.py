"""Results that answer equal calls, on the real path of a call."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from askers import QUESTION, LegacyAsker, conversation, session_of
from fairlead_api.documents.catalog import CredentialRef, DeclaredLatency
from gatewayworld import (
    LEGACY,
    MODERN,
    Answer,
    Wire,
    ask,
    calling,
    catalog,
    entry,
    publish,
    running,
    scrape,
    wait_for_requests,
    wait_for_snapshots,
)
from rawserver import Reply, Request, raw_server
from taskserver import CAPABILITIES, TaskServer
from toolservers import answer_modern, modern_server
from waiting import eventually

ERAS = (MODERN, LEGACY)
CACHE = "fairlead.dev/cache"


def cacheable(name: str = "x", seconds: int = 60, **more: Any) -> Any:
    definition = {"name": name, "inputSchema": {"type": "object"}, **more}
    return entry(definition, latency=DeclaredLatency(cacheable_seconds=seconds))


def from_cache(answer: Answer) -> bool:
    result = answer.message["result"]
    assert not result.get("isError", False)
    return CACHE in result.get("_meta", {})


@pytest.mark.parametrize("first", ERAS)
@pytest.mark.parametrize("second", ERAS)
async def test_an_equal_call_is_answered_without_the_server_in_either_era(
    tmp_path: Path, first: str, second: str
) -> None:
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, [cacheable()])) as gateway:
        made = await ask(gateway, calling("demo__x", {"a": 1, "b": 2}, era=first))
        again = await ask(gateway, calling("demo__x", {"b": 2, "a": 1}, era=second, number=7))
        assert (from_cache(made), from_cache(again)) == (False, True)
        assert again.message["id"] == 7
        assert again.message["result"]["content"] == made.message["result"]["content"]
        assert ("resultType" in again.message["result"]) is (second == MODERN)
        assert again.message["result"]["_meta"][CACHE]["ageMs"] >= 0
        assert len(server.seen) == 1
        assert not from_cache(await ask(gateway, calling("demo__x", {"a": 2}, era=second)))
        assert len(server.seen) == 2


async def test_without_seconds_to_be_kept_for_every_call_is_made(tmp_path: Path) -> None:
    tools = [cacheable(seconds=0), "y"]
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, tools)) as gateway:
        for name in ("demo__x", "demo__x", "demo__y", "demo__y"):
            assert not from_cache(await ask(gateway, calling(name)))
        assert len(server.seen) == 4


async def test_the_cache_can_be_turned_off(tmp_path: Path) -> None:
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, [cacheable()]), result_cache_bytes=0) as gateway,
    ):
        for _ in range(2):
            assert not from_cache(await ask(gateway, calling("demo__x")))
        assert len(server.seen) == 2


@pytest.mark.parametrize("how", ["tool", "rpc", "lost"])
async def test_errors_are_not_kept(tmp_path: Path, how: str) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        if len(server.seen) > 1:
            answer_modern(request, reply, [])
        elif how == "tool":
            reply.result(request, {"content": [], "isError": True})
        elif how == "rpc":
            reply.error(request, 200, -32603, "oops")
        else:
            reply.close()

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, [cacheable()])) as gateway,
    ):
        assert (await ask(gateway, calling("demo__x"))).message["result"]["isError"] is True
        assert not from_cache(await ask(gateway, calling("demo__x")))
        assert from_cache(await ask(gateway, calling("demo__x")))


async def test_a_request_for_input_is_not_kept_nor_is_what_its_retry_came_to(tmp_path: Path) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        if "inputResponses" in request.params:
            return answer_modern(request, reply, [])
        questions = {"k": {"method": "roots/list"}}
        return reply.result(request, {"resultType": "input_required", "inputRequests": questions, "requestState": "s"})

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, [cacheable()])) as gateway,
    ):
        for _ in range(2):
            inquiry = (await ask(gateway, calling("demo__x"))).message["result"]
            assert inquiry["resultType"] == "input_required"
            retry = calling("demo__x")
            retry.message["params"] |= {"inputResponses": {"k": {"roots": []}}, "requestState": inquiry["requestState"]}
            assert not from_cache(await ask(gateway, retry))
        assert len(server.seen) == 4


class ModernAsker:
    """A modern server whose tool asks the client by its result, and returns the client's answer."""

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.method == "initialize":
            return reply.error(request, 404, -32601, "Method not found")
        if "inputResponses" in request.params:
            content = [{"type": "text", "text": json.dumps(request.params["inputResponses"]["k"])}]
            return reply.result(request, {"resultType": "complete", "content": content})
        questions = {"k": {"method": "elicitation/create", "params": QUESTION}}
        return reply.result(request, {"resultType": "input_required", "inputRequests": questions, "requestState": "s"})


@pytest.mark.parametrize(
    ("asker", "era", "tool", "arguments"),
    [
        (LegacyAsker, LEGACY, "x", {}),
        (ModernAsker, MODERN, "x", {}),
        (TaskServer, MODERN, "must", {"ends": "asks"}),
    ],
    ids=["in mid-call", "by a result", "by a task"],
)
async def test_a_result_after_a_question_to_its_client_is_not_cached(
    tmp_path: Path, asker: Any, era: str, tool: str, arguments: Any
) -> None:
    """Equal calls of legacy clients, one after the other and at once: each asks its own client."""
    async with (
        raw_server(asker().handle) as server,
        running(
            tmp_path, catalog("demo", server.url, [cacheable(tool)], version=era, capabilities=Raw(CAPABILITIES))
        ) as gateway,
    ):

        async def call_with_answer(word: str) -> tuple[int, str]:
            session = await session_of(gateway, {"elicitation": {}})
            answer = {"action": "accept", "content": {"x": word}}
            call = {"name": f"demo__{tool}", "arguments": arguments}
            questions, last = await conversation(gateway, session, {"result": answer}, call=call)
            return len(questions), last["result"]["content"][0]["text"]

        words = ["mine", "yours"]
        alone = [await call_with_answer(word) for word in words]
        beside = await asyncio.gather(*(call_with_answer(word) for word in words))
        for word, (questions, text) in zip(words * 2, alone + beside, strict=True):
            assert questions == 1
            assert word in text


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_with_progress_is_answered_by_what_was_kept_and_the_other_way_round(
    tmp_path: Path, era: str
) -> None:
    """A progress token is not part of the cache key and does not change the result."""
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, [cacheable()])) as gateway:
        calls = [calling("demo__x", era=era) for _ in range(3)]
        for call, token in zip(calls, ("p", "q"), strict=False):
            call.message["params"].setdefault("_meta", {})["progressToken"] = token
        answers = [await ask(gateway, call) for call in calls]
        assert [from_cache(answer) for answer in answers] == [False, True, True]
        assert len(server.seen) == 1


async def test_another_principal_and_another_definition_get_their_own(tmp_path: Path) -> None:
    (tmp_path / "credentials").mkdir()
    for name in ("s1", "s2"):
        (tmp_path / "credentials" / f"{name}.json").write_text(
            json.dumps({"headers": {"Authorization": f"Bearer {name}"}})
        )
    async with modern_server() as server:

        def document(secret: str, **more: Any) -> Any:
            ref = CredentialRef(secret=secret, key="k", hash="1")
            return catalog("demo", server.url, [cacheable(**more)], credential=ref)

        async with running(tmp_path, document("s1")) as gateway:
            await ask(gateway, calling("demo__x"))
            assert from_cache(await ask(gateway, calling("demo__x")))
            publish(tmp_path / "documents", document("s2"))
            await wait_for_snapshots(gateway, gateway.snapshots.swaps + 1)
            assert not from_cache(await ask(gateway, calling("demo__x")))
            assert server.seen[-1].headers["authorization"] == "Bearer s2"
            publish(tmp_path / "documents", document("s2", description="another"))
            await wait_for_snapshots(gateway, gateway.snapshots.swaps + 1)
            assert not from_cache(await ask(gateway, calling("demo__x")))
            assert from_cache(await ask(gateway, calling("demo__x")))


async def test_equal_calls_at_once_are_made_once(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        await go.wait()
        answer_modern(request, reply, [])

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, [cacheable()])) as gateway,
    ):
        wires = [await Wire.connect(gateway) for _ in range(5)]
        requests = [asyncio.ensure_future(wire.ask(calling("demo__x"))) for wire in wires]
        await wait_for_requests(server, 1)
        await eventually(lambda: len(gateway.endpoint.calls) >= 5)
        wires[4].close()  # one of the waiting clients disconnects
        go.set()
        answers = await asyncio.gather(*requests[:4])
        assert sorted(from_cache(answer) for answer in answers) == [False, True, True, True]
        assert len(server.seen) == 1
        requests[4].cancel()
        await asyncio.gather(requests[4], return_exceptions=True)
        for wire in wires:
            wire.close()


async def test_the_client_that_leads_may_go_and_the_next_makes_the_call(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        if len(server.seen) == 1:
            await asyncio.Event().wait()
        await go.wait()
        answer_modern(request, reply, [])

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, [cacheable()])) as gateway,
    ):
        leader = await Wire.connect(gateway)
        leader.send(calling("demo__x"))
        await wait_for_requests(server, 1)
        others = [await Wire.connect(gateway) for _ in range(3)]
        requests = [asyncio.ensure_future(wire.ask(calling("demo__x"))) for wire in others]
        await eventually(lambda: len(gateway.endpoint.calls) >= 4)
        leader.close()
        await wait_for_requests(server, 2)
        go.set()
        assert sorted(from_cache(answer) for answer in await asyncio.gather(*requests)) == [False, True, True]
        assert len(server.seen) == 2
        for wire in others:
            wire.close()


async def test_the_result_cache_counts_hits_misses_and_entries(tmp_path: Path) -> None:
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, [cacheable()])) as gateway:
        for _ in range(3):
            await ask(gateway, calling("demo__x"))
        seen = await scrape(gateway)
        assert "fairlead_result_cache_hits_total 2.0" in seen
        assert "fairlead_result_cache_misses_total 1.0" in seen
        assert "fairlead_result_cache_entries 1.0" in seen
