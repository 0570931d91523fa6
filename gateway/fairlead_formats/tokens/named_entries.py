"""Converts decoded configuration that is a mapping of names and entries."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from fairlead_mcp.misread_values import misreading_of

T = TypeVar("T")


class WrongEntries(ValueError):
    """Configuration that cannot be converted. The message follows the name of the mapping and a colon."""


def convert_entries(document: object, kind: type[T]) -> dict[str, T]:
    """Convert each value of a decoded mapping. Raises WrongEntries; its message names the entry."""
    try:
        mapping = msgspec.convert(document, dict[str, Any])
    except msgspec.ValidationError as error:
        raise WrongEntries(misreading_of(error).reason) from error
    entries = {}
    for name, entry in mapping.items():
        try:
            entries[name] = msgspec.convert(entry, kind)
        except msgspec.ValidationError as error:
            path, reason = misreading_of(error)
            raise WrongEntries(f"{name}.{path}: {reason}" if path else f"{name}: {reason}") from error
    return entries
