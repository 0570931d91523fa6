"""Faults on a real cluster under constant load: what was lost, what was answered wrongly, how soon all is whole again.

Fairlead is installed by its chart on the cluster of hack/cluster, which this starts where needed; its programs, pods
and network are what is broken. Clients outside and inside of the cluster make 60 calls a second to three healthy
servers, two clients of the official SDK two each, and every answer is checked. A server that faults happen to has a
load of its own. `FAULTS=kubelet,etcd` in the environment takes only those rows whose names have one of these words.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fault_list import CLUSTER, FAULTS, RUN, Course, Fault
from fault_redis import Redis
from fault_world import World, world
from harness import Cell, Goal, Report, Settings, Unmeasurable
from installation import CommandFailed, installed, load_images
from installation import run as command
from steadyload import WRONG
from steadyloads import Told

LONGEST: Final = 90.0
GOAL_SECONDS: Final = 10.0
GRACE: Final = 0.25
"""Seconds after a kill in which a client may still be sending on a connection whose end it has not read."""
EXPECTED: Final = {"ok", "CONNECTION_LOST", "BREAKER_OPEN", "TIMEOUT", "RATE_LIMITED", "no answer"}
"""What a call to a server that is down may be told."""


@dataclass
class Outcome:
    """One fault, measured."""

    fault: Fault
    course: Course
    loads: list[Told]
    victim: Told
    whole: float | None
    problem: str = ""

    @property
    def lost(self) -> int:
        return sum(len(told.bad) for told in self.loads)

    @property
    def in_flight(self) -> int:
        """Calls that were open when a gateway was killed, at any gateway."""
        return sum(told.open_then for told in self.loads) if self.course.killed else 0

    @property
    def excess(self) -> int:
        """Lost calls that were not open on what was killed."""
        killed = self.course.killed
        return sum(call["began"] > killed + GRACE or not killed for told in self.loads for call in told.bad)

    @property
    def wrong(self) -> int:
        """Also those to callers of the server that was broken, and words that do not say what became of it."""
        killed = self.course.killed
        odd = len([c for c in self.victim.bad if c["outcome"] not in EXPECTED and c["began"] > killed + GRACE])
        return odd + len([call for told in self.loads for call in told.bad if call["outcome"] == WRONG])

    def row(self) -> dict[str, Cell]:
        return {
            "fault": self.fault.name,
            "calls": sum(told.calls for told in self.loads),
            "lost": self.lost,
            "in flight when killed": self.in_flight if self.course.killed else None,
            "connections tried again": sum(told.reconnects for told in self.loads),
            "wrong answers": self.wrong,
            "longest call (s)": round(max(told.longest_ms for told in self.loads) / 1000, 1),
            "whole again after (s)": None if self.whole is None else round(self.whole, 1),
        }

    def notes(self) -> list[str]:
        """What was lost, in the words of those who lost it."""
        kinds = Counter(
            f"{t.where}: {c['tool']}: {c['outcome']} {c['detail'][:120]}" for t in self.loads for c in t.bad
        )
        found = [f"{self.fault.name}: {count} × {kind}" for kind, count in kinds.most_common(6)]
        told = Counter(call["outcome"] for call in self.victim.bad)
        if told:
            seen = ", ".join(f"{count} {outcome}" for outcome, count in told.most_common())
            found.append(f"{self.fault.name}: of {self.victim.calls} calls to the server concerned {self.victim.good} "
                         f"were answered, the others told {seen}")  # fmt: skip
        return [*found, f"{self.fault.name}: {self.problem}"] if self.problem else found


def measured(here: World, fault: Fault, quick: bool) -> Outcome:
    """Break, mend, wait until all is whole, count."""
    print(f"{time.strftime('%H:%M:%S')} {fault.name}", file=sys.stderr)
    begun, whole, problem, course = time.time(), None, "", Course()
    try:
        course = fault.happens(here, quick)
        whole = here.converged(course.healed, seconds=LONGEST, also=course.also)
    except (Unmeasurable, CommandFailed, subprocess.TimeoutExpired) as error:
        problem = str(error)
    course.finish()
    time.sleep(2)
    here.quiet()
    outcome = Outcome(fault, course, here.told(begun, course.killed), here.of_victim(begun), whole, problem)
    print(f"  {outcome.row()} {outcome.notes()}", file=sys.stderr)
    return outcome


def possible() -> None:
    """Raises Unmeasurable where the cluster of hack/cluster cannot be had; it is what can be broken."""
    mine = RUN / "admin.kubeconfig"
    if os.environ.get("KUBECONFIG") not in (None, "", str(mine)):
        raise Unmeasurable("faults are made on the cluster of hack/cluster alone: unset KUBECONFIG")
    try:
        os.environ["KUBECONFIG"] = command(CLUSTER, "up", seconds=1200).strip()
    except CommandFailed as error:
        raise Unmeasurable(str(error)) from error


def run_faults(settings: Settings) -> list[Outcome]:
    """One after the other."""
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
            return [measured(here, fault, settings.quick) for fault in chosen]


def run(settings: Settings) -> Report:
    """See `harness`."""
    possible()
    load_images("fairlead", "fairlead-demo")
    outcomes = run_faults(settings)
    whole = [outcome.whole for outcome in outcomes]
    report = Report("faults", [outcome.row() for outcome in outcomes])
    lost, wrong = sum(outcome.excess for outcome in outcomes), sum(outcome.wrong for outcome in outcomes)
    report.goals = [
        Goal("calls lost that were not in flight on what was killed", lost, "calls", at_most=0),
        Goal("wrong answers", wrong, "answers", at_most=0),
        Goal(
            "the slowest to be whole again",
            max((w for w in whole if w is not None), default=None) if None not in whole else None,
            "s", at_most=GOAL_SECONDS,
        ),
    ]  # fmt: skip
    report.notes = [note for outcome in outcomes for note in outcome.notes()]
    return report
