"""The path of a call in instructions of the processor, for each kind of client: to two per cent the same on a busy
machine as on an idle one.

The gateway of `hack/bench gateway` runs with sockets under valgrind's callgrind, which counts the instructions of a
process outside the kernel. Two loads that differ in their number of calls are compared, so that the cost of connecting
and of handshakes cancels out; each ends when all its calls are answered, so that their difference is exact. The
gateway's clock runs SLOWNESS times slower, as its periodic work would otherwise be a sixth of what is counted, more
where the machine is busy; at full speed it is a thousandth. An instruction takes 0.25 to 0.4 ns here. A growth by a
thousand instructions is visible at once, while `hack/bench gateway` would need an idle machine for an hour to show it.

--long adds the functions that the row's instructions go to, with those that they call.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fairlead_tools.version import COMPILED
from gateway.gateways import (
    Target,
    ask_for_rest,
    contents,
    gateway_over,
    start_upstream,
    world,
    write_documents,
)
from gateway.workloads import BRIEF, KINDS, PLAIN, REST, SATURATED, Workload, slug
from rig.harness import Goal, Report, Settings, Unmeasurable
from rig.loadtools import built, run_load
from rig.processes import Stage, cores

CALLS: Final = 4_000
"""Number of calls by which the second load is longer than the first."""
REST_CALLS: Final = 200
"""Like CALLS, for REST calls, each of which takes twenty times as long."""
WARMING: Final = 2
"""Number of loads that are not counted, at first: they create views, and fill the caches of heads and schemas."""
PAIRS: Final = 3
"""Number of pairs of loads, of which the median counts: in one of them the gateway may open forty connections to its
server, 85,000 instructions each, because more calls are in flight at once than ever before."""
SLOWNESS: Final = 1_000
"""How many seconds one second of the gateway's clocks takes. Valgrind makes a call 50 to 400 times slower."""
SECONDS: Final = 300.0
"""Maximum duration of a load in seconds; valgrind is slow."""
MOST: Final = {"legacy": 62_000, "modern": 68_000}
"""Maximum instructions of a plain call with the compiled path, by era: a tenth more than CPython 3.11 takes that was
built without profile-guided optimization. Debian's takes an eighth less. A larger number means that the path itself has
changed.
"""
FUNCTIONS: Final = 40
PARTS: Final = tuple(slug(workload.name) for workload in BRIEF)
"""Names for --only."""
_TOTAL: Final = re.compile(r"^totals: (\d+)", re.MULTILINE)
_FUNCTION: Final = re.compile(r"\s*([\d,]+) \([^)]*\)\s+\S*?:(\S+)")


