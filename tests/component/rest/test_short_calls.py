"""Short requests for tool calls do not wait for the worker thread; others do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead_app.gateway import Gateway
from gatewayworld import catalog, running
from restworld import MESSAGES, post
from toolservers import modern_server

ECHO = "demo__echo"


def calls(*names: str) -> dict[str, Any]:
    return {
        "format": "openai",
        "message": MESSAGES["openai-chat"]([(f"call_{n}", name, {}) for n, name in enumerate(names)]),
    }


@asynccontextmanager
async def busy(gateway: Gateway) -> AsyncIterator[None]:
    """While the worker thread is busy."""
    may_end, began = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        may_end.wait(30)

    working = asyncio.ensure_future(gateway.rest.services.work.do(wait))
    await asyncio.to_thread(began.wait, 30)
    try:
        yield
    finally:
        may_end.set()
        await working


async def test_calls_of_known_tools_are_answered_while_the_thread_is_busy(tmp_path: Path) -> None:
    async with (
        modern_server([{"name": "echo"}]) as server,
        running(tmp_path, catalog("demo", server.url, ["echo"])) as gateway,
    ):
        first = await post(gateway, "/v1/tool-calls", calls(ECHO))  # compiles the tools in the thread
        async with busy(gateway):
            single = await post(gateway, "/v1/tool-calls", calls(ECHO))
            eight = await post(gateway, "/v1/tool-calls", calls(*[ECHO] * 8))
            run = await post(gateway, "/v1/executions", {"name": ECHO})
    assert single.message["messages"] == first.message["messages"]
    assert [call["state"] for call in eight.message["calls"]] == ["done"] * 8
    assert run.status == 200


@pytest.mark.parametrize(
    "body",
    [
        calls("demo__ecoh"),
        calls(*[ECHO] * 17),
        calls(ECHO) | {"tools": []},
        calls(ECHO) | {"names": {"x" * 20_000: ECHO}},
    ],
    ids=["unknown", "many", "tools", "long"],
)
async def test_other_calls_are_answered_once_the_thread_has_matched_them(tmp_path: Path, body: dict[str, Any]) -> None:
    async with (
        modern_server([{"name": "echo"}]) as server,
        running(tmp_path, catalog("demo", server.url, ["echo"])) as gateway,
    ):
        await post(gateway, "/v1/tool-calls", calls(ECHO))
        async with busy(gateway):
            other = asyncio.ensure_future(post(gateway, "/v1/tool-calls", body))
            await post(gateway, "/v1/tool-calls", calls(ECHO))
            assert not other.done()
        assert (await other).status == 200
