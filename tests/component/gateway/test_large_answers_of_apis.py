"""Large answers of HTTP APIs, which a worker process converts to results: the results, and the effect on other
calls."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.documents.operations import Operation
from fairlead_app.gateway import Gateway
from fairlead_mcp.read_bounds import LONG_BYTES
from fairlead_offers.workers.pool import MAX_WAITING
from fairlead_openapi.calling.answers import AnswerForm, result_of
from gatewayworld import LEGACY, MODERN, Answer, Clock, Wire, ask, calling, limits, running
from petapi import OBJECT, PET, Pets, api_catalog, operation_tool, path_of, pet_api
from waiting import eventually

ERAS = (MODERN, LEGACY)
LARGE = LONG_BYTES + 1
READ = Operation(method="GET", path="/large/{id}", parameters=(path_of("id"),), structured=True)
BODIES = {
    "records": (b"[" + b'{"id": 1, "ok": true},\n' * (LARGE // 20) + b"{}]", "application/json"),
    "object": (b'{"id": 1, "x": "' + b"\\u00e9" * LARGE + b'"}', "application/json"),
    "quotes": (b'"' * LARGE, "text/plain"),
    "latin": (b"\xe9" * LARGE, "text/plain; charset=iso-8859-1"),
    "image": (b"\x89PNG\x00" * LARGE, "image/png"),
    "bytes": (b"\x00\xff" * LARGE, "application/zip"),
}
LARGE_CALL = calling("pets__large", {"id": "quotes"})
SMALL_CALL = calling("pets__getPet", {"id": "7"})


def large_api(pets: Pets) -> None:
    for name, (body, kind) in BODIES.items():
        pets.answers[f"/v1/large/{name}"] = (200, body, {"kind": kind})


def workers(gateway: Gateway) -> list[int]:
    """Process ids of idle workers."""
    pool = gateway.rest.services.results.shortening_pool
    return [] if pool is None else pool.pids


async def stop_worker(gateway: Gateway) -> int:
    """Start a worker process and suspend it. Returns its process id."""
    assert is_made(await ask(gateway, LARGE_CALL))
    (pid,) = workers(gateway)
    os.kill(pid, signal.SIGSTOP)
    return pid


def is_made(answer: Answer) -> bool:
    return "isError" not in answer.message["result"]


def refusal_text(answer: Answer) -> str:
    assert answer.refusal == "RATE_LIMITED"
    return str(answer.message["result"]["content"][0]["text"])


def is_pet(answer: Answer) -> bool:
    return bool(answer.message["result"]["structuredContent"] == PET)


@pytest.mark.parametrize("processes", [1, 0])
@pytest.mark.parametrize("era", ERAS)
async def test_the_result_of_a_large_answer_is_that_of_a_small_one(tmp_path: Path, era: str, processes: int) -> None:
    async with pet_api() as (pets, server):
        large_api(pets)
        document = api_catalog(server, operation_tool("large", READ, output=OBJECT))
        async with running(tmp_path, document, rest_processes=processes) as gateway:
            assert is_pet(await ask(gateway, calling("pets__getPet", {"id": "7"}, era=era)))
            assert workers(gateway) == [], "a small answer needs no process"
            for name, (body, kind) in BODIES.items():
                answer = await ask(gateway, calling("pets__large", {"id": name}, era=era))
                made = json.loads(bytes(result_of(AnswerForm(kind, f"/v1/large/{name}", structured=True), body)))
                given = answer.message["result"]
                assert (given["content"], given.get("structuredContent")) == (
                    made["content"],
                    made.get("structuredContent"),
                )
            assert len(workers(gateway)) == processes


async def test_a_result_beyond_the_limit_is_refused_in_the_process(tmp_path: Path) -> None:
    many = b"[" + b"1," * 1_000_001 + b"1]"
    wrapped = msgspec.structs.replace(READ, wrapped=True)
    async with pet_api() as (pets, server):
        large_api(pets)
        pets.answers["/v1/large/many"] = (200, many, {})
        document = api_catalog(
            server, operation_tool("large", wrapped), limits=limits(max_result_bytes=len(many) + 1000)
        )
        async with running(tmp_path, document) as gateway:
            pets.answers["/v1/large/twice"] = (200, b'"' * (len(many) - 1000), {"kind": "text/plain"})
            answers = [await ask(gateway, calling("pets__large", {"id": name})) for name in ("many", "twice")]
            assert is_made(await ask(gateway, LARGE_CALL))
    assert [answer.refusal for answer in answers] == ["RESULT_TOO_LARGE"] * 2
    assert "more than 1,000,000 JSON values" in answers[0].message["result"]["content"][0]["text"]


async def test_a_worker_that_cannot_be_started_fails_its_call_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pet_api() as (pets, server):
        large_api(pets)
        async with running(tmp_path, api_catalog(server, operation_tool("large", READ))) as gateway:
            with monkeypatch.context() as without:
                without.setattr(sys, "executable", str(tmp_path / "no-python"))
                message = refusal_text(await ask(gateway, LARGE_CALL))
                assert is_pet(await ask(gateway, SMALL_CALL))
            assert is_made(await ask(gateway, LARGE_CALL))
    assert message.startswith(f"the API carried out the operation and answered with {LARGE:,} bytes")
    assert "a worker process could not be started" in message


async def test_a_worker_that_was_killed_costs_no_call(tmp_path: Path) -> None:
    async with pet_api() as (pets, server):
        large_api(pets)
        async with running(tmp_path, api_catalog(server, operation_tool("large", READ))) as gateway:
            pid = await stop_worker(gateway)
            call = asyncio.create_task(ask(gateway, LARGE_CALL))
            await eventually(lambda: workers(gateway) == [])
            os.kill(pid, signal.SIGKILL)
            assert is_made(await call)
            assert workers(gateway) != [pid]


async def test_a_call_is_answered_by_its_deadline_although_its_worker_is_not_done(tmp_path: Path) -> None:
    async with pet_api() as (pets, server):
        large_api(pets)
        hasty = operation_tool("hasty", READ, latency=DeclaredLatency(max_duration_ms=1_500))
        document = api_catalog(server, operation_tool("large", READ), hasty)
        async with running(tmp_path, document) as gateway:
            pid = await stop_worker(gateway)
            message = refusal_text(await ask(gateway, calling("pets__hasty", {"id": "quotes"})))
            assert workers(gateway) == []
            assert is_pet(await ask(gateway, SMALL_CALL))
            assert is_made(await ask(gateway, LARGE_CALL))
            assert workers(gateway) != [pid], "the process of an abandoned job is ended"
            guard = gateway.registry.guard(gateway.snapshot.merged["pets__large"][0].key)
    assert "the call's deadline passed while" in message
    assert (guard.state, guard.busy) == ("closed", 0)


async def test_a_cancelled_call_leaves_its_place_at_the_worker(tmp_path: Path) -> None:
    async with pet_api() as (pets, server):
        large_api(pets)
        async with running(tmp_path, api_catalog(server, operation_tool("large", READ))) as gateway:
            await stop_worker(gateway)
            async with await Wire.connect(gateway) as wire:
                wire.send(LARGE_CALL)
                await eventually(lambda: workers(gateway) == [])
                assert gateway.endpoint.buffers.whole.arriving >= LARGE, "it counts towards the memory budget"
            await eventually(lambda: not gateway.endpoint.calls)
            assert is_made(await ask(gateway, LARGE_CALL))
            assert gateway.endpoint.buffers.whole.arriving == 0


async def test_more_large_answers_than_fit_the_queue_are_refused_one_by_one(tmp_path: Path) -> None:
    calls = MAX_WAITING + 5
    async with pet_api() as (pets, server):
        large_api(pets)
        document = api_catalog(server, operation_tool("large", READ), limits=limits(concurrency=calls))
        async with running(tmp_path, document) as gateway:
            pid = await stop_worker(gateway)
            sent = [asyncio.create_task(ask(gateway, LARGE_CALL)) for _ in range(calls)]
            await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED)
            assert is_pet(await ask(gateway, SMALL_CALL))
            os.kill(pid, signal.SIGCONT)
            answers = await asyncio.gather(*sent)
    late = [answer for answer in answers if not is_made(answer)]
    assert 1 <= len(late) <= 4
    assert all("are waiting: retry later" in refusal_text(answer) for answer in late)


async def test_the_time_at_the_worker_is_not_the_latency_of_the_tool(tmp_path: Path) -> None:
    clock = Clock()
    async with pet_api() as (pets, server):
        large_api(pets)
        document = api_catalog(server, operation_tool("large", READ))
        async with running(tmp_path, document, clock=clock) as gateway:
            pid = await stop_worker(gateway)
            call = asyncio.create_task(ask(gateway, LARGE_CALL))
            await eventually(lambda: workers(gateway) == [])
            clock.forward(20)
            os.kill(pid, signal.SIGCONT)
            assert is_made(await call)
            seen = [
                sample
                for _, samples in gateway.outbox.samples.since(0, gateway.endpoint.clock(), 0.0)
                for sample in samples
            ]
    assert len(seen) == 2
    assert all(sample.duration_ms < 20_000 for sample in seen)
