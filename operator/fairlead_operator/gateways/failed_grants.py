"""Makes the verdicts Authorized about servers from the grant failures in the gateways' reports. No I/O.

A gateway reports when a failure begins and when it ends. If a gateway has not reported for REPLICA_SECONDS, because it
ended or cannot be reached, its failures are ignored until it reports again. They are dropped after RETENTION_SECONDS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_api.reports import MOST_FAILED_GRANTS, SENTENCE_CHARS, FailedGrant, Report
from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp.oauth.errors import UNREACHABLE
from fairlead_operator.ports import ConditionVerdict

REPLICA_SECONDS: Final = 60.0
"""Seconds without a report after which the failures of a gateway are ignored."""
RETENTION_SECONDS: Final = 3600.0
"""Seconds without a report after which the failures of a gateway are dropped."""
START_SECONDS: Final = 30.0
"""Seconds after the operator's start for which a condition stays as it is, until all gateways have reported."""
GRANTED: Final = ConditionVerdict(True, Cause.AUTHORIZED, "no gateway reports failed grants for calls of the server")


@dataclass
class _Replica:
    """The grant failures that one gateway last reported."""

    reported_at: float
    """Time of the gateway's last report, in monotonic seconds."""
    failures: Mapping[ServerKey, FailedGrant]
    silent: bool = False
    """Whether the failures are ignored, because the gateway has not reported for REPLICA_SECONDS."""


class FailedGrants:
    """Grant failures of each gateway. `on_change` receives each server whose verdict may have changed."""

    def __init__(self, on_change: Callable[[ServerKey], None], monotonic: Callable[[], float]) -> None:
        self._on_change = on_change
        self._monotonic = monotonic
        self._replicas: dict[str, _Replica] = {}
        self._first_verdict_at: float | None = None
        """Time of the first verdict."""

    def add_report(self, report: Report) -> None:
        """Store the failures in a gateway's report."""
        now = self._monotonic()
        self._mark_silent_replicas(now)
        replica = self._replicas.setdefault(report.replica, _Replica(now, {}))
        replica.reported_at = now
        if replica.silent:
            replica.silent = False
            for key in replica.failures:
                self._on_change(key)
        if report.failed_grants is None:
            return
        failures_before = replica.failures
        reported_failures = report.failed_grants[:MOST_FAILED_GRANTS]
        replica.failures = failures_now = {
            ServerKey(failure.namespace, failure.server): failure for failure in reported_failures
        }
        for key in failures_before.keys() | failures_now.keys():
            if failures_before.get(key) != failures_now.get(key):
                self._on_change(key)

    def verdict(self, key: ServerKey, previous_verdict: ConditionVerdict | None) -> ConditionVerdict:
        """The verdict Authorized. `previous_verdict` is the verdict of the present condition; it is kept after the
        operator's start until all gateways can have reported.
        """
        now = self._monotonic()
        self._mark_silent_replicas(now)
        self._first_verdict_at = now if self._first_verdict_at is None else self._first_verdict_at
        failures = [replica.failures[key] for replica in self._replicas_with_failure(key)]
        if failures:
            # the oldest failure, so that the message does not change with each gateway that reports the same failure
            oldest = min(failures, key=lambda failure: failure.since)
            cause = Cause.CALLS_ISSUER_UNREACHABLE if oldest.cause == UNREACHABLE else Cause.CALLS_NOT_GRANTED
            return ConditionVerdict(False, cause, oldest.sentence[:SENTENCE_CHARS])
        return (
            GRANTED if previous_verdict is None or now - self._first_verdict_at >= START_SECONDS else previous_verdict
        )

    def seconds_until_due(self, key: ServerKey) -> float | None:
        """Seconds after which the verdict may change without a report; None if it cannot."""
        now = self._monotonic()
        if self._first_verdict_at is not None and now - self._first_verdict_at < START_SECONDS:
            return self._first_verdict_at + START_SECONDS - now
        report_times = [replica.reported_at for replica in self._replicas_with_failure(key)]
        return max(report_times) + REPLICA_SECONDS - now if report_times else None

    def _replicas_with_failure(self, key: ServerKey) -> list[_Replica]:
        """Gateways that reported a failure for a server and are not silent."""
        return [replica for replica in self._replicas.values() if key in replica.failures and not replica.silent]

    def _mark_silent_replicas(self, now: float) -> None:
        """Mark gateways that have not reported for REPLICA_SECONDS; drop them after RETENTION_SECONDS."""
        for name, replica in list(self._replicas.items()):
            if not replica.silent and now - replica.reported_at >= REPLICA_SECONDS:
                replica.silent = True
                for key in replica.failures:
                    self._on_change(key)
            if now - replica.reported_at >= RETENTION_SECONDS:
                del self._replicas[name]
