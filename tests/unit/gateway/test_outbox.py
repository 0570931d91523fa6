"""Reports that wait in a gateway for an operator: told once, bounded, and never lost to a cursor of another life."""

from __future__ import annotations

import asyncio

from fairlead_api.meta import ServerKey
from fairlead_gateway.reports import outbox
from fairlead_gateway.reports.outbox import Outbox
from virtualtime import HandClock

KEY = ServerKey("team", "demo")


def test_reports_that_an_operator_has_fetched_are_not_told_to_the_next_one() -> None:
    box = Outbox()
    box.ask_refresh(KEY)
    first = box.report("")
    assert first.refresh == (("team", "demo"),)
    assert box.report("").refresh == first.refresh, "the answer may have been lost on its way"
    assert box.report(first.cursor).refresh == ()
    assert box.report("").refresh == ()


def test_many_calls_that_cannot_reach_a_server_are_one_doubt_a_second() -> None:
    clock = HandClock(100.0)
    box = Outbox(clock=clock)
    for _ in range(500):
        box.server_lost(KEY, "ConnectionRefused")
        clock.now += 0.01
    assert 5 <= len(box.report("").doubts) <= 6


def test_reports_that_nobody_fetches_are_bounded() -> None:
    box = Outbox()
    for number in range(3 * outbox.MOST_KEPT):
        box.ask_refresh(ServerKey("team", f"server-{number}"))
        box.server_lost(ServerKey("team", f"server-{number}"), "ConnectionLost")
    report = box.report("")
    assert len(report.refresh) + len(report.doubts) == outbox.MOST_KEPT
    assert report.refresh[-1] == ("team", f"server-{3 * outbox.MOST_KEPT - 1}")


async def test_an_operator_that_waits_is_answered_when_somebody_asks() -> None:
    box = Outbox()
    waiting = asyncio.create_task(box.wait(box.report("").cursor, 20))
    await asyncio.sleep(0)
    box.ask_refresh(KEY)
    async with asyncio.timeout(10):
        assert (await waiting).refresh == (("team", "demo"),)
