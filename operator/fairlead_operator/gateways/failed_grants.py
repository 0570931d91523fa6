"""Verdict of the condition `Authorized`: servers whose grants fail at gateways, from the gateways' reports. No I/O.

A gateway reports when a failure begins and when it ends. If a gateway has not reported for REPLICA_SECONDS, because it
is gone or unreachable, its failures are ignored until it reports again. They are dropped after KEPT_SECONDS.
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
KEPT_SECONDS: Final = 3600.0
"""Seconds without a report after which the failures of a gateway are dropped."""
START_SECONDS: Final = 30.0
"""Seconds after the operator's start for which a condition stays as it is, until all gateways have reported."""
GRANTED: Final = ConditionVerdict(True, Cause.AUTHORIZED, "no gateway reports failed grants for calls of the server")


@dataclass
class _Replica:
    """Last report of one gateway."""

    at: float
    """Time of its last report, in monotonic seconds."""
    failed: Mapping[ServerKey, FailedGrant]
    silent: bool = False
    """Whether its failures are ignored."""


class FailedGrants:
    """Failures of grants by gateway. `changed` receives each server whose verdict may have changed."""

    def __init__(self, changed: Callable[[ServerKey], None], monotonic: Callable[[], float]) -> None:
        self._changed = changed
        self._monotonic = monotonic
        self._replicas: dict[str, _Replica] = {}
        self._began: float | None = None
        """Time of the first verdict."""

    def take(self, report: Report) -> None:
        """Take a gateway's report."""
        now = self._monotonic()
        self._leave_out_silent(now)
        replica = self._replicas.setdefault(report.replica, _Replica(now, {}))
        replica.at = now
        if replica.silent:
            replica.silent = False
            for key in replica.failed:
                self._changed(key)
        if report.failed_grants is None:
            return
        before = replica.failed
        failed = report.failed_grants[:MOST_FAILED_GRANTS]
        replica.failed = now_failed = {ServerKey(each.namespace, each.server): each for each in failed}
        for key in before.keys() | now_failed.keys():
            if before.get(key) != now_failed.get(key):
                self._changed(key)

    def verdict(self, key: ServerKey, shown: ConditionVerdict | None) -> ConditionVerdict:
        """The verdict Authorized. `shown` is that of the present condition, which is kept while gateways may not have
        reported yet since the start of the operator.
        """
        now = self._monotonic()
        self._leave_out_silent(now)
        self._began = now if self._began is None else self._began
        failed = [replica.failed[key] for replica in self._heard(key)]
        if failed:
            # the oldest, so that the message does not change with each gateway that reports the same
            first = min(failed, key=lambda each: each.since)
            cause = Cause.CALLS_ISSUER_UNREACHABLE if first.cause == UNREACHABLE else Cause.CALLS_NOT_GRANTED
            return ConditionVerdict(False, cause, first.sentence[:SENTENCE_CHARS])
        return GRANTED if shown is None or now - self._began >= START_SECONDS else shown

    def seconds_until_due(self, key: ServerKey) -> float | None:
        """Seconds after which the verdict may change without a report; None if it cannot."""
        now = self._monotonic()
        if self._began is not None and now - self._began < START_SECONDS:
            return self._began + START_SECONDS - now
        heard = [replica.at for replica in self._heard(key)]
        return max(heard) + REPLICA_SECONDS - now if heard else None

    def _heard(self, key: ServerKey) -> list[_Replica]:
        """Gateways whose failures for a server count."""
        return [replica for replica in self._replicas.values() if key in replica.failed and not replica.silent]

    def _leave_out_silent(self, now: float) -> None:
        for name, replica in list(self._replicas.items()):
            if not replica.silent and now - replica.at >= REPLICA_SECONDS:
                replica.silent = True
                for key in replica.failed:
                    self._changed(key)
            if now - replica.at >= KEPT_SECONDS:
                del self._replicas[name]
