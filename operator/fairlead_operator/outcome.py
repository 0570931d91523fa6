"""Outcome of a reconcile, which decides when its object is looked at again. Pure.

The reconciler returns one of these instead of raising; the work queue is the only reader.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """As it should be. `requeue_after`: seconds until the next periodic look; None = only when something changes."""

    requeue_after: float | None = None


@dataclass(frozen=True)
class Waiting:
    """Not there yet, for no fault of the object. `after`: seconds until the next try; None = back off."""

    cause: str
    """A constant of `fairlead_api.v1alpha1.causes`, or the API server's word."""
    after: float | None = None


@dataclass(frozen=True)
class Stalled:
    """A person has to change something first: not retried until the object changes or `after` seconds have passed."""

    cause: str
    """A constant of `fairlead_api.v1alpha1.causes`, or the API server's word."""
    after: float | None = None


Outcome = Done | Waiting | Stalled
