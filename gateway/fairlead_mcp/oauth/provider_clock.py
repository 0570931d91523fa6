"""Computes the offset of a provider's clock from the header `Date` of answers (RFC 9110 section 6.6.1). No I/O."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

MIN_OFFSET: Final = 10.0
"""Minimum difference in seconds: a smaller one does not explain a refused assertion, and may be the answer's delay."""
MAX_OFFSET: Final = 600.0
"""Maximum difference in seconds, so that a provider cannot choose at which time an assertion is valid."""


def clock_offset(date: bytes | None, now: float) -> float:
    """Seconds by which the clock of the sender of `date` is ahead of `now`; 0 if the date is unusable or the difference
    is out of range.
    """
    if date is None or len(date) > 64:
        return 0.0
    try:
        offset = parsedate_to_datetime(date.decode("latin-1")).timestamp() - now
    except (ValueError, OverflowError, TypeError):
        return 0.0
    return offset if MIN_OFFSET <= abs(offset) <= MAX_OFFSET else 0.0
