"""Misbehaving handlers of custom tools: they block, hang, fail, or send or request too much."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from custom_tools import of, text
from fairlead_gateway import Context, tool
from gatewayworld import LEGACY, Wire, ask, calling, running


async def test_a_handler_that_blocks_holds_up_nobody_else(tmp_path: Path) -> None:
    begun = threading.Event()
    released = threading.Event()

    @tool
    def blocking() -> str:
        begun.set()
        released.wait(30)
        return "at last"

    @tool
    async def quick() -> str:
        return "here"

    async with running(tmp_path, custom=of(blocking, quick)) as gateway:
        slow = asyncio.create_task(ask(gateway, calling("blocking")))
        await asyncio.to_thread(begun.wait, 20)
        assert text(await ask(gateway, calling("quick"))) == "here"
        assert not slow.done()
        released.set()
        assert text(await slow) == "at last"


async def test_an_async_handler_that_blocks_the_loop_is_named_in_the_log_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    never = threading.Event()

    @tool
    async def blocking() -> None:
        await asyncio.sleep(0)
        never.wait(0.15)

    async with running(tmp_path, custom=of(blocking)) as gateway:
        for _ in range(2):
            await ask(gateway, calling("blocking"))
    (warning,) = [record.getMessage() for record in caplog.records if "blocked" in record.getMessage()]
    assert "custom tool blocking blocked the whole gateway" in warning


async def test_a_handler_that_takes_longer_than_its_tool_may_is_told_as_a_timeout(tmp_path: Path) -> None:
    ended = asyncio.Event()

    @tool(max_duration_ms=50)
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(tmp_path, custom=of(endless)) as gateway:
        assert (await ask(gateway, calling("endless"))).refusal == "TIMEOUT"
        await asyncio.wait_for(ended.wait(), 20)


async def test_a_handler_in_a_thread_learns_that_its_call_was_given_up(tmp_path: Path) -> None:
    learned = threading.Event()

    @tool(max_duration_ms=50)
    def patient(context: Context) -> None:
        if context.wait_cancelled(30):
            learned.set()

    async with running(tmp_path, custom=of(patient)) as gateway:
        assert (await ask(gateway, calling("patient"))).refusal == "TIMEOUT"
        assert await asyncio.to_thread(learned.wait, 20)


async def test_a_client_that_hangs_up_cancels_an_asynchronous_handler(tmp_path: Path) -> None:
    begun = asyncio.Event()
    ended = asyncio.Event()

    @tool
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(tmp_path, custom=of(endless)) as gateway:
        wire = await Wire.connect(gateway)
        wire.send(calling("endless"))
        await asyncio.wait_for(begun.wait(), 20)
        wire.close()
        await asyncio.wait_for(ended.wait(), 20)


async def test_no_more_handlers_run_at_once_than_allowed_also_after_their_calls_have_ended(tmp_path: Path) -> None:
    released = threading.Event()

    @tool(max_duration_ms=50)
    def stuck() -> None:
        released.wait(30)

    async with running(tmp_path, custom=of(stuck), upstream_connections=2) as gateway:
        try:
            for _ in range(2):
                assert (await ask(gateway, calling("stuck"))).refusal == "TIMEOUT"
            assert (await ask(gateway, calling("stuck"))).refusal == "RATE_LIMITED"
        finally:
            released.set()


async def test_progress_of_a_handler_in_a_thread_reaches_a_client_that_asked_for_it(tmp_path: Path) -> None:
    @tool
    def walking(steps: int, context: Context) -> str:
        for step in range(steps):
            context.progress(step + 1, steps, "walking")
        return "there"

    async with running(tmp_path, custom=of(walking)) as gateway:
        answer = await ask(gateway, calling("walking", {"steps": 2}, progressToken="mine"))
        *progress, result = answer.events
        assert [event["params"] for event in progress] == [
            {"progressToken": "mine", "progress": step, "total": 2, "message": "walking"} for step in (1, 2)
        ]
        assert result["result"]["content"][0]["text"] == "there"


async def test_log_messages_of_a_handler_reach_a_client_that_asked_for_their_level(tmp_path: Path) -> None:
    @tool
    async def talking(context: Context) -> str:
        context.log("debug", "unheard")
        context.log("warning", {"heard": True})
        return "said"

    async with running(tmp_path, custom=of(talking)) as gateway:
        call = calling("talking", {}, **{"io.modelcontextprotocol/logLevel": "info"})
        *messages, _ = (await ask(gateway, call)).events
        assert [message["params"] for message in messages] == [
            {"level": "warning", "logger": "talking", "data": {"heard": True}}
        ]


async def test_log_messages_of_a_handler_reach_a_legacy_client_that_declared_nothing(tmp_path: Path) -> None:
    @tool
    async def talking(context: Context) -> str:
        context.log("warning", {"heard": True})
        return "said"

    async with running(tmp_path, custom=of(talking)) as gateway:
        *messages, _ = (await ask(gateway, calling("talking", era=LEGACY))).events
        assert [message["params"]["data"] for message in messages] == [{"heard": True}]


async def test_a_result_larger_than_allowed_is_refused(tmp_path: Path) -> None:
    @tool
    def large() -> str:
        return "x" * 5000

    async with running(tmp_path, custom=of(large), max_result_bytes=4000) as gateway:
        assert (await ask(gateway, calling("large"))).refusal == "RESULT_TOO_LARGE"


async def test_a_handler_that_exits_ends_its_call_and_not_the_gateway(tmp_path: Path) -> None:
    @tool
    async def leaving() -> None:
        raise SystemExit(3)

    @tool
    def leaving_too() -> None:
        raise SystemExit(3)

    async with running(tmp_path, custom=of(leaving, leaving_too)) as gateway:
        for name in ("leaving", "leaving_too"):
            assert (await ask(gateway, calling(name))).message["result"]["isError"] is True


async def test_a_handler_that_cancels_itself_has_failed(tmp_path: Path) -> None:
    @tool
    async def cancelling() -> None:
        raise asyncio.CancelledError

    async with running(tmp_path, custom=of(cancelling)) as gateway:
        assert text(await ask(gateway, calling("cancelling"))) == "the tool canceled itself"


async def test_a_handler_that_ignores_its_cancellation_keeps_nobody_waiting(tmp_path: Path) -> None:
    released = asyncio.Event()

    @tool(max_duration_ms=50)
    async def stubborn() -> None:
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()

    async with running(tmp_path, custom=of(stubborn)) as gateway:
        try:
            assert (await ask(gateway, calling("stubborn"))).refusal == "TIMEOUT"
        finally:
            released.set()


async def test_a_function_that_returns_something_to_await_is_awaited(tmp_path: Path) -> None:
    async def later(number: int) -> int:
        return number + 1

    @tool
    def indirect(number: int) -> Any:
        return later(number)

    async with running(tmp_path, custom=of(indirect)) as gateway:
        assert text(await ask(gateway, calling("indirect", {"number": 1}))) == "2"
