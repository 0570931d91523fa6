"""Fair turns of work: an agent that fills its queue delays others by one piece, and none of their work is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.fair_rotation import WORKS_FOR, FairTurns
from fairlead_gateway.limits.shares import ShareTaken


class Works:
    """Pieces of work that the test ends."""

    def __init__(self, places: int, most: int) -> None:
        self.counts = ShareCounts()
        self.turns = FairTurns(places, most, self.counts)
        self.began: list[str] = []
        self.done = asyncio.Semaphore(0)

    def start(self, agent: str, count: int = 1, *, patient: bool = False) -> list[asyncio.Task[str]]:
        return [asyncio.create_task(self._piece(agent, patient=patient)) for _ in range(count)]

    async def _piece(self, agent: str, *, patient: bool) -> str:
        WORKS_FOR.set(agent)
        try:
            async with self.turns.turn(patient=patient):
                self.began.append(agent)
                await self.done.acquire()
        except ShareTaken as reached:
            return reached.bound
        return ""

    def finish(self, count: int) -> None:
        for _ in range(count):
            self.done.release()


async def quiet(times: int = 20) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def within(seconds: float) -> Callable[[Awaitable[Any]], Awaitable[Any]]:
    async def with_timeout(work: Awaitable[Any]) -> Any:
        async with asyncio.timeout(seconds):
            return await work

    return with_timeout


async def test_an_agent_with_hundreds_of_pieces_delays_another_by_one() -> None:
    works = Works(1, 1000)
    crowd = works.start("mallory", 500)
    await quiet()
    alice = works.start("alice", 2)
    await quiet()
    works.finish(5)
    assert await within(5)(asyncio.gather(*alice)) == ["", ""]
    assert works.began[:5] == ["mallory", "mallory", "alice", "mallory", "alice"]
    works.finish(500)
    assert set(await within(5)(asyncio.gather(*crowd))) == {""}


async def test_a_full_queue_drops_the_last_piece_of_the_agent_with_most() -> None:
    works = Works(1, 4)
    crowd = works.start("mallory", 8)
    await quiet()
    assert sorted(task.result() for task in crowd if task.done()) == ["agent"] * 3
    alice = works.start("alice", 3)
    await quiet()
    assert [task.done() for task in alice] == [False, False, True], "they have no more than half of it"
    works.finish(99)
    assert await within(5)(asyncio.gather(*alice)) == ["", "", "agent"]
    assert sorted(await within(5)(asyncio.gather(*crowd))) == [""] * 3 + ["agent"] * 5
    assert (works.counts.outcomes["work", "agent"], works.counts.outcomes["work", "gave_way"]) == (4, 2)


async def test_patient_work_is_never_refused_and_gets_every_second_turn() -> None:
    works = Works(1, 2)
    works.start("", 1)
    await quiet()
    waiting = works.start("hasty", 2) + works.start("patient", 6, patient=True)
    await quiet()
    works.finish(99)
    assert set(await within(5)(asyncio.gather(*waiting))) == {""}
    assert works.began == ["", "patient", "hasty", "patient", "hasty", *["patient"] * 4]


async def test_a_turn_of_work_that_is_cancelled_is_passed_on() -> None:
    works = Works(1, 9)
    [first, *crowd] = works.start("mallory", 4)
    await quiet()
    crowd[0].cancel()
    works.finish(1)
    await within(5)(first)
    await quiet()
    crowd[1].cancel()
    await quiet()
    works.finish(1)
    assert await within(5)(crowd[2]) == ""
    works.finish(1)
    [last] = works.start("mallory")
    assert await within(5)(last) == ""
    assert (works.turns.waiting, len(works.began)) == (0, 4)


async def test_work_that_is_cancelled_as_its_turn_comes_passes_it_on() -> None:
    works = Works(1, 9)
    async with works.turns.turn():
        [first, second] = works.start("mallory", 2)
        await quiet()
    first.cancel()  # its turn has come, but it has not run yet
    works.finish(1)
    assert await within(5)(second) == ""
    assert first.cancelled()
