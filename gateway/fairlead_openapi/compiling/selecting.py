"""Selects operations by globs on `operationId`, tag and `METHOD /path`. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fairlead_api.policies.globs import Glob
from fairlead_openapi.compiling.naming import OperationKey


class OperationFilter:
    """Operations that match an `include` (or any, if there is no `include`), and no `exclude`."""

    def __init__(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> None:
        self._include = [Glob(pattern) for pattern in include]
        self._exclude = [Glob(pattern) for pattern in exclude]
        self._unmatched_patterns = {glob.pattern for glob in (*self._include, *self._exclude)}

    def selects(self, key: OperationKey, tags: Sequence[str]) -> bool:
        """Whether an operation is selected."""
        names = [name for name in (str(key), key.operation_id, *tags) if name]
        is_included = self._matches(self._include, names)
        is_excluded = self._matches(self._exclude, names)
        return (is_included or not self._include) and not is_excluded

    def unmatched_patterns(self) -> Iterator[str]:
        """Patterns that no operation matched so far."""
        yield from sorted(self._unmatched_patterns)

    def _matches(self, globs: list[Glob], names: list[str]) -> bool:
        matching = [glob.pattern for glob in globs if any(glob.matches(name) for name in names)]
        self._unmatched_patterns.difference_update(matching)
        return bool(matching)
