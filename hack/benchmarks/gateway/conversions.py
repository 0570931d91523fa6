"""Tool calls while REST conversions run: the change of a call's p99.

A gateway is called alone and while a client of its own posts definitions to `/v1/convert` again and again, 500 at a
time or 20; the p99 of windows that follow each other are compared. The windows are short and many: other work of a
shared machine moves the p99 of a window by half, in either kind. Gateway and its processes may use two cores, as the
load and the upstream may: on a machine with two, a conversion also costs what sharing a core costs, unless it gives
way.
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
"""Windows of each kind in a round: alone, and while converting. The median of 60 pairs is good for five hundredths."""
SECONDS, WARMUP = 0.6, 0.2
"""Seconds of a window and of its warm-up: about as long as a conversion waits for its turn."""
SIZES = {"no": 0, "large": 500, "small": 20}
"""Definitions in one conversion: a large one is done in a process, a small one in the gateway's thread."""


@dataclass
class Conversions:
    """Work of the converting client in a window."""

    done: int = 0
    seconds: list[float] = field(default_factory=list)
    failure: str = ""


@dataclass
class Beside:
    """Calls of one number of connections beside conversions of one size, in windows by their number."""

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)
    """Conversions a second."""


Case = tuple[int, str]
"""(connections, what is converted meanwhile, of SIZES)."""


def work(count: int) -> bytes:
    """A body of /v1/convert."""
    rng = random.Random(1)
    tools = [definition(index, rng) for index in range(count)]
    return json.dumps({"from": "mcp", "to": "anthropic", "tools": tools}).encode()


@contextmanager
def converting(port: int, body: bytes) -> Iterator[Conversions]:
    """One conversion after the other, from the first one's end to the end of the block."""
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
        with ordinary():  # a conversion goes before no call
            post()

    thread = threading.Thread(target=beside)
    thread.start()
    try:
        yield conversions
    finally:
        ending.set()
        thread.join()


def measure(stage: Stage, target: Target, era: str, upstream: int, windows: int) -> dict[Case, Beside]:
    """So many windows of each case. `upstream` is the process that answers `target`, on the load's core."""
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
    """The p99 of calls beside conversions over that of the window alone that belongs to it; None for `no`."""
    if size == "no":
        return None
    alone, beside = (by_case[connections, which].outcomes for which in ("no", size))
    return ratios({n: o.p99 for n, o in beside.items()}, {n: o.p99 for n, o in alone.items()})


def goals(by_case: dict[Case, Beside]) -> list[Goal]:
    """One for each size and number of connections."""
    goals = []
    for connections, size in by_case:
        sample = moved(by_case, connections, size)
        if sample is not None:
            name = f"p99 while {SIZES[size]} tools at a time are converted over REST, {connections} connections"
            goals.append(Goal(name, sample.median, "× alone", at_most=AT_MOST))
    return goals
