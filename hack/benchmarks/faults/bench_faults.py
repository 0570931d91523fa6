"""Faults on a real cluster under constant load: lost calls, wrong answers, and the time until recovery.

Fairlead is installed by its chart on the cluster of hack/cluster, which is started if needed. The faults break the
cluster's programs, pods and network. Clients outside and inside of the cluster make 60 calls a second to three healthy
servers, two clients of the official SDK two each, and every answer is checked. A separate load calls the server that
faults happen to. `FAULTS=kubelet,etcd` in the environment selects the rows whose names contain one of these words. Each
round has every fault once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from faults.breaking import FAULTS, Course, Fault, both_rolled
from faults.node import CLUSTER, RUN
from faults.redis import Redis
from faults.world import Whole, World, world
from installation import CommandFailed, installed, load_images
from installation import run as run_command
from rig.harness import Cell, Goal, Report, Sample, Settings, Unmeasurable
from steadyload import WRONG
from steadyloads import Told

ROUNDS: Final = 3
LONGEST: Final = 90.0
GOAL_SECONDS: Final = 10.0
GOAL_LONGEST_CALL: Final = 1.0
"""Seconds, half of which are the tool's own."""
ROLLED: Final = "both rolled"
GRACE: Final = 0.25
"""Seconds after a kill in which a client may still send on a connection whose end it has not read yet."""
EXPECTED: Final = {"ok", "CONNECTION_LOST", "BREAKER_OPEN", "TIMEOUT", "RATE_LIMITED", "no answer"}
"""Outcomes that are allowed for a call to a server that is down."""


@dataclass
class Outcome:
    """Results of one fault."""

    fault: Fault
    course: Course
    loads: list[Told]
    victim: Told
    whole: Whole | None
    problem: str = ""

    @property
    def lost(self) -> int:
        return sum(len(told.bad) for told in self.loads)

    @property
    def in_flight(self) -> int:
        """Calls that were open at any gateway when a gateway was killed."""
        return sum(told.open_then for told in self.loads) if self.course.killed else 0

    @property
    def excess(self) -> int:
        """Lost calls beyond those that were open on the killed gateway."""
        killed = self.course.killed
        return sum(call["began"] > killed + GRACE or not killed for told in self.loads for call in told.bad)

    @property
    def wrong(self) -> int:
        """Wrong answers, including those to callers of the broken server, and errors that do not say what happened."""
        killed = self.course.killed
        odd = len([c for c in self.victim.bad if c["outcome"] not in EXPECTED and c["began"] > killed + GRACE])
        return odd + len([call for told in self.loads for call in told.bad if call["outcome"] == WRONG])

    @property
    def reconnects(self) -> int:
        return sum(told.reconnects for told in self.loads)

    @property
    def calls(self) -> int:
        return sum(told.calls for told in self.loads)

    @property
    def longest(self) -> float:
        """Longest duration of an answered call, in seconds."""
        return max(told.longest_ms for told in self.loads) / 1000

    def slowest(self) -> str:
        """Longest answered call of each load, with its tool. `add_slowly` itself takes half a second."""
        every = [(ms, tool, told.where) for told in self.loads for tool, ms in told.longest_by_tool_ms.items()]
        return ", ".join(f"{tool} {ms:.0f} ms ({where})" for ms, tool, where in sorted(every, reverse=True)[:4])

    def seen(self) -> str:
        """Summary of the outcomes in one line."""
        whole = f"whole after {self.whole.ours:.1f} s, reported after {self.whole.reported:.1f} s" if self.whole else ""
        lost = f"{self.lost} of {self.calls} lost, {self.in_flight} in flight, {self.wrong} wrong"
        return f"{lost}, {whole}; slowest {self.slowest()}"

    def notes(self) -> list[str]:
        """Lost calls, with the error messages of their clients."""
        kinds = Counter(
            f"{t.where}: {c['tool']}: {c['outcome']} {c['detail'][:120]}" for t in self.loads for c in t.bad
        )
        lines = [f"{self.fault.name}: {count} × {kind}" for kind, count in kinds.most_common(6)]
        told = Counter(call["outcome"] for call in self.victim.bad)
        if told:
            seen = ", ".join(f"{count} {outcome}" for outcome, count in told.most_common())
            lines.append(
                f"{self.fault.name}: of {self.victim.calls} calls to the server concerned {self.victim.good} "
                f"were answered, the others told {seen}"
            )
        return [*lines, *(f"{self.fault.name}: {words}" for words in (self.course.note, self.problem) if words)]


