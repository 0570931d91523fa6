"""Difference between the clocks of a provider and ours, by the `Date` of answers (RFC 9110 section 6.6.1). No I/O."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

LEAST_OFFSET: Final = 10.0
"""Seconds below which a difference does not explain a refused assertion, and may be the delay of the answer."""
MOST_OFFSET: Final = 600.0
"""Limit in seconds: an assertion must not be valid at a time of the provider's choice."""


def clock_offset(date: bytes | None, now: float) -> float:
    """Seconds by which the clock of the sender of a `Date` is ahead of `now`; 0 without a usable date."""
    if date is None or len(date) > 64:
        return 0.0
    try:
        offset = parsedate_to_datetime(date.decode("latin-1")).timestamp() - now
    except (ValueError, OverflowError, TypeError):
        return 0.0
    return offset if LEAST_OFFSET <= abs(offset) <= MOST_OFFSET else 0.0
