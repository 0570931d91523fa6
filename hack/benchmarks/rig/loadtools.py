"""Builds and runs the load generator and the fast upstream, which are written in C, and reads their results.

`load/mcpload.c` checks every answer (status, result, the number of its own call); `load/mcpup.c` echoes. Python
would be the bottleneck on both sides of what is measured.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rig.harness import Unmeasurable
from rig.processes import CpuTime, Stage, cpu_time, machine_time, tree_memory

SOURCES = Path(__file__).resolve().parent / "load"
BARE = "bare"
"""Instead of a protocol version: a client that does not use MCP."""
ERAS = {"2025-11-25": "hs", "2026-07-28": "modern", BARE: "bare"}
"""mcpload's name for each protocol version of the client."""
SET_UP_SECONDS: Final = 120
"""Maximum seconds for connecting and handshakes before a load is given up."""


def built(name: str, *options: str) -> Path:
    """Path of the program `name`, which is compiled with `options` into the cache under the hash of its source. Raises
    Unmeasurable without a C compiler.
    """
    source = SOURCES / f"{name}.c"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead" / "bench"
    program = cache / f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if program.exists():
        return program
    if (compiler := shutil.which("gcc") or shutil.which("cc")) is None:
        raise Unmeasurable("a C compiler is needed for the load generator: install gcc")
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [compiler, "-O2", "-w", *options, "-o", unfinished, source],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise Unmeasurable(f"{source.name} did not compile: {done.stderr[-800:]}")
    unfinished.rename(program)
    return program


AWAKE_MICROSECONDS = 1000
"""How long load and upstream look for the next message before they sleep, where they are to stay awake.

A process that writes to one that sleeps pays for waking it, 3 to 10 µs if it is on another core of a virtual machine,
and it sleeps the more often the slower the hop is. A hop whose clients and servers are on other machines pays nothing
for that.
"""


@dataclass(frozen=True)
class Load:
    """One measurement: closed loop of `connections` for `seconds` after `warmup`, calling `tool`."""

    port: int
    path: str
    tool: str
    era: str
    connections: int
    seconds: float
    warmup: float
    text: int = 20
    """Bytes of text to echo, without the number of the call."""
    members: str = ""
    """Raw JSON members of the arguments, in addition to the text."""
    tools: int = 0
    """If not 0, `tool` is a format with one `%d`, and the calls cycle through this number of tools."""
    kind: str = "call"
    """Kind of request: `call`, `list` (of tools), `prompt`, `rest` for `POST /v1/tool-calls`, or `body`."""
    body: Path | None = None
    """File with the body of every request of the kind `body`; `########` in it becomes the number of the call, which
    is then looked for in the answer.
    """
    expected: str = ""
    """Text of every good answer to a `body`."""
    numbered: bool = True
    """Whether answers say the number of the call."""
    capabilities: str = ""
    """Capabilities that the clients declare, as JSON; empty for none."""
    token: bool = False
    """Whether each call has a progress token."""
    accept: str = ""
    """The `Accept` header; empty for JSON before event streams, as most clients send it."""
    rate: float = 0.0
    """Calls per second, with latencies measured from the time when a call was due; 0 for a closed loop."""
    header: str = ""
    """One additional header line of every request, without its end."""
    interval: float = 0.0
    """Seconds per window, if the slowest answer of each window is to be reported; 0 for no windows."""
    awake: bool = False
    """Whether to poll for answers for AWAKE_MICROSECONDS before sleeping. Cannot be combined with a rate."""
    calls: int = 0
    """Number of calls after which the load ends, if `seconds` have not passed; 0 for any number."""

    @property
    def words(self) -> list[str]:
        """Command-line arguments of mcpload."""
        words = ["-P", str(self.port), "-u", self.path, "-N", self.tool, "-c", str(self.connections)]
        words += ["-T", str(self.seconds), "-w", str(self.warmup), "-e", ERAS[self.era], "-b", str(self.text)]
        words += ["-R", str(self.tools), "-A", self.members, "-r", str(self.rate), "-n", str(self.calls)]
        words += ["-i", str(self.interval * 1000)] if self.interval else []
        words += ["-y", str(AWAKE_MICROSECONDS)] if self.awake else []
        words += ["-x", self.header] if self.header else []
        words += ["-C", self.capabilities] if self.capabilities else []
        words += ["-a", self.accept] if self.accept else []
        words += ["-k"] if self.token else []
        words += ["-B", str(self.body), "-E", self.expected] if self.body else []
        words += [] if self.numbered else ["-p"]
        return [*words, "-m", self.kind]


