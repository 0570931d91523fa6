"""Sort orders of the rows of `fairlead top`, for its option and its keys. No I/O."""

from __future__ import annotations

from enum import StrEnum


class SortKey(StrEnum):
    """Order of rows: the busiest, the most failing, the slowest, or by name."""

    calls = "calls"
    errors = "errors"
    latency = "latency"
    name = "name"
