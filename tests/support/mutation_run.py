"""Runs tests against mutants of modules: `hack/mutants`.

First the tests run once, and coverage records which test reaches which line in this process. Then mutants of reached
lines are chosen by a seed. Each mutant runs with the tests that reach its line: first with those of the merge scope,
and if none of these fails, with all of them as in a nightly run, with more examples of each property. Child processes
of tests run the unchanged module.

    python -m mutation_run MODULE… [--tests PATH…] [--count N] [--seed N]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import coverage

import coverage_contexts
import examples
import mutated
import run_record
from mutants import Mutant, mutants_of

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ("crds", "operator", "gateway")
BUDGET_S: Final = 20.0
"""Budget in seconds for the tests of one mutant, measured without the mutation. The fastest tests are selected."""
MOST_TESTS: Final = 200
SLOWER: Final = 3.0
"""Multiple of the budget after which a mutant counts as hanging."""
BASELINE_S: Final = 1_800.0


@dataclass(frozen=True)
class RecordedTest:
    """A test that reaches a line: its seconds, and whether it runs only at night."""

    nodeid: str
    wall_s: float
    night: bool


@dataclass(frozen=True)
class Target:
    """A module with the tests that reach its lines."""

    module: str
    path: Path
    tests: Mapping[int, Sequence[RecordedTest]]


def file_of(module: str) -> Path:
    """File of a module. Raises SystemExit if no folder of the product contains it."""
    for source in SOURCES:
        path = ROOT / source / Path(*module.split(".")).with_suffix(".py")
        if path.exists():
            return path
    raise SystemExit(f"hack/mutants: no module {module} in {', '.join(SOURCES)}")


def reached_targets(modules: Sequence[str], paths: Sequence[str], folder: Path) -> list[Target]:
    """Run the tests once. Raises SystemExit if they fail, because mutants then cannot be judged."""
    files = [file_of(module) for module in modules]
    config = folder / "coveragerc"
    included = "".join(f"\n    {file}" for file in files)
    config.write_text(f"[run]\ndata_file = {folder}/coverage\ninclude = {included}\n")
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={config}", "-m", "pytest", "-q"]
    words = ["-p", "no:cacheprovider", "-m", "not e2e"]
    environment = {**os.environ, coverage_contexts.VARIABLE: "tests", run_record.RECORD: str(folder / "record")}
    done = subprocess.run(
        [*command, *words, *paths], cwd=ROOT, env=environment, stdout=sys.stderr, timeout=BASELINE_S, check=False
    )
    if done.returncode:
        raise SystemExit("hack/mutants: the tests have to pass without a mutant")
    night = set(coverage_contexts.OF_NIGHT)
    tests = {
        event["test"]: RecordedTest(event["test"], event["wall_s"], bool(night & {*event.get("marks", ())}))
        for event in run_record.read(folder / "record")
        if event.get("outcome") == "passed"
    }
    data = coverage.CoverageData(str(folder / "coverage"))
    data.read()
    targets = []
    for module, file in zip(modules, files, strict=True):
        lines: defaultdict[int, list[RecordedTest]] = defaultdict(list)
        for line, contexts in data.contexts_by_lineno(str(file)).items():
            lines[line] = sorted((tests[name] for name in contexts if name in tests), key=lambda test: test.wall_s)
        targets.append(Target(module, file, lines))
    return targets


def choose_mutants(targets: Sequence[Target], count: int, seed: int) -> list[tuple[Target, Mutant]]:
    """Mutants of lines that a test reaches, in the order of the modules. Deterministic for a seed."""
    every = [
        (target, mutant)
        for target in targets
        for mutant in mutants_of(target.path.read_text("utf-8"))
        if target.tests.get(mutant.line)
    ]
    chosen = random.Random(seed).sample(range(len(every)), min(count, len(every)))
    return [every[index] for index in sorted(chosen)]


def within_budget(tests: Iterable[RecordedTest]) -> Iterator[str]:
    """Ids of the fastest tests within the budget; at least one."""
    spent_s = 0.0
    for number, test in enumerate(tests):
        spent_s += test.wall_s
        if number and (spent_s > BUDGET_S or number >= MOST_TESTS):
            return
        yield test.nodeid


def kills(target: Target, mutant: Mutant, tests: Sequence[RecordedTest], **environment: str) -> bool:
    """Whether a test fails with these environment variables, the module cannot be loaded, or the tests hang."""
    if not tests:
        return False
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "mutated", "-p", "no:cacheprovider"]
    described = {mutated.VARIABLE: mutated.describe(target.module, mutant)}
    try:
        done = subprocess.run(
            [*command, *within_budget(tests)],
            cwd=ROOT,
            env={**os.environ, **environment, **described},
            capture_output=True,
            timeout=BUDGET_S * SLOWER,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def fate(target: Target, mutant: Mutant) -> str:
    """`killed` if tests of a merge kill it, `night` if only nightly tests do, else `lives`."""
    tests = target.tests[mutant.line]
    if kills(target, mutant, [test for test in tests if not test.night]):
        return "killed"
    # twice, because a test may fail by chance on a busy machine
    by_night = (kills(target, mutant, tests, **{examples.NIGHTLY: "yes"}) for _ in range(2))
    return "night" if all(by_night) else "lives"


def main(words: Sequence[str]) -> int:
    """Return exit code 1 if only nightly tests kill a mutant: the merge scope misses a fault."""
    parser = argparse.ArgumentParser(prog="hack/mutants")
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="such as fairlead_formats.pairs.pair")
    parser.add_argument("--tests", nargs="+", default=["tests/unit"], metavar="PATH", help="default: tests/unit")
    parser.add_argument("--count", type=int, default=30, metavar="N", help="mutants, default 30")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which of them, default 1")
    arguments = parser.parse_args(words)
    fates: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        targets = reached_targets(arguments.modules, arguments.tests, Path(folder))
    for target, mutant in choose_mutants(targets, arguments.count, arguments.seed):
        end = fate(target, mutant)
        fates[end] += 1
        sys.stdout.write(f"{end:7}  {target.path.relative_to(ROOT)}:{mutant.line}  {mutant}\n")
        sys.stdout.flush()
    sys.stdout.write(
        f"seed {arguments.seed}: {fates.total()} mutants, {fates['killed']} killed at a merge, "
        f"{fates['night']} by night alone, {fates['lives']} live\n"
    )
    return 1 if fates["night"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
