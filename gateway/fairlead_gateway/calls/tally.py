"""What a request that a task waits for is counted in, and traced by, until it ends.

Used by `calls.forward`; of plain calls a flight keeps the same itself.
"""

from __future__ import annotations

from fairlead_gateway.calls.exchange import Exchange, asker
from fairlead_gateway.core.route import Route
from fairlead_gateway.limits.limiter import NO_LEASE, Lease, Limited, Limiter
from fairlead_gateway.tracing.spans import CallSpan


class Tally:
    """See the module."""

    __slots__ = ("_lease", "denied", "limit", "size", "span")

    def __init__(self, span: CallSpan | None) -> None:
        self._lease: Lease = NO_LEASE
        self.denied = ""
        """Whose rules do not allow its arguments."""
        self.limit = ""
        """What refused it because there were too many calls."""
        self.size = 0
        """Of the result, in bytes."""
        self.span = span

    def refused(self, limiter: Limiter | None, exchange: Exchange, route: Route | None) -> Limited | None:
        """Count a call of a tool, or say why not; limits are on nothing else."""
        if limiter is None or route is None:
            return None
        found = limiter.admit(asker(exchange), route.share, route.id, route.caps)
        if isinstance(found, Limited):
            self.limit = found.scope
            return found
        self._lease = found
        return None

    def over(self, error_type: str) -> None:
        """Once."""
        for account in self._lease:
            account.leave()
        if self.span is not None:
            self.span.end(error_type)
