"""A speech session whose messages take long to parse does not delay others."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

import pytest
from aiohttp import WSMsgType

from cascadeworld import cascade_world, routed_world
from fairlead_speech.gemini.fake import LiveScriptSession
from fairlead_speech.realtime.fake import RealtimeScriptSession
from framefloods import FLOODS, LIVE_FLOODS, flood_session
from liveworld import live_world
from routedlive import routed_live_world
from routedturns import DEEP
from speechworld import speech_world

SECONDS = 1.0
MOST_MS = 50.0


async def longest_turn() -> float:
    """Maximum processor time in milliseconds of the event loop's thread between two iterations of another task. The
    providers of these tests run in the same loop.
    """
    gc.collect()
    gc.freeze()  # excludes objects of earlier tests, which a gateway does not have
    until = time.monotonic() + SECONDS
    longest = 0.0
    before = time.thread_time()
    while time.monotonic() < until:
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - before)
        before = time.thread_time()
    gc.unfreeze()
    return longest * 1000


@pytest.fixture(autouse=True)
def providers_that_read_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Providers share the event loop; their processing of messages must not count as the gateway's."""

    async def drain(session: RealtimeScriptSession) -> None:
        await session.send("session.created", session=session.config)
        await _discard(session)

    async def drain_live(session: LiveScriptSession) -> None:
        await session.send(setupComplete={})
        await _discard(session)

    monkeypatch.setattr(RealtimeScriptSession, "run", drain)
    monkeypatch.setattr(LiveScriptSession, "run", drain_live)


async def _discard(session: RealtimeScriptSession | LiveScriptSession) -> None:
    while (await session._socket.receive()).type is WSMsgType.TEXT:
        pass


@pytest.mark.timing
@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_of_openai_realtime_holds_nobody_up(tmp_path: Path, flood: str) -> None:
    async with speech_world(tmp_path) as world, flood_session(world.url(), flood):
        assert await longest_turn() < MOST_MS


@pytest.mark.timing
@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_of_a_cascaded_engine_holds_nobody_up(tmp_path: Path, flood: str) -> None:
    async with cascade_world(tmp_path) as world:
        url = f"http://127.0.0.1:{world.gateway.port}/v1/realtime?model=assistant"
        async with flood_session(url, flood):
            assert await longest_turn() < MOST_MS


@pytest.mark.timing
@pytest.mark.parametrize("flood", LIVE_FLOODS)
async def test_a_flood_of_gemini_live_holds_nobody_up(tmp_path: Path, flood: str) -> None:
    async with live_world(tmp_path) as world, flood_session(world.url(), flood):
        assert await longest_turn() < MOST_MS


@pytest.mark.timing
@pytest.mark.parametrize(
    "flood", ["15 MiB of audio", "as many objects as may be", "updates of as many tools as may be"]
)
async def test_a_flood_of_a_session_with_slow_turns_holds_nobody_up(tmp_path: Path, flood: str) -> None:
    async with routed_world(tmp_path, **DEEP) as world, flood_session(world.url(), flood):
        assert await longest_turn() < MOST_MS


@pytest.mark.timing
@pytest.mark.parametrize("flood", LIVE_FLOODS)
async def test_a_flood_of_gemini_live_with_slow_turns_holds_nobody_up(tmp_path: Path, flood: str) -> None:
    async with routed_live_world(tmp_path, **DEEP) as world, flood_session(world.url(), flood):
        assert await longest_turn() < MOST_MS
