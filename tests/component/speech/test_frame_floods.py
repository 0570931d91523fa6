"""A speech session that sends what takes long to read holds nobody else up."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from cascadeworld import cascade_world
from framefloods import FLOODS, LIVE_FLOODS, flooded
from liveworld import live_world
from speechworld import speech_world

SECONDS = 2.0
MOST_MS = 50.0


async def longest_turn() -> float:
    """CPU of the event loop's thread between two turns of somebody who waits for it, at most, in milliseconds. The
    providers of these tests share the loop.
    """
    until, longest, before = time.monotonic() + SECONDS, 0.0, time.thread_time()
    wall, wall_before = 0.0, time.perf_counter()
    while time.monotonic() < until:
        await asyncio.sleep(0)
        longest, before = max(longest, time.thread_time() - before), time.thread_time()
        wall, wall_before = max(wall, time.perf_counter() - wall_before), time.perf_counter()
    sys.stderr.write(f"longest {longest * 1e3:.1f} ms of CPU, {wall * 1e3:.1f} ms\n")
    return longest * 1000


@pytest.mark.timing
@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_of_openai_realtime_holds_nobody_up(tmp_path: Path, flood: str) -> None:
    async with speech_world(tmp_path) as world, flooded(world.url(), flood):
        assert await longest_turn() < MOST_MS


@pytest.mark.timing
@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_of_a_cascaded_engine_holds_nobody_up(tmp_path: Path, flood: str) -> None:
    async with cascade_world(tmp_path) as world:
        url = f"http://127.0.0.1:{world.gateway.port}/v1/realtime?model=assistant"
        async with flooded(url, flood):
            assert await longest_turn() < MOST_MS


@pytest.mark.timing
@pytest.mark.parametrize("flood", LIVE_FLOODS)
async def test_a_flood_of_gemini_live_holds_nobody_up(tmp_path: Path, flood: str) -> None:
    async with live_world(tmp_path) as world, flooded(world.url(), flood):
        assert await longest_turn() < MOST_MS
