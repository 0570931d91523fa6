"""Typed access to the parts of an untrusted document. No I/O."""

from __future__ import annotations

from typing import Any


class UnusablePart(Exception):
    """Part of a document that cannot be read. The message is a clause without a full stop."""


def mapping(value: Any, part_name: str) -> dict[str, Any]:
    """The value as an object; an absent one is empty. Raises UnusablePart."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnusablePart(f"{part_name} is not an object")
    return value


def sequence(value: Any, part_name: str) -> list[Any]:
    """The value as an array; an absent one is empty. Raises UnusablePart."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise UnusablePart(f"{part_name} is not an array")
    return value


def text(value: Any) -> str:
    """The value if it is a string, without surrounding white space; empty otherwise."""
    return value.strip() if isinstance(value, str) else ""
