"""Test files that a change may break, the nearest first: `hack/test --changed`.

The graph is that of imports between modules of the product, of `hack`, of `tests/support` and tests, read as text. A
file that is not a module (a page, a template of the chart) counts as imported by each file that names it. A test that
imports a changed module itself is nearer than one that reaches it through others. Nearly every component test reaches
every module of the gateway, so the nearest are taken until their recorded seconds fill BUDGET_S.

    python -m affected_tests [REVISION]      prints the files to run; to standard error, what it left out
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ("crds", "operator", "gateway", "tests/support", "hack/benchmarks", "hack")
"""Folders on Python's path. If two contain a file, the first determines its module name."""
BUDGET_S: Final = 150.0
"""Budget in processor seconds for the selected tests: a little over a minute on two cores."""
UNRECORDED_S: Final = 5.0
"""Processor seconds assumed for a file without recorded seconds."""
SECONDS: Final = "FAIRLEAD_TEST_SECONDS"
"""Environment variable with the file of recorded seconds by test file, which `hack/test` updates."""


def module_of(file: Path) -> str:
    """Name under which a file is imported. For `tests/…` it is the path, because nothing imports tests."""
    for source in SOURCES:
        if file.is_relative_to(source):
            parts = file.relative_to(source).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return str(file)


def imports_of(text: str, module: str, *, package: bool = False) -> Iterator[str]:
    """Names that a module may import: for `from a import b` both `a` and `a.b`, and the packages above each."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_packages(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[: None if package and node.level == 1 else -(node.level - package)]
                base = ".".join([*above, *([base] if base else [])])
            yield from _with_packages(base)
            for alias in node.names:
                yield f"{base}.{alias.name}"


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])


def distances(texts: Mapping[Path, str], changed: Iterable[Path]) -> dict[Path, int]:
    """Imports between each file and the nearest changed one; files that reach none are missing.

    Args:
        texts: Text of each Python file, by its path below the root.
        changed: Paths below the root, also of files that are not Python.
    """
    changed = list(changed)
    modules = {module_of(file): file for file in texts}
    importers: defaultdict[Path, set[Path]] = defaultdict(set)
    for file, text in texts.items():
        for name in imports_of(text, module_of(file), package=file.name == "__init__.py"):
            if (imported := modules.get(name)) and imported != file:
                importers[imported].add(file)
    for path in changed:
        if path.suffix != ".py":
            importers[path] = {file for file, text in texts.items() if path.name in text}
    nearest = dict.fromkeys(changed, 0)
    queue = deque(changed)
    while queue:
        file = queue.popleft()
        for importer in importers[file]:
            if importer not in nearest:
                nearest[importer] = nearest[file] + 1
                queue.append(importer)
    return nearest


def choose(nearest: Mapping[Path, int], seconds: Mapping[str, float], budget_s: float) -> tuple[list[Path], list[Path]]:
    """Test files within the budget (the nearest first, among these the fastest first), and the files that are left out.

    A changed test file is always run.
    """
    tests = [file for file in nearest if file.name.startswith("test_")]
    tests.sort(key=lambda file: (nearest[file], seconds.get(str(file), UNRECORDED_S), file))
    chosen: list[Path] = []
    left: list[Path] = []
    spent_s = 0.0
    for file in tests:
        cost_s = seconds.get(str(file), UNRECORDED_S)
        if nearest[file] == 0 or spent_s + cost_s <= budget_s:
            chosen.append(file)
            spent_s += cost_s
        else:
            left.append(file)
    return chosen, left


def _changed_files(revision: str) -> list[Path]:
    git = ("git", "-c", "core.quotePath=off")
    differing = subprocess.run(
        [*git, "diff", "--name-only", revision], cwd=ROOT, capture_output=True, text=True, check=True
    )
    new = subprocess.run(
        [*git, "ls-files", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [Path(line) for line in (differing.stdout + new.stdout).splitlines()]


def main(revision: str) -> None:
    changed = _changed_files(revision)
    folders = ("crds", "operator", "gateway", "tests", "hack")
    files = [file.relative_to(ROOT) for folder in folders for file in (ROOT / folder).rglob("*.py")]
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file in files if "node_modules" not in file.parts}
    record = Path(os.environ.get(SECONDS, os.devnull))
    seconds = json.loads(record.read_text() or "{}") if record.exists() else {}
    nearest = distances(texts, changed)
    chosen, left = choose({file: far for file, far in nearest.items() if (ROOT / file).exists()}, seconds, BUDGET_S)
    sys.stdout.write("".join(f"{file}\n" for file in chosen))
    told = f"{len(changed)} changed files since {revision}: {len(chosen)} test files, the nearest by imports"
    sys.stderr.write(f"{told}; {len(left)} more reach the change, which `hack/test` runs\n" if left else f"{told}\n")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["HEAD"]))