def measured(here: World, fault: Fault, quick: bool) -> Outcome:
    """Cause a fault, repair it, wait until everything has recovered, and count outcomes."""
    print(f"{time.strftime('%H:%M:%S')} {fault.name}", file=sys.stderr)
    begun, whole, problem, course = time.time(), None, "", Course()
    try:
        if fault.fresh:
            here.converged(both_rolled(here, quick).healed, seconds=LONGEST)
            begun = time.time()
        course = fault.happens(here, quick)
        whole = here.converged(course.healed, seconds=LONGEST, also=course.also)
    except (Unmeasurable, CommandFailed, subprocess.TimeoutExpired) as error:
        problem = str(error)
        run_command(CLUSTER, "up")  # later faults need a working cluster, whatever this fault broke
    time.sleep(2)
    here.quiet()
    outcome = Outcome(fault, course, here.report(begun, course.killed), here.of_victim(begun), whole, problem)
    course.finish()
    print("\n  ".join(["", outcome.seen(), *outcome.notes()]), file=sys.stderr)
    return outcome


def row(outcomes: Sequence[Outcome]) -> dict[str, Cell]:
    """Row of one fault over its rounds."""
    whole = [outcome.whole for outcome in outcomes if outcome.whole]
    killed = [outcome.in_flight for outcome in outcomes if outcome.course.killed]
    return {
        "fault": outcomes[0].fault.name,
        "rounds": len(outcomes),
        "calls": sum(outcome.calls for outcome in outcomes),
        "lost": Sample.of(outcome.lost for outcome in outcomes),
        "in flight when killed": Sample.of(killed) if killed else None,
        "connections tried again": Sample.of(outcome.reconnects for outcome in outcomes),
        "wrong answers": sum(outcome.wrong for outcome in outcomes),
        "longest call (s)": round(max(outcome.longest for outcome in outcomes), 1),
        "whole after (s)": Sample.of(round(each.ours, 1) for each in whole) if whole else None,
        "and all pods called ready (s)": Sample.of(round(each.reported, 1) for each in whole) if whole else None,
    }


def possible() -> None:
    """Name the faults that can be caused here. Raises Unmeasurable if the cluster of hack/cluster is not available."""
    mine = RUN / "admin.kubeconfig"
    if os.environ.get("KUBECONFIG") not in (None, "", str(mine)):
        raise Unmeasurable("faults are made on the cluster of hack/cluster alone: unset KUBECONFIG")
    try:
        os.environ["KUBECONFIG"] = run_command(CLUSTER, "up", seconds=1200).strip()
    except CommandFailed as error:
        raise Unmeasurable(str(error)) from error


def run_faults(settings: Settings) -> list[Outcome]:
    """Run the faults one after the other."""
    chosen = [fault for fault in FAULTS if fault.quick or not settings.quick]
    if only := os.environ.get("FAULTS"):
        chosen = [fault for fault in FAULTS if any(word in fault.name for word in only.split(","))]
    with tempfile.TemporaryDirectory(prefix="fairlead-faults-") as folder:
        Path(folder).chmod(0o755)
        with (
            Redis(Path(folder)) as redis,
            installed(f"redis.url={redis.url}") as installation,
            world(installation, Path(folder), redis) as here,
        ):
            return [measured(here, fault, settings.quick) for _ in range(settings.rounds) for fault in chosen]


def run(settings: Settings) -> Report:
    """Run the benchmark; see `harness`."""
    possible()
    load_images("fairlead", "fairlead-listener", "fairlead-demo")
    outcomes = run_faults(settings)
    names = dict.fromkeys(outcome.fault.name for outcome in outcomes)
    report = Report("faults", [row([o for o in outcomes if o.fault.name == name]) for name in names])
    report.goals = [
        Goal(
            "calls lost that were not in flight on what was killed", sum(o.excess for o in outcomes), "calls", at_most=0
        ),
        Goal("calls lost beyond those in flight", max(o.lost - o.in_flight for o in outcomes), "calls", at_most=0),
        Goal("wrong answers", sum(o.wrong for o in outcomes), "answers", at_most=0),
        _slowest("the slowest to be whole again", [o.whole.ours if o.whole else None for o in outcomes]),
        _slowest("and all pods called ready", [o.whole.reported if o.whole else None for o in outcomes]),
        *(
            Goal("longest call while both are rolled", outcome.longest, "s", at_most=GOAL_LONGEST_CALL)
            for outcome in outcomes
            if outcome.fault.name == ROLLED
        ),
    ]
    report.notes = [note for outcome in outcomes for note in outcome.notes()]
    return report


def _slowest(name: str, seconds: Sequence[float | None]) -> Goal:
    measured = [each for each in seconds if each is not None]
    return Goal(name, max(measured) if len(measured) == len(seconds) else None, "s", at_most=GOAL_SECONDS)
