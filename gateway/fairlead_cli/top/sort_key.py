"""Names of the sort orders of `fairlead top`, for its option and its keys; `rows` sorts by them. No I/O."""

from __future__ import annotations

from enum import StrEnum


class SortKey(StrEnum):
    """Order of rows: by calls a minute, errors, p95 or name."""

    calls = "calls"
    errors = "errors"
    latency = "latency"
    name = "name"