@dataclass(frozen=True)
class Counted:
    """The gateway under callgrind, which writes its counts into `folder`."""

    stage: Stage
    gateway: Target
    folder: Path

    def control(self, *words: str) -> None:
        """Send a command to callgrind. Raises Unmeasurable."""
        command = ["callgrind_control", *words, str(self.gateway.pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise Unmeasurable(f"{' '.join(command)}: {done.stdout[-300:]}{done.stderr[-300:]}")

    def call(self, workload: Workload, era: str, calls: int) -> None:
        """Make a number of calls, after the handshakes. Raises Unmeasurable if an answer is wrong."""
        load = workload.load(self.gateway, era, SATURATED, (SECONDS, 0.0))
        run_load(self.stage, replace(load, calls=calls, awake=False), self.gateway.pid, [], core=cores()[1])

    def counts(self, workload: Workload, era: str, calls: int) -> Path:
        """File with the counts of a number of calls, including the preceding handshakes."""
        before = {*self.folder.iterdir()}
        self.control("--zero")
        self.control("--instr=on")
        self.call(workload, era, calls)
        self.control("--instr=off")
        self.control("--dump")
        made = {*self.folder.iterdir()} - before
        if len(made) != 1:
            raise Unmeasurable(f"callgrind wrote {len(made)} files in place of one")
        return made.pop()


def start(stage: Stage) -> Counted:
    """Start the gateway. Raises Unmeasurable without valgrind."""
    for program in ("valgrind", "callgrind_control", "callgrind_annotate"):
        if shutil.which(program) is None:
            raise Unmeasurable(f"{program} is not installed (Debian: valgrind)")
    hop, rest = cores()
    upstreams = {kind: start_upstream(stage, f"upstream-{kind}", rest, *options) for kind, options in KINDS.items()}
    documents, folder = stage.folder / "world", stage.folder / "counted"
    write_documents(documents, contents(list(world({kind: upstream.port for kind, upstream in upstreams.items()}))))
    folder.mkdir()
    words = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/counts"]
    slow = {"LD_PRELOAD": str(built("slowclock", "-shared", "-fPIC")), "SLOWCLOCK": str(SLOWNESS)}
    gateway = gateway_over(stage, documents, hop, name="counted", under=words, **slow)
    return Counted(stage, gateway, folder)


def rows(counted: Counted, settings: Settings) -> Iterator[tuple[dict[str, str | float | None], str]]:
    """One row for each kind of client, and on request the functions of the row."""
    plain: dict[str, float] = {}
    for workload in sorted(BRIEF, key=lambda kind: (kind is REST, kind is not PLAIN)):
        if workload is not PLAIN and not settings.wants(slug(workload.name)):
            continue
        if workload is REST:
            ask_for_rest(counted.gateway)
        calls = (REST_CALLS if workload is REST else CALLS) // (4 if settings.quick else 1)
        for era in workload.eras:
            for _ in range(WARMING):
                counted.call(workload, era, calls)
            pairs = [
                (counted.counts(workload, era, calls), counted.counts(workload, era, 2 * calls)) for _ in range(PAIRS)
            ]
            each, short, long = median_of(pairs, calls)
            if workload is PLAIN:
                plain[era] = each
            row: dict[str, str | float | None] = {
                "workload": workload.name,
                "era": era,
                "instructions": each,
                "× plain": each / plain[era],
            }
            yield row, functions_of(long, short, calls) if settings.long else ""


def median_of(pairs: Sequence[tuple[Path, Path]], calls: int) -> tuple[float, Path, Path]:
    """Instructions of a call by the median of an odd number of pairs, and the files of that pair. The second file of a
    pair has `calls` more than the first. Raises Unmeasurable.
    """
    costs = sorted(((total_of(long) - total_of(short)) / calls, short, long) for short, long in pairs)
    return costs[len(costs) // 2]


def total_of(counts: Path) -> int:
    """Number of instructions in a file of callgrind. Raises Unmeasurable."""
    match = _TOTAL.search(counts.read_text())
    if match is None:
        raise Unmeasurable(f"callgrind wrote no sum into {counts.name}")
    return int(match[1])


def functions_of(long: Path, short: Path, calls: int) -> str:
    """Lines about the functions with the most instructions of a call, including those of functions that they call."""
    counts, less = _inclusive(long), _inclusive(short)
    each = {name: (count - less.get(name, 0)) / calls for name, count in counts.items()}
    most = sorted(each, key=lambda name: -each[name])[:FUNCTIONS]
    return "\n".join(f"    {each[name]:9,.0f}  {name}" for name in most)


def _inclusive(counts: Path) -> dict[str, int]:
    """Instructions by function, including those of functions that it calls. Functions without a name are left out."""
    command = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", str(counts)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    inclusive: dict[str, int] = {}
    for line in told.splitlines():
        function = _FUNCTION.match(line)
        if function is not None and not function[2].startswith("0x"):
            name = function[2].partition("'")[0]
            inclusive[name] = max(inclusive.get(name, 0), int(function[1].replace(",", "")))
    return inclusive


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if an answer is wrong or valgrind is missing."""
    report = Report("instructions")
    with Stage() as stage:
        counted = start(stage)
        for row, functions in rows(counted, settings):
            report.rows.append({**row})
            if COMPILED and row["workload"] == PLAIN.name:
                era, each = str(row["era"]), row["instructions"]
                assert isinstance(each, float)
                report.goals.append(Goal(f"plain call, {era}", each, "instructions", at_most=MOST[era]))
            if functions:
                report.notes.append(f"{row['workload']}, {row['era']}, instructions of a call:\n\n{functions}\n")
            settings.keep(report)
    return report
