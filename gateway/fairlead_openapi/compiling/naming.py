"""Names of tools and arguments. No I/O.

The name of a tool depends only on its operation, so it stays when other operations are added. The exception: if several
operations would have the same name, those whose `operationId` differs from it get a hash of method and path.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fairlead_formats.names import MAX_LENGTH, SAFE, SUFFIX_LENGTH

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_UNSAFE_ARGUMENT: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_EMPTY_BRACKETS: Final = re.compile(r"\[\]\Z")


class OperationKey(msgspec.Struct, frozen=True):
    """Identity of an operation."""

    method: str
    """Upper case."""
    path: str
    operation_id: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def tool_names(keys: Sequence[OperationKey]) -> list[str]:
    """Names of tools that every provider accepts, in the order of the operations."""
    plain_names = [_plain_name(key) for key in keys]
    counts = Counter(plain_names)
    id_counts = Counter(key.operation_id for key in keys)
    names = []
    for key, name in zip(keys, plain_names, strict=True):
        is_unique = counts[name] == 1 or (name == key.operation_id and id_counts[name] == 1)
        names.append(name if is_unique else _with_hash(name, str(key)))
    return names


def _plain_name(key: OperationKey) -> str:
    if SAFE.match(key.operation_id):
        return key.operation_id
    original = key.operation_id or f"{key.method.lower()}{key.path}"
    name = _UNSAFE.sub("_", original).strip("_-") or f"{key.method.lower()}_operation"
    if not name[0].isalpha():
        name = f"t_{name}"
    return name if len(name) <= MAX_LENGTH else _with_hash(name, original)


def _with_hash(name: str, original: str) -> str:
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:SUFFIX_LENGTH]
    return f"{name[: MAX_LENGTH - SUFFIX_LENGTH - 1]}_{digest}"


class ArgumentNames:
    """Names of one tool's arguments: letters, digits, `_`, `.` and `-`, at most 64, each given once."""

    def __init__(self, taken_names: Iterable[str] = ()) -> None:
        self._taken_names = set(taken_names)

    def allot(self, name: str, origin: str) -> str:
        """A free name for a parameter or property. `origin` is `path`, `query`, `header`, `cookie` or `body`; it
        becomes the prefix of a name that is taken.
        """
        plain_name = _UNSAFE_ARGUMENT.sub("_", _EMPTY_BRACKETS.sub("", name)).strip("_") or "argument"
        if name and _UNSAFE_ARGUMENT.sub("", name) == name:
            plain_name = name
        if len(plain_name) > MAX_LENGTH:
            plain_name = _with_hash(plain_name, name)
        candidate = plain_name
        if candidate in self._taken_names:
            candidate = f"{origin}_{plain_name}"[:MAX_LENGTH]
        if candidate in self._taken_names:
            candidate = _with_hash(plain_name, f"{origin} {name}")
        self._taken_names.add(candidate)
        return candidate
