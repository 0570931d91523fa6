"""Check that no limit of layout is met by a trick. Run from `hack/check`.

Prints `FILE:LINE: what is wrong; what to write instead` per finding and exits with 1 when there is one.

Rules: the formatter lays out every statement (no `fmt: skip`, no `fmt: off`) · attributes are assigned one to a
statement. Two stand in one where a value reads what another target had before (`task, self._task = self._task, None`),
and where one value is unpacked (`self.host, self.port = pair`).
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from sourcefiles import report, source_files

FOLDERS = ("crds", "operator", "gateway", "hack")
UNFORMATTED = re.compile(r"#\s*fmt:\s*(skip|off)\b")


def main() -> int:
    """Print all findings of the working directory, and return the exit code of the program."""
    return report(finding for file in source_files(Path(), FOLDERS) for finding in read_file(*file))


def read_file(name: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Findings of one file: comments that stop the formatter, then assignments, each by line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (comment := UNFORMATTED.search(token.string)):
            yield f'{name}:{token.start[0]}: "{comment[0]}"; take it out and let ruff lay the statement out'
    for node in sorted(ast.walk(tree), key=lambda node: getattr(node, "lineno", 0)):
        if isinstance(node, ast.Assign) and is_crowded(node):
            yield f"{name}:{node.lineno}: several attributes are assigned in one tuple; write a statement for each"


def is_crowded(node: ast.Assign) -> bool:
    """Whether a tuple of values is assigned to attributes although no value reads one of the other targets."""
    target, value = node.targets[0], node.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return False
    targets = [ast.unparse(part) for part in target.elts]
    if not any(isinstance(part, ast.Attribute) for part in target.elts):
        return False
    reads = [{ast.unparse(part) for part in ast.walk(value) if isinstance(part, ast.expr)} for value in value.elts]
    return not any(
        name in read for index, name in enumerate(targets) for other, read in enumerate(reads) if index != other
    )


if __name__ == "__main__":
    sys.exit(main())
