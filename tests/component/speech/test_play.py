"""A session of a role-playing game with every speech engine, and with all eight tool servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from playcast import engines
from playscript import STEPS
from playworld import play_world
from spokenplay import check, play

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


async def test_a_session_is_played_over_every_engine_with_all_eight_servers(tmp_path: Path) -> None:
    played = engines()
    async with play_world(tmp_path, played) as world:
        for engine in played:
            trace = await play(engine, world)
            check(trace, STEPS)
            assert trace.tiers == ["standard", "fast", "standard", "deep", "fast", "deep"], engine.name
            assert trace.ended < 360
