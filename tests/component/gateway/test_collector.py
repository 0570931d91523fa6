"""The garbage collector of a gateway's process: frozen after each swap, thawed when idle, never in the way of calls."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path

import pytest

from fairlead_gateway.heap import CHECK_SECONDS, MAX_CREATED_OBJECTS, THAW_SECONDS, THRESHOLDS, Heap
from gateway.bench_path import CONNECTIONS, Loop
from gateway.bench_path import running as running_without_sockets
from gatewayworld import catalog, publish, running, scrape, wait_for_snapshots
from waiting import eventually

TOOLS_OF_A_SERVER = 100
"""Number of tools of each of the 100 servers, so 10,000 in all."""
CALLS = 10_000


class Cycle:
    """An object that only the garbage collector can free."""

    def __init__(self) -> None:
        self.itself = self


class Hands:
    """Time and processor time for a heap, in seconds, which the test advances."""

    def __init__(self) -> None:
        self.now = self.used = 0.0

    def forward(self, seconds: float, *, busy: float = 0.0) -> None:
        """Let `seconds` pass, with the share `busy` of a core in use."""
        self.now += seconds
        self.used += busy * seconds

    def heap(self) -> Heap:
        return Heap(clock=lambda: self.now, cpu_seconds=lambda: self.used)


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


@pytest.mark.timeout(240)  # 10,000 tools on a loaded machine
def test_ten_thousand_calls_of_any_client_make_no_full_collection_beside_ten_thousand_tools(tmp_path: Path) -> None:
    async def count_collections(loop: Loop) -> dict[tuple[str, str], int]:
        collections = {}
        async with running_without_sockets(tmp_path / "documents", loop, TOOLS_OF_A_SERVER) as (world, cases):
            for case, requests in cases.items():
                await world.settle(requests)
                before = full_collections()
                for _ in range(CALLS // CONNECTIONS):
                    await world.once(requests)
                world.check(requests)
                collections[case] = full_collections() - before
        return collections

    loop = Loop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        by_case = runner.run(count_collections(loop))

    assert ("progress token", "modern") in by_case
    assert ("capabilities declared", "legacy") in by_case
    assert by_case == dict.fromkeys(by_case, 0)


async def test_a_selection_is_frozen_after_its_swap_and_freed_by_the_next(tmp_path: Path) -> None:
    nudge = asyncio.Event()
    demo = catalog("demo", "http://127.0.0.1:1/mcp", ["one"])
    async with running(tmp_path, demo, nudge=nudge, heap=Heap()) as gateway:
        assert not any(thing is gateway.endpoint.selection for thing in gc.get_objects())
        first = weakref.ref(gateway.endpoint.selection)
        publish(tmp_path / "documents", catalog("demo", "http://127.0.0.1:1/mcp", ["two"]))
        nudge.set()
        await wait_for_snapshots(gateway, 2)
        assert not any(thing is gateway.endpoint.selection for thing in gc.get_objects())
        before = full_collections()
        await eventually(lambda: first() is None)
        assert full_collections() == before
        assert "fairlead_gc_full_collection_seconds_total" in await scrape(gateway)


async def test_the_collector_is_as_it_was_after_the_gateway_has_stopped(tmp_path: Path) -> None:
    gc.unfreeze()  # unfreezes the objects that were frozen after the collection of tests
    before = gc.get_threshold(), gc.get_freeze_count(), len(gc.callbacks)
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:1/mcp", ["one"]), heap=Heap()):
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), gc.get_freeze_count(), len(gc.callbacks)) == before


async def test_a_program_that_runs_a_gateway_keeps_its_own_collector(tmp_path: Path) -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:1/mcp", ["one"])):
        assert (gc.get_threshold(), gc.get_freeze_count()) == before
        assert gc.isenabled()


async def test_a_cycle_that_ends_after_it_was_frozen_is_collected_in_an_idle_moment() -> None:
    hands = Hands()
    heap = hands.heap()
    heap.start()
    try:
        with heap.pause_collection():
            cycle = Cycle()
        left = weakref.ref(cycle)
        del cycle
        gc.collect()
        assert left() is not None
        hands.forward(THAW_SECONDS, busy=0.5)
        heap.check()
        assert left() is not None
        hands.forward(CHECK_SECONDS)
        heap.check()
        assert left() is None
        assert heap.full_seconds > 0
    finally:
        await heap.stop()


async def test_a_process_that_is_never_idle_thaws_after_many_objects_were_made_in_swaps() -> None:
    hands = Hands()
    heap = hands.heap()
    heap.start()
    try:
        with heap.pause_collection():
            cycle = Cycle()
            _ = [[] for _ in range(MAX_CREATED_OBJECTS)]
        left = weakref.ref(cycle)
        del cycle
        hands.forward(THAW_SECONDS / 2, busy=1.0)
        heap.check()
        assert left() is not None
        hands.forward(THAW_SECONDS / 2, busy=1.0)
        heap.check()
        assert left() is None
    finally:
        await heap.stop()


async def test_an_idle_process_in_which_nothing_was_made_is_not_disturbed() -> None:
    hands = Hands()
    heap = hands.heap()
    heap.start()
    try:
        before = full_collections()
        for _ in range(3):
            hands.forward(THAW_SECONDS)
            heap.check()
        assert full_collections() == before
    finally:
        await heap.stop()
