"""Converts decoded configuration that is a mapping of names and entries."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def convert_entries(document: object, kind: type[T]) -> dict[str, T]:
    """Convert each value of a decoded mapping. Raises ValidationError; its message names the entry."""
    entries = {}
    for name, entry in msgspec.convert(document, dict[str, Any]).items():
        try:
            entries[name] = msgspec.convert(entry, kind)
        except msgspec.ValidationError as error:
            raise msgspec.ValidationError(f"{name}: {error}") from error
    return entries
