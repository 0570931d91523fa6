"""Python files of a tree, read and parsed, and the report of findings: shared by the checks of `hack/check`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class SourceFile(NamedTuple):
    """One file."""

    name: str
    """Path from the root, with slashes."""
    text: str
    tree: ast.Module


def source_files(root: Path, folders: Iterable[str]) -> Iterator[SourceFile]:
    """Python files below some folders of `root`, each folder's in the order of their paths. Raises SyntaxError."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if "node_modules" not in path.parts:
                name, text = path.relative_to(root).as_posix(), path.read_text("utf-8")
                yield SourceFile(name, text, ast.parse(text, name))


def report(findings: Iterable[str]) -> int:
    """Print findings, one a line; the exit code of the program: 1 when there is one."""
    code = 0
    for finding in findings:
        print(finding)
        code = 1
    return code
