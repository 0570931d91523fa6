"""When event streams begin to which nothing has been written yet."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_gateway.endpoint.stream_starts import BEGIN_AFTER_S, StreamStarts

pytestmark = pytest.mark.looptime(start=0)


class Stream:
    """An exchange that records when its stream began and then leaves the schedule, as exchanges do, unless its client
    is gone."""

    def __init__(self, starts: StreamStarts, *, gone: bool = False) -> None:
        self.began: list[float] = []
        self.gone = gone
        self.waits_in = starts.enter(self)

    def begin_stream(self) -> bool:
        self.began.append(asyncio.get_running_loop().time())
        if not self.gone:
            self.waits_in.discard(self)
        return not self.gone


async def test_a_stream_begins_once_when_its_answer_takes_long() -> None:
    starts = StreamStarts()
    stream = Stream(starts)
    await asyncio.sleep(10 * BEGIN_AFTER_S)
    assert stream.began == [BEGIN_AFTER_S]
    assert len(starts) == 0


@pytest.mark.parametrize("share", [0.1, 0.6])
async def test_an_answer_that_comes_before_leaves_no_stream_to_begin(share: float) -> None:
    starts = StreamStarts()
    stream = Stream(starts)
    await asyncio.sleep(share * BEGIN_AFTER_S)
    stream.waits_in.discard(stream)
    assert len(starts) == 0
    await asyncio.sleep(10 * BEGIN_AFTER_S)
    assert stream.began == []


async def test_streams_wait_for_half_of_the_time_at_least() -> None:
    starts = StreamStarts()
    made: list[tuple[float, Stream]] = []
    for number in range(100):
        made.append((number * BEGIN_AFTER_S / 10, Stream(starts)))
        await asyncio.sleep(BEGIN_AFTER_S / 10)
    await asyncio.sleep(2 * BEGIN_AFTER_S)
    waited = [stream.began[0] - entered for entered, stream in made]
    assert min(waited) > BEGIN_AFTER_S / 2 - 1e-9
    assert max(waited) < BEGIN_AFTER_S + 1e-9
    assert {len(stream.began) for _, stream in made} == {1}


async def test_a_stream_whose_client_is_gone_is_let_go() -> None:
    starts = StreamStarts()
    stream = Stream(starts, gone=True)
    await asyncio.sleep(10 * BEGIN_AFTER_S)
    assert len(stream.began) == 1
    assert len(starts) == 0
    assert stream.waits_in == set()


async def test_streams_that_come_after_a_rest_begin_as_well() -> None:
    starts = StreamStarts()
    Stream(starts)
    await asyncio.sleep(10 * BEGIN_AFTER_S)
    entered = asyncio.get_running_loop().time()
    stream = Stream(starts)
    await asyncio.sleep(10 * BEGIN_AFTER_S)
    assert stream.began == [pytest.approx(entered + BEGIN_AFTER_S)]


class Broken:
    """An exchange that raises an unexpected exception."""

    def begin_stream(self) -> bool:
        raise RuntimeError("a defect")


async def test_a_defect_of_one_stream_keeps_no_other_from_beginning(caplog: pytest.LogCaptureFixture) -> None:
    starts = StreamStarts()
    starts.enter(Broken())
    beside = Stream(starts)
    await asyncio.sleep(2 * BEGIN_AFTER_S)
    later = Stream(starts)
    await asyncio.sleep(2 * BEGIN_AFTER_S)
    assert len(beside.began) == len(later.began) == 1
    assert "An event stream could not be started" in caplog.text
