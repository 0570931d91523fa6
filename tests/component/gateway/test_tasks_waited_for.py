"""Clients without support for tasks: their call waits for the task, and passes on its progress and questions."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from askers import PICKED, session_of
from fairlead_app.gateway import Gateway
from gatewayworld import LEGACY, Answer, Ask, Wire, ask, calling, legacy
from tasks_gateway import world
from taskserver import TaskServer, text_result
from waiting import eventually


async def legacy_call(gateway: Gateway, session: str, ends: Any, reply: Any = None) -> list[Any]:
    """Messages on the stream of a call of `must` with a progress token. `reply`: answer to each question."""
    request = calling("demo__must", {"ends": ends}, era=LEGACY, session=session)
    request.message["params"]["_meta"] = {"progressToken": "p"}
    messages: list[Any] = []
    async with await Wire.connect(gateway) as wire:
        wire.send(request)
        head = await wire.reader.readuntil(b"\r\n\r\n")
        if b"event-stream" not in head:
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            return [json.loads(await wire.reader.readexactly(length))]
        while not messages or "result" not in messages[-1]:
            data = (await wire.reader.readuntil(b"\n\n")).partition(b"data: ")[2].strip()
            if data:
                messages.append(json.loads(data))
                if messages[-1].get("method") == "elicitation/create":
                    answer = {"jsonrpc": "2.0", "id": messages[-1]["id"], "result": reply}
                    await ask(gateway, Ask(answer, {**legacy("x").headers, "mcp-session-id": session}))
    return messages


async def test_a_legacy_client_waits_for_a_task_with_progress(tmp_path: Path) -> None:
    server = TaskServer()
    async with world(tmp_path, server) as (gateway, _):
        session = await session_of(gateway, {})
        *progress, last = await legacy_call(gateway, session, {"result": text_result("in the end")})
        assert {event["method"] for event in progress} == {"notifications/progress"}
        assert progress[0]["params"] == {"progressToken": "p", "progress": 1, "message": "working"}
        assert last["result"] == text_result("in the end")
        assert server.declared == [False, True]


async def test_a_legacy_client_is_asked_what_a_task_asks(tmp_path: Path) -> None:
    server = TaskServer()
    async with world(tmp_path, server) as (gateway, _):
        session = await session_of(gateway, {"elicitation": {}})
        *_, last = await legacy_call(gateway, session, "asks", PICKED)
        assert last["result"]["content"][0]["text"] == str({"t1:1": PICKED})


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ({"status": "failed", "error": {"code": -32603, "message": "broken"}}, "UPSTREAM_ERROR"),
        ({"status": "cancelled"}, "UPSTREAM_ERROR"),
        ("asks", "MISSING_CLIENT_CAPABILITY"),
    ],
    ids=["it fails", "it is cancelled", "it asks a client that cannot answer"],
)
async def test_a_legacy_client_is_told_why_a_task_has_no_result(tmp_path: Path, ends: Any, code: str) -> None:
    server = TaskServer()
    async with world(tmp_path, server) as (gateway, _):
        session = await session_of(gateway, {})
        *_, last = await legacy_call(gateway, session, ends)
        assert last["result"]["_meta"]["fairlead.dev/error"]["code"] == code
        if ends == "asks":
            await eventually(lambda: server.tasks["t1"]["status"] == "cancelled")


async def test_a_legacy_client_is_told_that_the_result_of_a_task_is_too_large(tmp_path: Path) -> None:
    """The server is not asked for the result again until the time-out."""
    server = TaskServer()
    async with world(tmp_path, server, max_result_bytes=4096) as (gateway, _):
        refused = await ask(gateway, calling("demo__must", {"ends": {"result": text_result("x" * 8192)}}, era=LEGACY))
        assert refused.refusal == "RESULT_TOO_LARGE"
        assert [method for method, *_ in server.seen].count("tasks/get") == 1


async def test_a_legacy_client_that_gives_up_has_its_task_cancelled(tmp_path: Path) -> None:
    server = TaskServer(poll_ms=5)
    async with world(tmp_path, server) as (gateway, _):
        session = await session_of(gateway, {})
        waiting = asyncio.create_task(ask(gateway, calling("demo__must", {}, era=LEGACY, session=session, number=9)))
        await eventually(lambda: "t1" in server.tasks and bool(server.seen))
        await ask(gateway, legacy("notifications/cancelled", {"requestId": 9}, number=None, session=session))
        answer: Answer = await waiting
        assert answer.refusal == "CANCELLED"
        await eventually(lambda: server.tasks["t1"]["status"] == "cancelled")


async def test_the_time_of_a_call_is_that_of_the_task_a_legacy_client_waits_for(tmp_path: Path) -> None:
    server = TaskServer(poll_ms=5)
    async with world(tmp_path, server, call_timeout=0.5) as (gateway, _):
        assert (await ask(gateway, calling("demo__must", {}, era=LEGACY))).refusal == "TIMEOUT"
        await eventually(lambda: server.tasks["t1"]["status"] == "cancelled")
