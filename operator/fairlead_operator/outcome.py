"""Outcomes of a reconcile, which decide when its object is reconciled again. Pure.

The reconciler returns an outcome instead of raising an error; the work queue schedules the next reconcile by it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """The object is as desired. `requeue_after` is the number of seconds until the next reconcile; None: at the next
    event.
    """

    requeue_after: float | None = None

    def no_later_than(self, seconds: float | None) -> Done:
        """The outcome with a reconcile after at most `seconds`; unchanged for None."""
        times = [time for time in (self.requeue_after, seconds) if time is not None]
        return Done(min(times, default=None))


@dataclass(frozen=True)
class Waiting:
    """The object is not as desired yet, through no fault of its own. `after` is the number of seconds until the next
    try; None: by the queue's back-off.
    """

    cause: str
    """A cause of `fairlead_api.v1alpha1.causes`, or the reason of the API server's error."""
    after: float | None = None


@dataclass(frozen=True)
class Stalled:
    """A user has to change something first: the reconcile is repeated when the object changes, or after `after`
    seconds.
    """

    cause: str
    """A cause of `fairlead_api.v1alpha1.causes`, or the reason of the API server's error."""
    after: float | None = None


Outcome = Done | Waiting | Stalled
