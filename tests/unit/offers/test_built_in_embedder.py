"""The built-in encoder leaves processor time to tool calls, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_offers.search.tool_vectors import CROWDED_COST, CROWDED_SHARE, PIECE_TOOLS, TOOL_SECONDS, BuiltInEmbedder
from fairlead_offers.workers.heavy_work import WorkerThread
from fairlead_offers.workers.throttle import Throttle
from fairlead_search.embedding import EmbedResult, VectorText
from virtualtime import in_virtual_time

pytestmark = in_virtual_time


class Encoded(WorkerThread):
    """Worker that returns vectors of one byte at once, with the given shares of a core. It expects a single tool after
    a piece that had to wait for a core."""

    def __init__(self, *core_shares: float) -> None:
        super().__init__()
        self._core_shares = [*core_shares]
        self._next = PIECE_TOOLS

    async def do(self, work: object) -> EmbedResult:  # type: ignore[override]  # accepts only one kind of work
        share = self._core_shares.pop(0) if self._core_shares else 1.0
        made = self._next
        self._next = PIECE_TOOLS if share >= CROWDED_SHARE else 1
        return EmbedResult([bytes([index]) for index in range(made)], share)


def texts(number: int) -> list[VectorText]:
    return [VectorText(str(index), "mail", "mail") for index in range(number)]


@pytest.mark.parametrize(("calls", "seconds"), [(0, 0.0), (1, 3 * PIECE_TOOLS * TOOL_SECONDS / 0.1)])
async def test_while_tools_are_called_the_encoder_has_a_tenth_of_the_time(calls: int, seconds: float) -> None:
    embedder = BuiltInEmbedder(Encoded(), Throttle(lambda: calls, 0.1), process=False)
    assert await embedder.tools(texts(4 * PIECE_TOOLS)) == [bytes([index]) for index in range(PIECE_TOOLS)] * 4
    assert asyncio.get_running_loop().time() == pytest.approx(seconds, abs=0.01)


async def test_an_encoder_that_waits_for_a_core_reads_one_tool_at_a_time_with_long_pauses() -> None:
    embedder = BuiltInEmbedder(Encoded(0.2, 0.2, 0.9), Throttle(lambda: 1, 0.1), process=False)
    made = await embedder.tools(texts(PIECE_TOOLS + 1 + 1 + PIECE_TOOLS))
    assert made == [bytes([index]) for index in [*range(PIECE_TOOLS), 0, 0, *range(PIECE_TOOLS)]]
    tool = TOOL_SECONDS / 0.1
    assert asyncio.get_running_loop().time() == pytest.approx(PIECE_TOOLS * tool + 2 * CROWDED_COST * tool, abs=0.01)


async def test_an_encoder_is_not_held_up_by_a_crowded_machine_while_no_tool_is_called() -> None:
    embedder = BuiltInEmbedder(Encoded(*[0.1] * 6), Throttle(lambda: 0, 0.1), process=False)
    assert len(await embedder.tools(texts(PIECE_TOOLS + 5))) == PIECE_TOOLS + 5
    assert asyncio.get_running_loop().time() == pytest.approx(0, abs=0.01)
