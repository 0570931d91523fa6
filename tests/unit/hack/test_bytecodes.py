"""Counts of executed bytecode instructions."""

from __future__ import annotations

import asyncio

from gateway.bytecodes import count_work


def add(numbers: list[int]) -> int:
    return len(numbers) + recursive()


def recursive() -> int:
    return 1


async def test_calls_and_bytecodes_are_counted_by_function() -> None:
    async def run() -> None:
        add([1])
        await asyncio.sleep(0)
        add([1])

    twice = await count_work(run, "")
    once = await count_work(lambda: asyncio.sleep(0, add([1])), "")
    name = "hack/test_bytecodes.py add"
    assert once.bytecodes[name] > 3
    assert twice.bytecodes[name] == 2 * once.bytecodes[name]
    assert twice.calls > once.calls >= 2
    assert twice.c_calls > once.c_calls >= 1


async def test_functions_of_the_harness_are_left_out() -> None:
    async def run() -> None:
        add([1])

    work = await count_work(run, __file__)
    assert work.bytecodes == {}
    assert (work.calls, work.c_calls) == (0, 0)
