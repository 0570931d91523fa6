"""Work that is cancelled when its client disconnects, and the request that tells of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request

from fairlead_gateway.core.request import ON_DISCONNECT
from fairlead_web.bodies import while_connected


class Client:
    """A client that a test disconnects. With `told`, the server calls a function then, else the request receives it."""

    def __init__(self, *, told: bool) -> None:
        self._gone = asyncio.Event()
        self._on_disconnect: Callable[[], object] | None = None
        scope: dict[str, Any] = {"type": "http"}
        if told:
            scope[ON_DISCONNECT] = self._tell
        self.request = Request(scope, self._receive)

    def disconnect(self) -> None:
        self._gone.set()
        if self._on_disconnect is not None:
            self._on_disconnect()

    def _tell(self, on_disconnect: Callable[[], object] | None) -> None:
        self._on_disconnect = on_disconnect

    async def _receive(self) -> dict[str, str]:
        await self._gone.wait()
        return {"type": "http.disconnect"}


@pytest.fixture(params=[False, True], ids=["received", "told"])
async def client(request: pytest.FixtureRequest) -> Client:
    return Client(told=request.param)


async def test_work_of_a_connected_client_gives_its_result(client: Client) -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert await while_connected(client.request, work()) == "done"
    client.disconnect()  # now it concerns nobody
    await asyncio.sleep(0)


@pytest.mark.parametrize("error", [None, ValueError("no")], ids=["cancelled", "raises"])
async def test_a_disconnect_ends_the_work_without_a_result(client: Client, error: Exception | None) -> None:
    ended = []

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            if error is not None:
                raise error from None
            raise
        return "done"

    asyncio.get_running_loop().call_soon(client.disconnect)
    assert await while_connected(client.request, work()) is None
    assert ended == ["cancelled"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_error_of_the_work_is_raised(client: Client) -> None:
    async def work() -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await while_connected(client.request, work())


async def test_a_cancelled_request_cancels_its_work(client: Client) -> None:
    task = asyncio.ensure_future(while_connected(client.request, asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_ends_although_its_client_is_gone_leaves_no_cancellation(client: Client) -> None:
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return ""

    asyncio.get_running_loop().call_soon(client.disconnect)
    assert await while_connected(client.request, work()) == "done"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
