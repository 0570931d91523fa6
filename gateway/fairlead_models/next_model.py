"""Statuses of a model's answer after which the next model of its route is asked. Pure module."""

from __future__ import annotations

from typing import Final

_ASK_NEXT: Final = frozenset({401, 403, 404, 408, 429})
"""Refusals by which another provider is not bound: credentials, a model that it lacks, a time-out, a rate."""


def asks_next(status: int) -> bool:
    """Whether the next model of a route is asked where one answers with that HTTP status."""
    return status >= 500 or status in _ASK_NEXT