@dataclass(frozen=True)
class Outcome:
    """Result of one load. Times in microseconds; `cpu` is per call, of the measured process tree."""

    calls_per_second: float
    p50: float
    p99: float
    p999: float
    worst: float
    cpu_user: float
    cpu_system: float
    utilization: float
    """Cores that the measured tree used."""
    foreign: float
    """Cores that other work on the machine used meanwhile."""
    calls: int = 0
    rss: int = 0
    """Memory in bytes of the measured process tree, at the end."""
    collections: int = 0
    """Full garbage collections of the measured process, including those of the warm-up; 0 if it does not report
    them."""
    collecting: float = 0.0
    """Seconds that the collections took."""
    worst_each: tuple[float, ...] = ()
    """Slowest call among those that were due in each window of the load's `interval`."""

    @property
    def cpu(self) -> float:
        return self.cpu_user + self.cpu_system


@dataclass(frozen=True)
class _Reading:
    at: float
    measured: CpuTime
    others: float
    machine: float


def run_load(
    stage: Stage,
    load: Load,
    measured: int,
    helpers: list[int],
    *,
    core: int,
    started: Callable[[], object] = lambda: None,
) -> Outcome:
    """Load one target and read the processor time of process tree `measured` over the same window.

    `helpers` are the other processes of the benchmark, which are not foreign work. `started` is called when the
    warm-up is over. Raises Unmeasurable when any answer was wrong: a client that does not check measures error pages.
    """
    command: list[str | Path] = [built("mcpload"), *load.words]
    process = stage.start("load", command, core=core, stdout=subprocess.PIPE)
    bound = load.warmup + load.seconds + SET_UP_SECONDS
    return outcome_of(stage, process, [measured], [process.pid, *helpers], bound, started)


def outcome_of(
    stage: Stage,
    process: subprocess.Popen[bytes],
    measured: Sequence[int],
    helpers: Sequence[int],
    seconds: float,
    started: Callable[[], object] = lambda: None,
) -> Outcome:
    """Read the answer of a started program that speaks as mcpload does, with the processor time of the process trees
    `measured` over the same window. The program is ended, after `seconds` at the latest. Raises Unmeasurable.
    """
    assert process.stdout is not None
    bound = threading.Timer(seconds, process.kill)
    bound.daemon = True
    bound.start()

    def reading() -> _Reading:
        others = sum(cpu_time(pid).total for pid in helpers)
        own = [cpu_time(pid) for pid in measured]
        spent = CpuTime(sum(each.user for each in own), sum(each.system for each in own))
        return _Reading(time.monotonic(), spent, others, machine_time())

    begin = end = None
    answer = log = b""
    for line in process.stdout:
        if line.startswith(b"START"):
            started()
            begin = reading()
        elif line.startswith(b"{"):
            end, answer = reading(), line
            break
        else:
            log += line
    bound.cancel()
    memory = sum(tree_memory(pid) for pid in measured)
    stage.end(process)
    if begin is None or end is None:
        why = log.decode(errors="replace")[-600:].strip()
        raise Unmeasurable(f"the load generator gave up ({process.returncode}): {why}")
    return replace(_outcome(json.loads(answer), begin, end), rss=memory)


def _outcome(answer: dict[str, Any], begin: _Reading, end: _Reading) -> Outcome:
    errors = {key: answer[key] for key in ("err_http", "err_rpc", "err_text") if answer[key]}
    if errors or not answer["calls"]:
        raise Unmeasurable(f"{answer['calls']} calls, wrong answers: {errors}; one of them: {answer['sample']!r}")
    seconds = end.at - begin.at
    calls = float(answer["calls"]) * seconds / float(answer["secs"])  # within the same window as the CPU readings
    spent = end.measured - begin.measured
    foreign = (end.machine - begin.machine) - spent.total - (end.others - begin.others)
    return Outcome(
        calls_per_second=float(answer["rps"]),
        p50=float(answer["p50_us"]),
        p99=float(answer["p99_us"]),
        p999=float(answer["p999_us"]),
        worst_each=tuple(answer["worst"]),
        worst=float(answer["max_us"]),
        calls=int(answer["calls"]),
        cpu_user=spent.user / calls * 1e6,
        cpu_system=spent.system / calls * 1e6,
        utilization=spent.total / seconds,
        foreign=max(0.0, foreign) / seconds,
    )
