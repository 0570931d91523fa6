"""How long others wait for the event loop while a body, an answer or a result is read that is made to be slow to read.

One turn of the loop is everybody's: a call that comes meanwhile waits for its end. 100 ms is the goal, at most 90 what
is measured; what held up longer before it was bounded did so for 0.2 to 22 s.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from fuzzed_gateway import LONG
from gapattacks import PLANES
from gapworld import gap_world

MOST_MS: Final = 150.0
STRIDE: Final = 1 if os.environ.get(LONG) else 10
"""One attack in so many is made in the short form: neighbors differ in their unit or size alone."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plane", PLANES)
async def test_slow_documents_do_not_hold_up_the_event_loop(tmp_path: Path, plane: str) -> None:
    made, slow = 0, []
    async with gap_world(tmp_path) as world:
        for number, attack in enumerate(PLANES[plane]()):
            if number % STRIDE == 0:
                made += 1
                gap = await world.longest_gap_ms(attack)
                if gap > MOST_MS:
                    slow.append(f"{attack.name}: {gap:.0f} ms")
    assert made >= 5
    assert not slow, slow
