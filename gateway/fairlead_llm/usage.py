"""Usage over several rounds: numbers of equal members are added, at any depth. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 8


def added(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None, depth: int = MAX_DEPTH) -> dict[str, Any]:
    """The sum of two usages. What only one of them has stays as it is; of what is no number the later one counts: no
    detail is made up.
    """
    total = dict(one or {})
    for name, value in (other or {}).items():
        known = total.get(name)
        if isinstance(value, dict) and isinstance(known, dict) and depth:
            total[name] = added(known, value, depth - 1)
        elif _number(value) and _number(known):
            total[name] = known + value
        elif value is not None or name not in total:
            total[name] = value
    return total


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
