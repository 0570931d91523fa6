"""The built-in encoder's work beside calls, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_rest.throttle import Throttle
from fairlead_rest.tool_vectors import PIECE, TOOL_SECONDS, BuiltInEmbedder
from fairlead_rest.worker import WorkerThread
from fairlead_search.embedding import Embedded, VectorText

pytestmark = pytest.mark.looptime(start=0)


class Encoded(WorkerThread):
    """Makes vectors at once, a byte each."""

    async def do(self, work: object) -> Embedded:  # type: ignore[override]  # of one kind of work
        return Embedded([bytes([place]) for place in range(PIECE)])


@pytest.mark.parametrize(("calls", "seconds"), [(0, 0.0), (1, 3 * PIECE * TOOL_SECONDS / 0.1)])
async def test_while_tools_are_called_the_encoder_has_a_tenth_of_the_time(calls: int, seconds: float) -> None:
    embedder = BuiltInEmbedder(Encoded(), Throttle(lambda: calls, 0.1), process=False)
    texts = [VectorText(str(place), "mail", "mail") for place in range(4 * PIECE)]
    assert await embedder.tools(texts) == [bytes([place]) for place in range(PIECE)] * 4
    assert asyncio.get_running_loop().time() == pytest.approx(seconds, abs=0.01)
