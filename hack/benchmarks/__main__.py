"""The command behind `hack/bench`: finds a benchmark by name, runs it, prints Markdown and writes JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairlead_tools.version import COMPILED
from rig import history
from rig.harness import Report, Settings, Unmeasurable
from rig.processes import leave_on_sigterm

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Benchmark:
    """One file `SUBJECT/bench_NAME.py`: its module, and the first line of its docstring."""

    module: str
    about: str


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name."""
    by_name = {}
    for file in sorted(FOLDER.glob("*/bench_*.py"), key=lambda file: file.stem):
        first = file.read_text().split('"""', 2)[1].strip().splitlines()[0]
        by_name[file.stem.removeprefix("bench_")] = Benchmark(f"{file.parent.name}.{file.stem}", first)
    return by_name


def machine() -> dict[str, Any]:
    """Description of the machine: cores, processor, kernel, Python."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": model,
        "kernel": platform.release(),
        "python": f"{platform.python_version()}{', path compiled' if COMPILED else ''}",
    }


def commit() -> str:
    """Commit that is measured, with `+changes` if the work tree has uncommitted changes; `unknown` outside a
    repository.
    """
    described = ["git", "-C", str(FOLDER), "describe", "--always", "--dirty=+changes", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(described, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout.strip() or "unknown"


def parse(words: list[str]) -> argparse.Namespace:
    """Parse the command line. Exits with 2 and the usage if it is wrong."""
    names = benchmarks()
    listing = "\n".join(f"  {name:12} {benchmark.about}" for name, benchmark in names.items())
    parser = argparse.ArgumentParser(
        prog="hack/bench", epilog=f"benchmarks:\n{listing}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=names, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; not for quoting")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    parser.add_argument("--history", type=Path, metavar="FILE", help="also append the ratios to a history")
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="default 5 (faults: 3), with --quick 1")
    parser.add_argument("--realtime", action="store_true", help="real-time priority for every part (needs root)")
    parser.add_argument("--peers", action="store_true", help="also other products, where NAME knows some")
    parser.add_argument("--long", action="store_true", help="also what takes minutes, where NAME has such")
    parser.add_argument("--enforce", action="store_true", help="exit 1 where a goal is not met, or not measured")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also draw a chart, where NAME has one")
    parser.add_argument("--plots", action="store_true", help="also draw pictures into the docs, where NAME has some")
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="chaos: how many, default 100")
    parser.add_argument("--from", dest="first_seed", type=int, default=0, metavar="SEED", help="chaos: the first one")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PART",
        help="only that part of NAME, where it has some; repeatable",
    )
    if not words:
        parser.print_help()
        parser.exit(2)
    return parser.parse_args(words)


def remember(file: Path, report: Report, where: dict[str, Any], what: str) -> None:
    """Append the ratios of a report to a history file, which is created if it is missing."""
    lines = history.lines_of(report, date=datetime.now(UTC).date().isoformat(), commit=what, machine=where)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as end:
        end.write(history.encode(lines))


def judge(words: list[str]) -> int:
    """`history FILE`: print how each ratio compares with its previous nights. Returns 1 if a ratio has failed,
    2 without a history.

    `--accept RATIO` first makes the last value of that ratio the beginning of a new baseline.
    """
    parser = argparse.ArgumentParser(prog="hack/bench history")
    parser.add_argument("file", type=Path, metavar="FILE", help="JSON lines, as --history appends them")
    parser.add_argument("--accept", default="", metavar="RATIO", help="take its last night as a new baseline")
    arguments = parser.parse_args(words)
    try:
        lines = history.decode(arguments.file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        print(f"hack/bench history: {arguments.file}: {error}", file=sys.stderr)
        return 2
    if arguments.accept:
        last = {line.machine: line for line in lines if line.ratio == arguments.accept}
        if not last:
            print(f"hack/bench history: no ratio {arguments.accept!r} in {arguments.file}", file=sys.stderr)
            return 2
        accepted = [replace(line, accepted=True) for line in last.values()]
        with arguments.file.open("a", encoding="utf-8") as end:
            end.write(history.encode(accepted))
        lines += accepted
    trends = history.trends(lines)
    print(history.to_markdown(trends))
    return 1 if any(trend.verdict == "failed" for trend in trends) else 0


def main(words: list[str]) -> int:
    """Return exit code 0 if the measurement succeeded, else 1. Missed goals change the exit code only on request. The
    JSON file always contains the results so far of a long benchmark.
    """
    if words[:1] == ["history"]:
        return judge(words[1:])
    arguments = parse(words)
    if arguments.quick and arguments.history:
        print("hack/bench: ratios of --quick are not for a history", file=sys.stderr)
        return 2
    where, what = machine(), commit()

    def keep(report: Report) -> None:
        if arguments.json:
            arguments.json.write_text(json.dumps(report.to_json(where, what), indent=1) + "\n")

    benchmark = importlib.import_module(benchmarks()[arguments.name].module)
    rounds = arguments.rounds or (1 if arguments.quick else getattr(benchmark, "ROUNDS", 5))
    settings = Settings(
        rounds=rounds,
        quick=arguments.quick,
        realtime=arguments.realtime,
        peers=arguments.peers,
        long=arguments.long,
        svg=arguments.svg,
        plots=arguments.plots,
        only=tuple(arguments.only),
        seeds=arguments.seeds,
        first_seed=arguments.first_seed,
        keep=keep,
    )
    try:
        settings.check_parts(getattr(benchmark, "PARTS", ()))
        report: Report = benchmark.run(settings)
    except Unmeasurable as error:
        print(f"hack/bench {arguments.name}: {error}", file=sys.stderr)
        return 1
    print(report.to_markdown(where, what))
    keep(report)
    if arguments.history:
        remember(arguments.history, report, where, what)
    if arguments.enforce and not report.all_met:
        print(f"hack/bench {arguments.name}: a goal is not met, or nothing was measured for it", file=sys.stderr)
        return 1
    return 1 if report.failures else 0


if __name__ == "__main__":
    leave_on_sigterm()
    sys.exit(main(sys.argv[1:]))
