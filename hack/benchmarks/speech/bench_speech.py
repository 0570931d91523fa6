"""Speech sessions through the gateway: what it adds to a frame of audio, a call of a tool, and what a session costs.

A provider (`provider.py`) that costs next to nothing is spoken to by the same clients (`client.py`) itself and through
the gateway, in turns: frames of 40 ms both ways in every session. The gateway runs on one core, provider and clients on
another. Delays are one way, by the clock that all processes of a machine share.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.gateways import catalog, contents, gateway_over, padded, start_upstream, write_documents
from ports import free_port
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, interleaved
from rig.processes import Stage, become_realtime, cores, cpu_time, tree_memory

ROUNDS: Final = 5
PARTS: Final = ("realtime/calls", "realtime/most", "live/calls", "live/most")
SESSIONS: Final = 100
MORE: Final = (200, 300, 400, 600)
"""Numbers of sessions to try, until one is too many."""
MOST_MS: Final = 5.0
TOOLS: Final = 12
SECONDS: Final = 300
"""Maximum duration of one load in seconds."""
LIVE_PATH: Final = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
HERE: Final = Path(__file__).resolve().parent
MODEL: Final = "gemini-3.8-live"
BARE, OURS = "provider alone", "fairlead"
REALTIME, LIVE = "realtime", "live"
NAMES: Final = {REALTIME: "OpenAI Realtime", LIVE: "Gemini Live"}
"""Names of the protocols."""


@dataclass(frozen=True)
class Target:
    """A server of OpenAI Realtime or Gemini Live."""

    through: str
    port: int
    pid: int
    wire: str
    """REALTIME or LIVE."""

    @property
    def name(self) -> str:
        """Name in the rows."""
        return f"{self.through}, {NAMES[self.wire]}"

    @property
    def parameters(self) -> dict[str, str]:
        """Address and protocol for clients."""
        path = LIVE_PATH if self.wire == LIVE else f"/v1/realtime?model={MODEL}"
        return {"url": f"http://127.0.0.1:{self.port}{path}", "wire": self.wire, "model": MODEL}


@dataclass(frozen=True)
class Outcome:
    """Results of one load; times in milliseconds."""

    up: Sequence[float]
    down: Sequence[float]
    calls: Sequence[float]
    cores: float
    """Processor time of the measured tree, in seconds per second."""
    memory: float
    """Growth of memory in MB while the sessions were open."""

    @property
    def late(self) -> float:
        """p99 of the delay in the slower direction."""
        return max(statistics.quantiles(each, n=100)[-1] for each in (self.up, self.down))

    @property
    def usual(self) -> float:
        """Median delay in the slower direction."""
        return max(statistics.median(each) for each in (self.up, self.down))


@dataclass
class Found:
    """Results by target, one for each round."""

    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    most: list[tuple[str, int, float, float]] = field(default_factory=list)
    """Name, sessions, cores and p99 of each step of the ramp."""


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if a process does not start or a frame is lost."""
    if settings.realtime:
        become_realtime()
    wires = [wire for wire in NAMES if settings.wants(f"{wire}/calls") or settings.wants(f"{wire}/most")]
    with Stage() as stage:
        core, other = cores()
        port, pid = _provider(stage, other)
        upstream = start_upstream(stage, "upstream", other)
        figures, seconds = Found(), 5 if settings.quick else 20
        bare = [Target(BARE, port, pid, wire) for wire in wires]
        ours = [_fairlead(stage, port, upstream.port, core, wire) for wire in wires]
        for target in ours:
            _loaded(stage, target, 4, 1.0, 1, other)  # creates what is created only once
        for _, target in interleaved([*bare, *ours], settings.rounds):
            calls = 20 if target in ours and settings.wants(f"{target.wire}/calls") else 0
            figures.outcomes.setdefault(target.name, []).append(_loaded(stage, target, SESSIONS, seconds, calls, other))
        for target in ours:
            if settings.wants(f"{target.wire}/most") and not settings.quick:
                _ramp(stage, target, seconds, other, figures)
    return _report(figures, wires, settings)


def _ramp(stage: Stage, target: Target, seconds: float, core: int, figures: Found) -> None:
    """Increase the number of sessions until there are too many."""
    for sessions in MORE:
        outcome = _loaded(stage, target, sessions, seconds, 0, core)
        figures.most.append((target.name, sessions, outcome.cores, outcome.late))
        if outcome.late > MOST_MS * 4 or outcome.cores > 0.97:
            return


