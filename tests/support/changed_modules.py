"""Loads modules with a changed text, for example without a guard or with a mutation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

Change = Callable[[str], str]
"""Changes the text of a module before it is loaded. Raises ImportError if the change cannot be applied."""


class ChangedLoader(SourceFileLoader):
    """Loads a module with a changed text. The bytecode is not cached."""

    def __init__(self, name: str, path: str, change: Change) -> None:
        super().__init__(name, path)
        self._change = change

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._change(Path(self.path).read_text("utf-8")), self.path, "exec", dont_inherit=True)


class ChangedModuleFinder(MetaPathFinder):
    """Finds and changes one module, and leaves all others to the other finders."""

    def __init__(self, module: str, change: Change) -> None:
        self._module = module
        self._change = change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == self._module else None
        if spec is not None and spec.origin is not None:
            spec.loader = ChangedLoader(fullname, spec.origin, self._change)
        return spec
