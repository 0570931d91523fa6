"""Servers that ask their client a question during a call, in each combination of eras; and calls of several rounds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from askers import PICKED, QUESTION, LegacyAsker, conversation, session_of, text_result
from fairlead_gateway.upstream.http import HttpUpstream
from gatewayworld import (
    LEGACY,
    META,
    MODERN,
    Answer,
    Ask,
    Wire,
    ask,
    calling,
    catalog,
    limits,
    modern,
    running,
    wait_for_requests,
)
from rawserver import Reply, Request, raw_server
from waiting import eventually

OFFER: dict[str, Any] = {META + "clientCapabilities": {"elicitation": {"form": {}}}}


def next_round(first: Answer, params: dict[str, Any], responses: Any = None, *, number: int = 2, **meta: Any) -> Ask:
    """Request for the next round of a call."""
    result = first.message["result"]
    if responses is None:
        responses = dict.fromkeys(result["inputRequests"], PICKED)
    more = {"inputResponses": responses, "requestState": result["requestState"]}
    return modern("tools/call", {**params, **more}, number=number, **OFFER, **meta)


X = {"name": "demo__x", "arguments": {}}


@pytest.mark.parametrize("rounds", [1, 3])
async def test_a_modern_client_is_asked_by_results_what_a_legacy_server_asks_in_mid_call(
    tmp_path: Path, rounds: int
) -> None:
    asker = LegacyAsker(rounds)
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        answer = await ask(gateway, modern("tools/call", X, **OFFER))
        for number in range(rounds):
            result = answer.message["result"]
            assert result["resultType"] == "input_required"
            assert [*result["inputRequests"].values()] == [{"method": "elicitation/create", "params": QUESTION}]
            answer = await ask(gateway, next_round(answer, X, number=number + 2))
    result = answer.message["result"]
    assert (result["resultType"], answer.message["id"]) == ("complete", rounds + 1)
    assert json.loads(result["content"][0]["text"]) == [PICKED] * rounds
    assert asker.declared == [{"elicitation": {"form": {}}}]
    assert server.methods().count("tools/call") == 1


async def test_calls_one_after_the_other_share_a_session_and_calls_at_once_do_not(tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        for _ in range(2):
            await ask(gateway, next_round(await ask(gateway, modern("tools/call", X, **OFFER)), X))
        assert asker.sessions == 1
        first = [await ask(gateway, modern("tools/call", X, **OFFER)) for _ in range(2)]
        assert asker.sessions == 2
        states = [answer.message["result"]["requestState"] for answer in first]
        answers = [await ask(gateway, next_round(answer, X)) for answer in reversed(first)]
    assert len({*states}) == 2
    assert all(answer.message["result"]["resultType"] == "complete" for answer in answers)


async def test_a_session_whose_call_waits_for_its_client_makes_no_room_for_others(tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, demo := catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        upstream = gateway.registry.upstream(demo.key)
        assert isinstance(upstream, HttpUpstream)
        upstream.sessions.max_sessions = 2
        firsts = [await ask(gateway, modern("tools/call", X, **OFFER)) for _ in range(4)]
        assert asker.sessions == 4
        assert "DELETE" not in {request.verb for request in server.seen}
        answers = [await ask(gateway, next_round(first, X)) for first in firsts]
    assert [answer.message["result"]["resultType"] for answer in answers] == ["complete"] * 4


async def test_calls_that_wait_for_their_clients_end_with_the_gateway(tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with raw_server(asker.handle) as server:
        async with running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway:
            await ask(gateway, modern("tools/call", X, **OFFER))
            [call] = gateway.endpoint.context.bridge._parked_calls.values()
            assert not call.done
        assert call.done


async def test_a_question_that_is_left_out_is_asked_again(tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        first = await ask(gateway, modern("tools/call", X, **OFFER))
        second = await ask(gateway, next_round(first, X, {}))
        assert second.message["result"]["inputRequests"] == first.message["result"]["inputRequests"]
        last = await ask(gateway, next_round(second, X))
    assert last.message["result"]["resultType"] == "complete"


async def test_progress_of_a_later_round_comes_with_that_rounds_token(tmp_path: Path) -> None:
    asker = LegacyAsker(progress=True)
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        first = await ask(gateway, modern("tools/call", X, **OFFER, progressToken="first"))
        last = await ask(gateway, next_round(first, X, progressToken="second"))
    progress, result = last.events
    assert progress["params"] == {"progressToken": "second", "progress": 0}
    assert result["result"]["resultType"] == "complete"


@pytest.mark.parametrize("spoiled", ["state", "tool", "twice"])
async def test_a_state_belongs_to_one_call_and_is_used_once(tmp_path: Path, spoiled: str) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x", "y"], version=LEGACY)) as gateway,
    ):
        first = await ask(gateway, modern("tools/call", X, **OFFER))
        if spoiled == "twice":
            await ask(gateway, next_round(first, X))
        if spoiled == "state":
            first.message["result"]["requestState"] += "x"
        params = {**X, "name": "demo__y"} if spoiled == "tool" else X
        second = next_round(first, params)
        if spoiled == "state":
            second.message["params"]["requestState"] += "x"
        answer = await ask(gateway, second)
    assert (answer.status, answer.code) == (400, -32602)


async def test_a_client_that_goes_away_while_its_answers_are_worked_on_cancels_the_call(tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        first = await ask(gateway, modern("tools/call", X, **OFFER))
        asker.going_on.clear()
        call = server.seen[-1]
        async with await Wire.connect(gateway) as wire:
            wire.send(next_round(first, X))
            await eventually(lambda: all(future.done() for future in asker.answers.values()))
        await eventually(lambda: asker.cancelled)
    assert asker.cancelled == [call.message["id"]]


async def test_a_modern_client_that_offers_nothing_is_not_asked(tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        answer = await ask(gateway, calling("demo__x"))
    refused = json.loads(answer.message["result"]["content"][0]["text"])
    assert [error["code"] for error in refused] == [-32601]
    assert asker.declared == [{}]


# Modern servers


class ModernAsker:
    """A server that supports only 2026-07-28, and whose tool asks in its result `rounds` times."""

    def __init__(self, rounds: int = 1, method: str = "elicitation/create") -> None:
        self.rounds = rounds
        self.method = method
        self.declared: list[Any] = []
        self.calls: list[dict[str, Any]] = []

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.method != "tools/call":
            return reply.error(request, 404, -32601, "Method not found")
        params = request.params
        self.calls.append(params)
        self.declared.append(params["_meta"][META + "clientCapabilities"])
        done = int(params.get("requestState", "0"))
        if done < self.rounds:
            questions = {f"k{done}": {"method": self.method, "params": QUESTION}}
            result = {"resultType": "input_required", "inputRequests": questions, "requestState": str(done + 1)}
            return reply.result(request, result)
        return reply.result(
            request, {"resultType": "complete", **text_result(json.dumps(params.get("inputResponses")))}
        )


@pytest.mark.parametrize("rounds", [1, 3])
async def test_a_legacy_client_is_asked_in_mid_call_what_a_modern_server_asks_by_results(
    tmp_path: Path, rounds: int
) -> None:
    asker = ModernAsker(rounds)
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=MODERN)) as gateway,
    ):
        session = await session_of(gateway, {"elicitation": {}})
        questions, last = await conversation(gateway, session, {"result": PICKED})
    assert questions == [("elicitation/create", QUESTION)] * rounds
    assert json.loads(last["result"]["content"][0]["text"]) == {f"k{rounds - 1}": PICKED}
    assert "resultType" not in last["result"]
    assert [call.get("requestState") for call in asker.calls] == [None, *map(str, range(1, rounds + 1))]
    assert asker.declared[0] == {"elicitation": {}}


async def test_a_legacy_client_that_refuses_ends_the_call_readably(tmp_path: Path) -> None:
    asker = ModernAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=MODERN)) as gateway,
    ):
        session = await session_of(gateway, {"elicitation": {}})
        _, last = await conversation(gateway, session, {"error": {"code": -1, "message": "not now"}})
    assert last["result"]["isError"] is True
    assert "not now" in last["result"]["content"][0]["text"]


async def test_a_legacy_client_is_not_asked_for_what_it_does_not_offer(tmp_path: Path) -> None:
    asker = ModernAsker(method="sampling/createMessage")
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=MODERN)) as gateway,
    ):
        session = await session_of(gateway, {"elicitation": {}})
        questions, last = await conversation(gateway, session, {"result": PICKED})
    assert questions == []
    assert "sampling/createMessage" in last["result"]["content"][0]["text"]


async def test_a_server_that_asks_without_end_is_stopped(tmp_path: Path) -> None:
    asker = ModernAsker(rounds=10_000)
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=MODERN)) as gateway,
    ):
        session = await session_of(gateway, {"elicitation": {}})
        questions, last = await conversation(gateway, session, {"result": PICKED})
    assert len(questions) == 16
    assert last["result"]["isError"] is True


async def test_each_round_of_a_call_waits_for_a_place_at_its_server_and_none_is_held_meanwhile(tmp_path: Path) -> None:
    asker = ModernAsker()
    most = 0
    now = 0
    release = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        if request.params.get("arguments", {}).get("long"):
            await release.wait()
        await asyncio.sleep(0.02)
        now -= 1
        await asker.handle(request, reply)

    async with raw_server(handle) as server:
        demo = catalog("demo", server.url, ["x"], version=MODERN, limits=limits(concurrency=1))
        async with running(tmp_path, demo) as gateway, await Wire.connect(gateway) as other:
            session = await session_of(gateway, {"elicitation": {}})

            async def between() -> None:
                """Let another client's call run while the client thinks."""
                other.send(calling("demo__x", {"long": True}))
                await wait_for_requests(server, 3)  # the refused handshake, the first round, this call
                asyncio.get_running_loop().call_later(0.3, release.set)

            _, last = await conversation(gateway, session, {"result": PICKED}, between)
            assert (await other.answer()).message["result"]["resultType"] == "input_required"
    assert json.loads(last["result"]["content"][0]["text"]) == {"k0": PICKED}
    assert most == 1
