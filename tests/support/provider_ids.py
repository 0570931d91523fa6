"""Answers of the gateway with the ids that the provider gave: for comparison with what the provider said."""

from __future__ import annotations

import re
from typing import Any, Final

_MADE: Final = re.compile(r"(?:call|toolu|rs)_fl-[A-Za-z0-9]{22}-")


def with_provider_ids(value: Any) -> Any:
    """The value, in any nesting of lists, tuples and objects, with the ids of calls that its provider gave."""
    if isinstance(value, str):
        return _MADE.sub("", value)
    if isinstance(value, dict):
        return {key: with_provider_ids(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(with_provider_ids, value))
    return value
