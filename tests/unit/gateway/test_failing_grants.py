"""Reports of a gateway to the operator about servers whose grants fail for all users."""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_api.reports import MOST_FAILED_GRANTS, SENTENCE_CHARS, FailedGrant
from fairlead_gateway.reports.failing_grants import LASTING_SECONDS, QUIET_SECONDS
from fairlead_gateway.reports.outbox import Outbox
from fairlead_mcp.oauth.errors import (
    DISCOVERY,
    INTERACTION_REQUIRED,
    INVALID_CLIENT,
    INVALID_GRANT,
    TIMEOUT,
    UNREACHABLE,
    GrantFailed,
)
from virtualtime import HandClock

BOX = ServerKey("default", "box")
OTHER = ServerKey("default", "other")
WRONG_SECRET = GrantFailed("no token for alice", cause=INVALID_CLIENT, impersonal="no token")


def report_failed_grants(outbox: Outbox, cursor: str = "") -> tuple[FailedGrant, ...] | None:
    return outbox.report(cursor).failed_grants


def test_a_failure_for_everybody_is_reported_once_with_its_first_sentence_and_without_persons() -> None:
    clock = HandClock()
    outbox = Outbox(clock=clock, wall=lambda: 5000.0 + clock())
    cursor = outbox.report("").cursor
    began = 5000.0 + clock()
    outbox.failing_grants.observe(BOX, WRONG_SECRET)
    clock.now += 7
    outbox.failing_grants.observe(BOX, GrantFailed("at 12:07", cause=INVALID_CLIENT))
    report = outbox.report(cursor)
    assert report.failed_grants == (FailedGrant("default", "box", INVALID_CLIENT, "no token", began),)
    assert report_failed_grants(outbox, report.cursor) is None
    assert report_failed_grants(outbox, "of-another.1.1") == report.failed_grants


def test_a_failure_of_one_person_is_not_reported() -> None:
    outbox = Outbox()
    cursor = outbox.report("").cursor
    for cause in (INVALID_GRANT, INTERACTION_REQUIRED, TIMEOUT):
        outbox.failing_grants.observe(BOX, GrantFailed("no", cause=cause))
    assert report_failed_grants(outbox, cursor) is None


def test_the_next_token_and_new_credentials_end_a_failure() -> None:
    outbox = Outbox()
    for server in (BOX, OTHER):
        outbox.failing_grants.observe(server, WRONG_SECRET)
    cursor = outbox.report("").cursor
    outbox.failing_grants.observe(BOX, None)
    report = outbox.report(cursor)
    assert [grant.server for grant in report.failed_grants or ()] == ["other"]
    outbox.failing_grants.forget(OTHER)
    assert report_failed_grants(outbox, report.cursor) == ()


def test_a_failure_ends_after_a_time_without_failed_calls() -> None:
    clock = HandClock()
    outbox = Outbox(clock=clock)
    outbox.failing_grants.observe(BOX, WRONG_SECRET)
    clock.now += QUIET_SECONDS - 1
    outbox.failing_grants.observe(BOX, WRONG_SECRET)
    clock.now += QUIET_SECONDS - 1
    report = outbox.report("")
    assert report.failed_grants
    clock.now += 1
    assert report_failed_grants(outbox, report.cursor) == ()


def test_an_authorization_server_that_is_away_for_a_moment_is_not_reported() -> None:
    clock = HandClock()
    outbox = Outbox(clock=clock)
    away = GrantFailed("away", cause=UNREACHABLE)
    outbox.failing_grants.observe(BOX, away)
    clock.now += 1
    outbox.failing_grants.observe(BOX, None)
    outbox.failing_grants.observe(BOX, away)
    clock.now += LASTING_SECONDS - 1
    outbox.failing_grants.observe(BOX, away)
    assert report_failed_grants(outbox) == ()
    clock.now += 1
    outbox.failing_grants.observe(BOX, away)
    assert [grant.cause for grant in report_failed_grants(outbox) or ()] == [UNREACHABLE]


def test_another_cause_replaces_the_reported_one() -> None:
    outbox = Outbox()
    outbox.failing_grants.observe(BOX, WRONG_SECRET)
    cursor = outbox.report("").cursor
    outbox.failing_grants.observe(BOX, GrantFailed("no metadata", cause=DISCOVERY))
    assert [(grant.cause, grant.sentence) for grant in report_failed_grants(outbox, cursor) or ()] == [
        (DISCOVERY, "no metadata")
    ]


def test_servers_and_sentences_of_a_report_are_bounded() -> None:
    outbox = Outbox()
    for number in range(MOST_FAILED_GRANTS + 1):
        outbox.failing_grants.observe(ServerKey("default", f"s{number}"), GrantFailed("x" * 9000, cause=DISCOVERY))
    grants = report_failed_grants(outbox)
    assert grants is not None
    assert len(grants) == MOST_FAILED_GRANTS
    assert {len(grant.sentence) for grant in grants} == {SENTENCE_CHARS}


async def test_an_operator_that_waits_hears_of_a_failure_at_once() -> None:
    outbox = Outbox()
    cursor = outbox.report("").cursor
    outbox.failing_grants.observe(BOX, WRONG_SECRET)
    report = await outbox.wait(cursor, 3600.0)
    assert report.failed_grants
