"""Kubernetes objects, decoded without the members that nothing reads, to structs that need less memory than dicts."""

from __future__ import annotations

import msgspec


class Metadata(msgspec.Struct):
    """Name, labels and annotations of an object."""

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ConfigMap(msgspec.Struct, rename="camel"):
    """A ConfigMap: texts in `data`, bytes in `binary_data`."""

    metadata: Metadata
    data: dict[str, str] = {}
    binary_data: dict[str, bytes] = {}


class Secret(msgspec.Struct):
    """A Secret, whose `repr` shows no values."""

    metadata: Metadata
    data: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"Secret({self.metadata.name!r}, {len(self.data)} values)"