def _provider(stage: Stage, core: int) -> tuple[int, int]:
    """Port and process of the provider, which speaks both protocols."""
    port = free_port()
    process = stage.start("provider", [sys.executable, HERE / "provider.py", str(port)], core=core)
    stage.wait_listening("provider", process, port)
    return port, process.pid


def _fairlead(stage: Stage, provider: int, upstream: int, core: int, wire: str) -> Target:
    """A separate gateway for each protocol, because a gateway would reuse memory that sessions of the other one have
    released.
    """
    documents = stage.folder / wire
    tools = tuple(padded(f"tool_{number}") for number in range(TOOLS - 1))
    write_documents(documents, contents([catalog("modern", upstream, tools=tools)], decided=False))
    routes = stage.folder / f"{wire}.yaml"
    base = f"http://127.0.0.1:{provider}"
    served = {"baseUrl": base, "kind": "gemini"} if wire == LIVE else {"baseUrl": f"{base}/v1"}
    routes.write_text(json.dumps({"providers": {"provider": {**served, "models": [MODEL]}}}))
    bounds = {"FAIRLEAD_SPEECH_SESSIONS": "10000", "FAIRLEAD_CLIENT_CONNECTIONS_EACH": "10000"}
    started = gateway_over(stage, documents, core, "--routes", routes, name=f"gateway of {wire}", **bounds)
    return Target(OURS, started.port, started.pid, wire)


def _loaded(stage: Stage, target: Target, sessions: int, seconds: float, calls: int, core: int) -> Outcome:
    """Run clients, and read the processor time of the target meanwhile. Raises Unmeasurable."""
    parameters: dict[str, Any] = {**target.parameters, "sessions": sessions, "seconds": seconds, "calls": calls}
    before = tree_memory(target.pid)
    words: list[str | Path] = [sys.executable, HERE / "client.py", json.dumps(parameters)]
    process = stage.start("clients", words, core=core, stdout=subprocess.PIPE)
    assert process.stdout is not None
    bound = threading.Timer(SECONDS, process.kill)
    bound.daemon = True
    bound.start()
    began = spent = cpu_time(target.pid)
    grown, answer = 0, b""
    for line in process.stdout:
        if line.startswith(b"START"):
            began = cpu_time(target.pid)
        elif line.startswith(b"SPOKEN"):
            spent, grown = cpu_time(target.pid) - began, tree_memory(target.pid) - before
        else:
            answer = line
    bound.cancel()
    stage.end(process)
    try:
        figures: dict[str, Any] = json.loads(answer)
    except ValueError as error:
        raise Unmeasurable(f"{target.name}: {answer[-300:].decode(errors='replace')}") from error
    if figures["frames"] < sessions * seconds * 24:
        raise Unmeasurable(f"{target.name}: {figures['frames']} frames came back, of {sessions * seconds * 25:.0f}")
    return Outcome(figures["up"], figures["down"], figures["calls"], spent.total / seconds, grown / 1e6)


def _report(figures: Found, wires: Sequence[str], settings: Settings) -> Report:
    report = Report("speech")
    for name, outcomes in figures.outcomes.items():
        calls = [statistics.median(each.calls) for each in outcomes if each.calls]
        report.rows.append(
            {
                "through": name,
                "one way p50 ms": Sample.of([each.usual for each in outcomes]),
                "one way p99 ms": Sample.of([each.late for each in outcomes]),
                "cores": Sample.of([each.cores for each in outcomes]),
                "KB a session": Sample.of([each.memory * 1000 / SESSIONS for each in outcomes]),
                "tool call ms": Sample.of(calls) if calls else None,
            }
        )
    for wire in wires:
        ours, bare = (figures.outcomes[f"{through}, {NAMES[wire]}"] for through in (OURS, BARE))
        late = statistics.median(each.late - base.usual for each, base in zip(ours, bare, strict=True))
        goal = f"p99 that a frame of {NAMES[wire]} gains, {SESSIONS} sessions"
        report.goals.append(Goal(goal, late, "ms", at_most=MOST_MS))
    report.notes = [
        f"{name}, {number} sessions: {used:.2f} cores, p99 {ms:.1f} ms" for name, number, used, ms in figures.most
    ]
    if settings.quick:
        report.notes.append("--quick: not for quoting")
    return report
