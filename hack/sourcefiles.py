"""Python files of a tree, read and parsed, and the report of findings. Shared by the checks of `hack/check`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class SourceFile(NamedTuple):
    """One Python file."""

    name: str
    """Path from the root, with slashes."""
    text: str
    tree: ast.Module


def source_files(root: Path, folders: Iterable[str]) -> Iterator[SourceFile]:
    """Python files below some folders of `root`, sorted by path within each folder. Raises SyntaxError."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if "node_modules" not in path.parts:
                name, text = path.relative_to(root).as_posix(), path.read_text("utf-8")
                yield SourceFile(name, text, ast.parse(text, name))


def report(findings: Iterable[str]) -> int:
    """Print findings, one per line, and return the exit code: 1 if there are any."""
    code = 0
    for finding in findings:
        print(finding)
        code = 1
    return code
