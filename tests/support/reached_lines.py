"""Lines and branches that the tests of a merge reach, and those that only nightly tests reach, by coverage.

    python -m reached_lines keep DATA FILE       read coverage's data, write FILE, print what only the night reaches
    python -m reached_lines lost BEFORE AFTER    print what the merge's tests reached in BEFORE and not in AFTER

Files are JSON: branches `[from, to]`, by scope and by path below the root. For a line that is not reached at all, only
the line is reported and not its branches.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import coverage

from coverage_contexts import MERGE, NIGHT

ROOT: Final = Path(__file__).resolve().parents[2]
Branches = set[tuple[int, int]]
Reach = dict[str, Branches]
"""Branches by path; their ends are the reached lines."""


def read_data(file: Path) -> dict[str, Reach]:
    """Branches by scope. Code that runs outside of tests, such as imported modules, is in the scope of merges."""
    data = coverage.CoverageData(str(file))
    data.read()
    reach: dict[str, Reach] = {MERGE: {}, NIGHT: {}}
    for scope, pattern in ((NIGHT, rf"(^|\|){NIGHT}$"), (MERGE, rf"^$|(^|\|){MERGE}$")):
        data.set_query_contexts([pattern])
        for path in data.measured_files():
            if branches := data.arcs(path):
                reach[scope][str(Path(path).relative_to(ROOT))] = {*branches}
    return reach


def missing_lines(before: Mapping[str, Branches], after: Mapping[str, Branches]) -> Iterator[tuple[str, list[str]]]:
    """Lines (`7`) and branches (`7->9`) by path that are in `before` and not in `after`. A negative end is the exit of
    a function. A moved line counts as another line.
    """
    for path, branches in sorted(before.items()):
        reached = after.get(path, set())
        lines = {line for branch in reached for line in branch}
        lost_lines = sorted({line for branch in branches for line in branch if line > 0} - lines)
        lost = [str(line) for line in lost_lines]
        lost += [
            f"{start}->{end if end > 0 else 'exit'}"
            for start, end in sorted(branches - reached)
            if start in lines and (end in lines or end < 0)
        ]
        if lost:
            yield path, lost


def _write(file: Path, reach: Mapping[str, Reach]) -> None:
    document = {
        scope: {path: sorted(branches) for path, branches in sorted(paths.items())} for scope, paths in reach.items()
    }
    file.write_text(json.dumps(document))


def _read(file: Path) -> dict[str, Reach]:
    return {
        scope: {path: {(start, end) for start, end in branches} for path, branches in paths.items()}
        for scope, paths in json.loads(file.read_text()).items()
    }


def _tell(title: str, rows: list[tuple[str, list[str]]]) -> None:
    count = sum(len(lost) for _, lost in rows)
    sys.stdout.write(f"{title}: {count} lines and branches in {len(rows)} files\n")
    for path, lost in rows:
        sys.stdout.write(f"  {path}: {', '.join(lost)}\n")


def main(verb: str, first: str, second: str) -> int:
    """Return exit code 1 if a line or branch is lost."""
    if verb == "keep":
        reach = read_data(Path(first))
        _write(Path(second), reach)
        _tell("Reached by night alone", list(missing_lines(reach[NIGHT], reach[MERGE])))
        return 0
    lost = list(missing_lines(_read(Path(first))[MERGE], _read(Path(second))[MERGE]))
    _tell("Reached by the merge before and not now", lost)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
