"""Watches at servers: limited in number, and shared fairly between agents."""

from __future__ import annotations

import asyncio

from fairlead_gateway.calls.subscriptions.watches import MAX_WATCHES, WatchTasks


async def test_watches_beyond_the_bound_end_with_the_oldest_of_the_agent_with_most() -> None:
    watches = WatchTasks()
    ended = list[str]()

    async def work(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    watches.start("first", "quiet", work("quiet"), "quiet")
    for number in range(MAX_WATCHES + 1):
        watches.start(number, "greedy", work(str(number)), "greedy")
        await asyncio.sleep(0)
    assert len(watches) == MAX_WATCHES
    assert ended == ["0", "1"]
    await watches.cancel()
    assert "quiet" in ended


async def test_a_holder_has_one_task_at_a_time() -> None:
    watches = WatchTasks()
    ended = list[str]()

    async def work(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    for name in ("before", "after"):
        watches.start("holder", "agent", work(name), name)
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (len(watches), ended) == (1, ["before"])
    watches.stop("holder")
    await watches.cancel()
    assert ended == ["before", "after"]
