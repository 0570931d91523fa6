"""Outcomes of a reconcile, which decide when its object is reconciled again. Pure.

The reconciler returns an outcome instead of raising an error; the work queue schedules the next reconcile by it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """The object is as desired."""

    requeue_after: float | None = None
    """Seconds until the next reconcile; None: the next event of the object triggers it."""

    def no_later_than(self, seconds: float | None) -> Done:
        """Copy of the outcome, with the next reconcile after at most `seconds`; unchanged for None."""
        delays = [delay for delay in (self.requeue_after, seconds) if delay is not None]
        return Done(min(delays, default=None))


@dataclass(frozen=True)
class Waiting:
    """The object is not as desired yet, because of a temporary problem outside of it: the reconcile is retried."""

    cause: str
    """A cause of `fairlead_api.v1alpha1.causes`, or the reason of the API server's error."""
    after: float | None = None
    """Seconds until the retry; None: the back-off of the queue decides."""


@dataclass(frozen=True)
class Stalled:
    """The object is not as desired until a user changes something."""

    cause: str
    """A cause of `fairlead_api.v1alpha1.causes`, or the reason of the API server's error."""
    after: float | None = None
    """Seconds until the next reconcile; None: the next event of the object triggers it."""


Outcome = Done | Waiting | Stalled
