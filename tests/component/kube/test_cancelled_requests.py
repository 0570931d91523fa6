"""A cancelled request raises CancelledError, also if it times out at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from kubernetes.aio.client import Configuration

from fairlead_kube.client import READ_TIMEOUT, Kube
from fairlead_kube.resources import CONFIG_MAPS
from rawserver import Reply, Request, raw_server


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[Kube, asyncio.Event]]:
    """A client of an API server that never answers, and an event for its first request."""
    requested = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        requested.set()
        await asyncio.Event().wait()

    async with raw_server(handle) as server:
        kube = Kube.connect(Configuration(host=f"http://127.0.0.1:{server.port}"))
        try:
            yield kube, requested
        finally:
            await kube.aclose()


@pytest.mark.parametrize(
    "verb",
    [lambda kube: kube.get(CONFIG_MAPS, "team", "a"), lambda kube: kube.create(CONFIG_MAPS, "team", {})],
    ids=["read", "write"],
)
async def test_a_cancellation_that_meets_the_end_of_a_requests_time_is_not_lost(
    verb: Callable[[Kube], Awaitable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the cancellation were lost, a task of a former leader would continue, and the operator would never end."""
    loop = asyncio.get_running_loop()
    late = 0.0
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + late)
    async with silent() as (kube, requested):
        task = asyncio.ensure_future(verb(kube))
        await requested.wait()
        # as after a suspension of the process, when all timers expire in one iteration of the loop
        late = READ_TIMEOUT + 2.0
        loop.call_later(0.0, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
