"""Long work that yields to the event loop at intervals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator

from fairlead_gateway.yielding import TURN, free_in_turns, in_turns


def busy() -> None:
    """Compute for longer than one turn."""
    end = time.perf_counter() + 2 * TURN
    while time.perf_counter() < end:
        pass


class Part:
    """Object whose deletion takes time."""

    def __init__(self, number: int, gone: list[int]) -> None:
        self.number = number
        self.gone = gone

    def __del__(self) -> None:
        busy()
        self.gone.append(self.number)


async def test_the_loop_has_its_turn_between_steps_that_take_long() -> None:
    taken: list[int] = []

    def steps() -> Generator[None, None, None]:
        for number in range(4):
            busy()
            taken.append(number)
            yield

    task = asyncio.create_task(in_turns(steps()))
    seen = set()
    while not task.done():
        await asyncio.sleep(0)
        seen.add(len(taken))
    assert taken == [0, 1, 2, 3]
    assert seen >= {1, 2, 3, 4}


async def test_objects_that_are_let_go_go_from_the_end_and_in_turns() -> None:
    gone: list[int] = []
    parts: list[object] = [Part(number, gone) for number in range(4)]
    task = asyncio.create_task(free_in_turns(parts))
    seen = set()
    while not task.done():
        await asyncio.sleep(0)
        seen.add(len(gone))
    assert gone == [3, 2, 1, 0]
    assert not parts
    assert seen >= {1, 2, 3, 4}
