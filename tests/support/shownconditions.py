"""Conditions in the API server, by the cause at the beginning of their message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead_api.v1alpha1.causes import cause_of
from fairlead_api.v1alpha1.common import Condition


def cause(condition: Mapping[str, Any]) -> str:
    """Cause of a condition; empty if there is no condition."""
    return str(cause_of(Condition.model_validate(condition))[0]) if condition else ""


def causes(conditions: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """Status and cause of each condition, by type."""
    return {condition["type"]: (condition["status"], cause(condition)) for condition in conditions}
