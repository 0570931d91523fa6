"""Tool calls while REST conversions run: the change of a call's p99.

A gateway is called without and with a second client, which repeatedly posts 500 or 20 definitions to `/v1/convert`. The
p99 of consecutive windows are compared. There are many short windows, because other work of a shared machine changes
the p99 of a window by half, in both kinds. Gateway and its processes may use two cores, as the load and the upstream
may: on a machine with two, a conversion also costs what sharing a core costs, unless it gives way.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gateway.gateways import VERSIONS, Target
from rig.definitions import definition
from rig.harness import Goal, Sample, Unmeasurable, interleaved, ratios
from rig.loadtools import Load, Outcome, run_load
from rig.processes import Stage, ordinary

CONNECTIONS = (1, 8)
AT_MOST = 1.1
WINDOWS = 20
"""Windows of each kind in a round: without and with conversions. The median of 60 pairs is accurate to five
hundredths."""
SECONDS, WARMUP = 0.6, 0.2
"""Seconds of a window and of its warm-up: about as long as a conversion waits for its turn."""
SIZES = {"no": 0, "large": 500, "small": 20}
"""Definitions in one conversion. A large one runs in a separate process, a small one in the gateway's thread."""


@dataclass
class Conversions:
    """Work of the converting client in a window."""

    done: int = 0
    seconds: list[float] = field(default_factory=list)
    failure: str = ""


@dataclass
class Beside:
    """Calls on a number of connections while conversions of one size run, by number of the window."""

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)
    """Conversions a second."""


Case = tuple[int, str]
"""(connections, size of the conversions, a key of SIZES)."""


def work(count: int) -> bytes:
    """A body of /v1/convert."""
    rng = random.Random(1)
    tools = [definition(index, rng) for index in range(count)]
    return json.dumps({"from": "mcp", "to": "anthropic", "tools": tools}).encode()


@contextmanager
def converting(port: int, body: bytes) -> Iterator[Conversions]:
    """Run one conversion after the other until the block ends; begins after the first one has finished."""
    conversions, ending = Conversions(), threading.Event()
    headers = {"Content-Type": "application/json"}

    def post() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            while not ending.is_set():
                began = time.monotonic()
                connection.request("POST", "/v1/convert", body, headers)
                answer = connection.getresponse()
                if answer.status != 200 or len(answer.read()) < len(body) // 2:
                    conversions.failure = f"/v1/convert answered {answer.status}"
                    return
                conversions.done += 1
                conversions.seconds.append(time.monotonic() - began)
        except OSError as error:
            conversions.failure = f"/v1/convert: {error}"
        finally:
            connection.close()

    def beside() -> None:
        with ordinary():  # a conversion must not delay a call
            post()

    thread = threading.Thread(target=beside)
    thread.start()
    try:
        yield conversions
    finally:
        ending.set()
        thread.join()


def measure(stage: Stage, target: Target, era: str, upstream: int, windows: int) -> dict[Case, Beside]:
    """Measure `windows` windows of each case. `upstream` is the process that answers `target`, on the load's core."""
    core = max(os.sched_getaffinity(0))
    bodies = {size: work(count) for size, count in SIZES.items()}
    by_case: dict[Case, Beside] = defaultdict(Beside)
    for connections in CONNECTIONS:
        load = Load(target.port, "/mcp", target.tool(era), VERSIONS[era], connections, SECONDS, WARMUP)
        for number, size in interleaved(list(SIZES), windows):
            case = by_case[connections, size]
            if size == "no":
                case.outcomes[number] = run_load(stage, load, target.pid, [upstream], core=core)
                continue
            with converting(target.port, bodies[size]) as conversions:
                case.outcomes[number] = run_load(stage, load, target.pid, [upstream], core=core)
            if conversions.failure or not conversions.done:
                raise Unmeasurable(conversions.failure or "no conversion came to an end")
            case.rates.append(conversions.done / sum(conversions.seconds))
    return by_case


def moved(by_case: dict[Case, Beside], connections: int, size: str) -> Sample | None:
    """Ratio of the p99 during conversions to that of the paired window without conversions; None for `no`."""
    if size == "no":
        return None
    alone, beside = (by_case[connections, which].outcomes for which in ("no", size))
    return ratios({n: o.p99 for n, o in beside.items()}, {n: o.p99 for n, o in alone.items()})


def goals(by_case: dict[Case, Beside]) -> list[Goal]:
    """One goal for each size and number of connections."""
    goals = []
    for connections, size in by_case:
        sample = moved(by_case, connections, size)
        if sample is not None:
            name = f"p99 while {SIZES[size]} tools at a time are converted over REST, {connections} connections"
            goals.append(Goal(name, sample.median, "× alone", at_most=AT_MOST))
    return goals
