"""The condition Authorized: failures of grants that gateways report, and gateways that no longer exist."""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_api.reports import FailedGrant, Report
from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp.oauth.errors import INVALID_CLIENT, UNREACHABLE
from fairlead_operator.gateways.failed_grants import (
    GRANTED,
    REPLICA_SECONDS,
    RETENTION_SECONDS,
    START_SECONDS,
    FailedGrants,
)
from fairlead_operator.ports import ConditionVerdict
from virtualtime import HandClock

BOX = ServerKey("default", "box")
OTHER = ServerKey("default", "other")
SHOWN = ConditionVerdict(False, Cause.CALLS_NOT_GRANTED, "as before the restart")


class Ledger:
    """Failures by gateway, in an operator that has been running for some time."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.changed: list[ServerKey] = []
        self.grants = FailedGrants(self.changed.append, self.clock)
        self.grants.verdict(BOX, None)
        self.clock.now += START_SECONDS

    def take(self, replica: str, *failed: FailedGrant) -> None:
        self.grants.add_report(Report(replica, "cursor", "cluster", failed_grants=failed))

    def hear(self, replica: str) -> None:
        """Take a report of a gateway without changes."""
        self.grants.add_report(Report(replica, "cursor", "cluster"))

    def verdict(self, key: ServerKey = BOX) -> ConditionVerdict:
        return self.grants.verdict(key, SHOWN)


def grant_failure(server: ServerKey = BOX, *, cause: str = INVALID_CLIENT, since: float = 10.0) -> FailedGrant:
    return FailedGrant(server.namespace, server.name, cause, f"since {since:g}", since)


def test_a_failure_is_a_verdict_until_its_gateway_reports_that_it_is_over() -> None:
    ledger = Ledger()
    assert ledger.verdict() == GRANTED
    ledger.take("one", grant_failure())
    assert ledger.verdict() == ConditionVerdict(False, Cause.CALLS_NOT_GRANTED, "since 10")
    assert ledger.verdict(OTHER) == GRANTED
    ledger.hear("one")
    assert ledger.verdict().ok is False
    ledger.take("one", grant_failure(OTHER))
    assert ledger.verdict() == GRANTED
    assert sorted(ledger.changed) == [BOX, BOX, OTHER]


def test_an_issuer_that_gateways_cannot_reach_has_a_cause_of_its_own() -> None:
    ledger = Ledger()
    ledger.take("one", grant_failure(cause=UNREACHABLE))
    assert ledger.verdict().cause == Cause.CALLS_ISSUER_UNREACHABLE


def test_the_oldest_failure_is_shown_and_each_gateway_has_to_recover() -> None:
    ledger = Ledger()
    ledger.take("one", grant_failure(since=20.0))
    ledger.take("two", grant_failure(since=10.0))
    assert ledger.verdict().message == "since 10"
    ledger.take("two")
    assert ledger.verdict().message == "since 20"
    ledger.take("one")
    assert ledger.verdict() == GRANTED


def test_failures_of_a_gateway_that_reports_no_more_end() -> None:
    ledger = Ledger()
    ledger.take("one", grant_failure())
    ledger.clock.now += REPLICA_SECONDS - 1
    ledger.take("two", grant_failure(OTHER))
    assert ledger.verdict().ok is False
    assert ledger.grants.seconds_until_due(BOX) == 1
    ledger.clock.now += 1
    del ledger.changed[:]
    ledger.hear("two")
    assert ledger.changed == [BOX]
    assert ledger.verdict() == GRANTED
    assert ledger.grants.seconds_until_due(BOX) is None
    assert ledger.verdict(OTHER).ok is False
    ledger.clock.now += REPLICA_SECONDS
    assert ledger.verdict(OTHER) == GRANTED, "also where no gateway is left"


def test_failures_of_a_gateway_that_was_cut_off_count_again_once_it_reports() -> None:
    ledger = Ledger()
    ledger.take("one", grant_failure())
    ledger.clock.now += 2 * REPLICA_SECONDS
    assert ledger.verdict() == GRANTED
    del ledger.changed[:]
    ledger.hear("one")
    assert ledger.changed == [BOX]
    assert ledger.verdict().message == "since 10"
    ledger.clock.now += RETENTION_SECONDS
    assert ledger.verdict() == GRANTED
    ledger.hear("one")
    assert ledger.verdict() == GRANTED, "gateways that are gone do not pile up"


def test_a_condition_stays_after_a_restart_until_gateways_can_have_reported() -> None:
    clock = HandClock()
    grants = FailedGrants(lambda key: None, clock)
    assert grants.verdict(BOX, SHOWN) == SHOWN
    assert grants.verdict(BOX, None) == GRANTED
    assert grants.seconds_until_due(BOX) == START_SECONDS
    clock.now += START_SECONDS
    assert grants.verdict(BOX, SHOWN) == GRANTED
