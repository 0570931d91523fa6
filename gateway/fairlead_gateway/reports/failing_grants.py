"""Servers whose calls get no access token for any caller, for the operator's condition `Authorized`. No I/O.

A failure is reported until a grant gives a token, the server's credentials are replaced, or no call has failed for
QUIET_SECONDS. No data about users are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_api.reports import MOST_FAILED_GRANTS, SENTENCE_CHARS, FailedGrant
from fairlead_mcp.oauth.errors import UNREACHABLE, GrantFailed

QUIET_SECONDS: Final = 600.0
"""Seconds after the last failed call after which its failure is dropped: grants may succeed by then."""
LASTING_SECONDS: Final = 3.0
"""Seconds for which an authorization server must be unreachable before this is reported. The time exceeds the first
pauses between two grants, so that a single lost connection is not reported.
"""


class _FailureRun(msgspec.Struct):
    """Failures of one server, without a token in between."""

    first_wall_time: float
    """Time of the first failure, in seconds since the epoch."""
    first_at: float
    """Time of the first failure, in seconds of the clock."""
    last_at: float
    """Time of the last failure, in seconds of the clock."""
    entry: FailedGrant | None = None


class FailingGrants:
    """Failures of at most MOST_FAILED_GRANTS servers. `on_change` is called when `report` has changed.

    `clock` is in monotonic seconds, `wall` in seconds since the epoch.
    """

    def __init__(self, on_change: Callable[[], None], clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._on_change = on_change
        self._clock = clock
        self._wall = wall
        self._runs: dict[ServerKey, _FailureRun] = {}

    def observe(self, server: ServerKey, failure: GrantFailed | None) -> None:
        """Record the outcome of a grant; None: it returned a token. A failure that concerns only one user changes
        nothing.
        """
        if failure is None:
            self.forget(server)
        elif failure.for_everybody:
            self._add_failure(server, failure)

    def forget(self, server: ServerKey) -> None:
        """Drop the failures of a server."""
        run = self._runs.pop(server, None)
        if run is not None and run.entry is not None:
            self._on_change()

    def drop_quiet(self) -> None:
        """Drop the failures of servers without a failed call for QUIET_SECONDS."""
        oldest = self._clock() - QUIET_SECONDS
        for server in [server for server, run in self._runs.items() if run.last_at <= oldest]:
            self.forget(server)

    def report(self) -> tuple[FailedGrant, ...]:
        """Failures to report."""
        return tuple(run.entry for run in self._runs.values() if run.entry is not None)

    def _add_failure(self, server: ServerKey, failure: GrantFailed) -> None:
        now = self._clock()
        run = self._runs.get(server)
        if run is None:
            if len(self._runs) >= MOST_FAILED_GRANTS:
                return
            run = self._runs[server] = _FailureRun(self._wall(), now, now)
        run.last_at = now
        if failure.cause == UNREACHABLE and now - run.first_at < LASTING_SECONDS:
            return
        # a later sentence for the same cause is not reported: some authorization servers include the time
        if run.entry is None or run.entry.cause != failure.cause:
            sentence = failure.impersonal[:SENTENCE_CHARS]
            run.entry = FailedGrant(server.namespace, server.name, failure.cause, sentence, run.first_wall_time)
            self._on_change()
