"""Reports that wait in a gateway for an operator: delivered once, bounded, and not skipped by a cursor of an earlier
process."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_api.reports import GrantedListing
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
    for number in range(3 * outbox.MAX_ITEMS):
        box.ask_refresh(ServerKey("team", f"server-{number}"))
        box.server_lost(ServerKey("team", f"server-{number}"), "ConnectionLost")
    report = box.report("")
    assert len(report.refresh) + len(report.doubts) == outbox.MAX_ITEMS
    assert report.refresh[-1] == ("team", f"server-{3 * outbox.MAX_ITEMS - 1}")


async def test_an_operator_that_waits_is_answered_when_somebody_asks() -> None:
    box = Outbox()
    waiting = asyncio.create_task(box.wait(box.report("").cursor, 20))
    await asyncio.sleep(0)
    box.ask_refresh(KEY)
    async with asyncio.timeout(10):
        assert (await waiting).refresh == (("team", "demo"),)


def listing(server: str, size: int, at: float = 1.0) -> GrantedListing:
    return GrantedListing("team", server, "uid", "https://drive.example", at, Raw(b'"' + b"x" * (size - 2) + b'"'))


async def test_large_lists_are_told_in_several_reports_each_of_which_an_operator_takes() -> None:
    box = Outbox()
    third = outbox.MAX_LISTINGS_BYTES // 3 + 1
    for number in range(5):
        box.add_listing(listing(f"server-{number}", third))
    box.ask_refresh(KEY)
    cursor, told, refreshed = "", list[list[str]](), 0
    for _ in range(3):
        async with asyncio.timeout(10):
            report = await box.wait(cursor, 60)
        cursor = report.cursor
        told.append([each.server for each in report.listings])
        refreshed += len(report.refresh)
    assert told == [["server-0", "server-1"], ["server-2", "server-3"], ["server-4"]]
    assert refreshed == 1, "what was told is not repeated with the rest"
    assert box.report(cursor).listings == ()
    assert [each.server for each in box.report("").listings] == ["server-0", "server-1"], "for the next operator"


def test_a_list_that_no_report_has_room_for_is_told_without_its_definitions(caplog: pytest.LogCaptureFixture) -> None:
    box = Outbox()
    box.add_listing(listing("drive", 100))
    box.add_listing(listing("drive", outbox.MAX_LISTINGS_BYTES + 1, at=2.0))
    box.add_listing(listing("other", outbox.MAX_LISTINGS_BYTES - 100))
    listings = box.report("").listings
    assert [each.server for each in listings] == ["drive", "other"]
    drive, other = listings
    assert (drive.server, drive.at, bytes(drive.listing)) == ("drive", 2.0, b"null")
    assert drive.refused.startswith("the server lists 8.0 MiB with the grant of a user, and at most 8 MiB are taken")
    assert (other.server, other.refused) == ("other", "")
    assert "team/drive are not reported: the server lists 8.0 MiB" in caplog.text
