"""Tool calls while REST conversions run: what the p99 of a call moves by.

Two gateways over one echoing upstream: one converts in processes (the default), one in its own thread. Each is called
alone and while a client of its own posts definitions to `/v1/convert` again and again, 500 at a time or 20; the p99 of
windows that follow each other are compared. The windows are short and many: what else a shared machine does moves the
p99 of a window by half, whichever it falls into. Gateway and its processes may use two cores, as the load and the
upstream may: on a machine with two, a conversion also costs what sharing a core costs, unless it gives way.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fairlead_api.documents.codec import catalog_name, encode
from fairlead_api.meta import ServerKey
from gateway.gateways import VERSIONS, catalog, start_upstream
from ports import free_port
from rest.bench_plan import definition
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, interleaved, ratios
from rig.loadtools import Load, Outcome, run_load
from rig.processes import Stage, become_realtime, ordinary

ERA = "modern"
CONNECTIONS = (1, 8)
GOAL = 1.1
WINDOWS = {"processes": 20, "thread": 2}
"""Of each kind in a round: alone, and while converting. The median of 60 pairs is good for five hundredths."""
SECONDS, WARMUP = 0.6, 0.2
"""Of a window: twice as long as a conversion waits for its turn."""
SIZES = {"no": 0, "large": 500, "small": 20}
"""Definitions in one conversion: a large one is done in a process, a small one in the gateway's thread."""


@dataclass(frozen=True)
class Target:
    """One gateway."""

    name: str
    port: int
    pid: int


@dataclass
class Conversions:
    """What the converting client got done in a window."""

    done: int = 0
    seconds: list[float] = field(default_factory=list)
    failure: str = ""


def start(stage: Stage, name: str, processes: int, upstream: int) -> Target:
    """A gateway on any core."""
    documents = stage.folder / f"documents-{processes}"
    documents.mkdir()
    (documents / f"{catalog_name(ServerKey('default', ERA))}.json").write_bytes(encode(catalog(ERA, upstream)))
    fairlead = Path(sys.executable).with_name("fairlead")
    port = free_port()
    command: list[str | Path] = [fairlead, "gateway", "--documents", documents, "--host", "127.0.0.1"]
    command += ["--port", str(port), "--metrics-port", str(free_port())]
    every = sorted(os.sched_getaffinity(0))
    environment = {**os.environ, "FAIRLEAD_REST_PROCESSES": str(processes)}
    process = stage.start(name, command, core=every[0], env=environment)
    os.sched_setaffinity(process.pid, every)
    stage.wait_ready(name, process, port, "/readyz")
    return Target(name, port, process.pid)


def work(count: int) -> bytes:
    """A body of /v1/convert."""
    rng = random.Random(1)
    tools = [definition(place, rng) for place in range(count)]
    return json.dumps({"from": "mcp", "to": "anthropic", "tools": tools}).encode()


@contextmanager
def converting(port: int, body: bytes) -> Iterator[Conversions]:
    """One conversion after the other, from the first one's end to the end of the block."""
    found, ending = Conversions(), threading.Event()
    headers = {"Content-Type": "application/json"}

    def post() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            while not ending.is_set():
                began = time.monotonic()
                connection.request("POST", "/v1/convert", body, headers)
                answer = connection.getresponse()
                if answer.status != 200 or len(answer.read()) < len(body) // 2:
                    found.failure = f"/v1/convert answered {answer.status}"
                    return
                found.done += 1
                found.seconds.append(time.monotonic() - began)
        except OSError as error:
            found.failure = f"/v1/convert: {error}"
        finally:
            connection.close()

    def beside() -> None:
        with ordinary():  # whoever converts goes before no call
            post()

    thread = threading.Thread(target=beside)
    thread.start()
    try:
        yield found
    finally:
        ending.set()
        thread.join()


Case = tuple[str, int, str]
"""(gateway, connections, what is converted meanwhile, of SIZES)."""


def measure(stage: Stage, settings: Settings) -> tuple[dict[Case, dict[int, Outcome]], dict[Case, list[float]]]:
    """Outcomes by case and pair; conversions a second, by case too."""
    every = sorted(os.sched_getaffinity(0))
    rest = every[-1]
    upstream = start_upstream(stage, "upstream", rest)
    targets = [start(stage, name, count, upstream.port) for name, count in (("processes", 1), ("thread", 0))]
    bodies = {size: work(count) for size, count in SIZES.items()}
    outcomes, rates = defaultdict[Case, dict[int, Outcome]](dict), defaultdict[Case, list[float]](list)
    rounds = 1 if settings.quick else settings.rounds
    for connections in CONNECTIONS:
        for target in targets:
            load = Load(target.port, "/mcp", f"{ERA}__echo", VERSIONS[ERA], connections, SECONDS, WARMUP)
            for number, size in interleaved(list(SIZES), rounds * WINDOWS[target.name]):
                if size == "no":
                    outcome = run_load(stage, load, target.pid, [upstream.pid], core=rest)
                else:
                    with converting(target.port, bodies[size]) as found:
                        outcome = run_load(stage, load, target.pid, [upstream.pid], core=rest)
                    if found.failure or not found.done:
                        raise Unmeasurable(found.failure or "no conversion came to an end")
                    rates[target.name, connections, size].append(found.done / sum(found.seconds))
                outcomes[target.name, connections, size][number] = outcome
    return outcomes, rates


def run(settings: Settings) -> Report:
    """Measure; raises Unmeasurable where something does not start or any answer is wrong."""
    if settings.realtime:
        become_realtime()
    with Stage() as stage:
        outcomes, rates = measure(stage, settings)
    report = Report("rest")
    for (name, connections, size), rounds in outcomes.items():
        alone = {r: o.p99 for r, o in outcomes[name, connections, "no"].items()}
        moved = None if size == "no" else ratios({r: o.p99 for r, o in rounds.items()}, alone)
        report.rows.append(
            {
                "conversions in": name,
                "connections": connections,
                "conversions": size,
                "conversions/s": None if size == "no" else Sample.of(rates[name, connections, size]),
                "calls/s": Sample.of(o.calls_per_second for o in rounds.values()),
                "p50 µs": Sample.of(o.p50 for o in rounds.values()),
                "p99 µs": Sample.of(o.p99 for o in rounds.values()),
                "foreign cores": Sample.of(o.foreign for o in rounds.values()),
                "× p99 alone": moved,
            }
        )
        if size != "no" and name == "processes":
            value = None if moved is None else moved.median
            goal = f"p99 while {size} ones are converted, {connections} connections"
            report.goals.append(Goal(goal, value, "× alone", at_most=GOAL))
    return report
