"""Models behind the gateway: time that it adds to a request, a stream and a chunk, compared with LiteLLM's proxy.

The same clients (`client.py`) send requests to a model that costs almost nothing (`model.py`): directly, through the
gateway with twelve injected tools, and through LiteLLM's proxy with one key and no database, in turns. The measured
program runs on one core, model and clients on another. Processor time is that of the whole process tree; times are
those of a client that sends one request after the other.
"""

from __future__ import annotations

import json
import secrets
import statistics
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.gateways import catalog, contents, gateway_over, padded, write_documents
from gateway.peers.peer import environment, venv
from ports import free_port
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, interleaved
from rig.processes import Stage, become_realtime, cores, cpu_time, memory, tree_memory

ROUNDS: Final = 5
PARTS: Final = ("request", "stream", "first", "chunk", "many", "memory")
EVENTS: Final = 53
TOOLS: Final = 12
MANY: Final = 1_000
PATH: Final = "/v1/chat/completions"
HERE: Final = Path(__file__).resolve().parent
BARE, OURS, LITELLM = "model alone", "fairlead", "LiteLLM"
SECONDS: Final = 600
"""Maximum duration of one load in seconds."""


@dataclass(frozen=True)
class Target:
    """A server of the chat API."""

    name: str
    port: int
    pid: int
    key: str = ""


@dataclass(frozen=True)
class Load:
    """Requests of one run of clients."""

    events: int
    gap: int
    """Milliseconds between two chunks."""
    requests: int
    connections: int = 1
    warmup: int = 0
    stream: bool = True
    spread: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """Results of one load. Times in milliseconds."""

    cpu: float
    """Processor time of the measured tree per request."""
    first: float
    """Median until the first text, or until a whole answer."""
    delays: Sequence[float]
    """Delays of the chunks."""
    memory: float
    """MB of the measured tree at the end."""
    alone: float
    """MB of its first process, without its child processes."""


@dataclass
class Found:
    """Results by target, each by round."""

    request: dict[str, list[float]] = field(default_factory=dict)
    stream: dict[str, list[float]] = field(default_factory=dict)
    whole: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, list[float]] = field(default_factory=dict)
    chunk: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, list[float]] = field(default_factory=dict)
    late: dict[str, list[float]] = field(default_factory=dict)
    cores: list[float] = field(default_factory=list)
    """Cores that Fairlead used during MANY streams."""
    grown: list[float] = field(default_factory=list)


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if a process does not start or an answer is wrong."""
    if settings.realtime:
        become_realtime()
    with Stage() as stage:
        core, other = cores()
        model = _model(stage, other)
        ours = _fairlead(stage, model.port, core)
        peers, notes = [], []
        try:
            peers.append(_litellm(stage, model.port, core))
        except Unmeasurable as error:
            notes.append(f"LiteLLM was not measured: {error}")
        figures = Found()
        for _, target in interleaved([model, ours, *peers], settings.rounds):
            _measure(stage, settings, target, other, figures)
        if settings.wants("many"):
            for target in (model, ours):
                _many(stage, settings, target, other, figures)
        if settings.wants("memory"):
            _memory(stage, settings, ours, other, figures)
    return _report(figures, notes, settings)


def _model(stage: Stage, core: int) -> Target:
    port = free_port()
    process = stage.start("model", [sys.executable, HERE / "model.py", str(port)], core=core)
    stage.wait_listening("model", process, port)
    return Target(BARE, port, process.pid)


def _fairlead(stage: Stage, model: int, core: int) -> Target:
    documents = stage.folder / "documents"
    tools = tuple(padded(f"tool_{number}") for number in range(TOOLS - 1))
    write_documents(documents, contents([catalog("modern", 9, tools=tools)], decided=False))
    routes = stage.folder / "routes.yaml"
    provider = {"baseUrl": f"http://127.0.0.1:{model}/v1", "models": ["bench-*"]}
    routes.write_text(json.dumps({"providers": {"model": provider}}))
    limits = {"FAIRLEAD_LLM_REQUESTS": str(2 * MANY), "FAIRLEAD_LLM_REQUESTS_EACH": str(2 * MANY)}
    started = gateway_over(stage, documents, core, "--routes", routes, **limits)
    return Target(OURS, started.port, started.pid)


def _litellm(stage: Stage, model: int, core: int) -> Target:
    program = venv("litellm", "litellm[proxy]", "uvloop") / "litellm"
    port = free_port()
    key = f"sk-{secrets.token_hex(20)}"
    base = {"api_base": f"http://127.0.0.1:{model}/v1", "api_key": "none"}
    names = {f"bench-{events}-{gap}" for events, gap in ((EVENTS, 0), (EVENTS, 5))}
    models = [{"model_name": name, "litellm_params": {"model": f"openai/{name}", **base}} for name in sorted(names)]
    config = stage.folder / "litellm.yaml"
    config.write_text(json.dumps({"general_settings": {"master_key": key}, "model_list": models}))
    words: list[str | Path] = ["--config", config, "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "NO_DOCS": "True"}
    process = stage.start("litellm", [program, *words], core=core, env={**environment(), **quiet})
    stage.wait_listening("litellm", process, port, 120)
    return Target(LITELLM, port, process.pid, key)


def _measure(stage: Stage, settings: Settings, target: Target, core: int, result: Found) -> None:
    """Measure one round of one target."""
    count = (40 if target.name == LITELLM else 400) // (4 if settings.quick else 1)

    def keep(figures: dict[str, list[float]], value: float) -> None:
        figures.setdefault(target.name, []).append(value)

    if settings.wants("request"):
        load = Load(EVENTS, 0, count * 4, connections=8, warmup=count, stream=False)
        keep(result.request, loaded(stage, target, load, core).cpu)
    if settings.wants("stream"):
        outcome = loaded(stage, target, Load(EVENTS, 0, count, connections=8, warmup=count // 4), core)
        keep(result.stream, outcome.cpu)
        keep(result.memory, outcome.memory)
    if settings.wants("first"):
        keep(result.first, loaded(stage, target, Load(EVENTS, 0, count // 2, warmup=10), core).first)
        keep(result.whole, loaded(stage, target, Load(EVENTS, 0, count // 2, warmup=10, stream=False), core).first)
    if settings.wants("chunk"):
        paced = Load(EVENTS, 5, 4 if settings.quick else 16, warmup=1)
        keep(result.chunk, statistics.median(loaded(stage, target, paced, core).delays))


def _many(stage: Stage, settings: Settings, target: Target, core: int, figures: Found) -> None:
    """Measure many streams of five chunks per second at the same time."""
    chunks = 10 if settings.quick else 40
    for _ in range(1 if settings.quick else min(settings.rounds, 3)):
        outcome = loaded(stage, target, Load(chunks, 200, MANY, connections=MANY, spread=2.0), core)
        figures.late.setdefault(target.name, []).append(statistics.quantiles(outcome.delays, n=100)[-1])
        if target.name == OURS:
            figures.cores.append(outcome.cpu * MANY / 1000 / (chunks / 5 + 2))


def _memory(stage: Stage, settings: Settings, target: Target, core: int, figures: Found) -> None:
    """Measure memory over very many streams, beginning after a tenth of them."""
    streams = 4_000 if settings.quick else 100_000
    before = loaded(stage, target, Load(5, 0, streams // 10, connections=16), core).alone
    after = loaded(stage, target, Load(5, 0, streams, connections=16), core).alone
    figures.grown.append(after - before)


def loaded(stage: Stage, target: Target, load: Load, core: int) -> Outcome:
    """Run clients, and read the processor time of the target meanwhile. Raises Unmeasurable."""
    parameters: dict[str, Any] = {
        "port": target.port,
        "path": PATH,
        "key": target.key,
        "model": f"bench-{load.events}-{load.gap}",
        "stream": load.stream,
        "connections": load.connections,
        "requests": load.requests,
        "warmup": load.warmup,
        "events": load.events,
        "spread": load.spread,
    }
    words: list[str | Path] = [sys.executable, HERE / "client.py", json.dumps(parameters)]
    process = stage.start("clients", words, core=core, stdout=subprocess.PIPE)
    assert process.stdout is not None
    bound = threading.Timer(SECONDS, process.kill)
    bound.daemon = True
    bound.start()
    began, answer, said_else = cpu_time(target.pid), b"", b""
    for line in process.stdout:
        if line.startswith(b"START"):
            began = cpu_time(target.pid)
        elif line.startswith(b"{"):
            answer = line
        else:
            said_else += line
    spent = cpu_time(target.pid) - began
    bound.cancel()
    stage.end(process)
    figures: dict[str, Any] = json.loads(answer) if answer else {"error": said_else.decode(errors="replace")[-600:]}
    if figures["error"]:
        raise Unmeasurable(f"{target.name}: {figures['error']}")
    return Outcome(
        spent.total / load.requests * 1000,
        statistics.median(figures["first"]) * 1000,
        [delay * 1000 for delay in figures["delays"]],
        tree_memory(target.pid) / 1e6,
        memory(target.pid).now / 1e6,
    )


def _report(result: Found, notes: Sequence[str], settings: Settings) -> Report:
    report = Report("llm", notes=[*notes])
    for name in (BARE, OURS, LITELLM):
        figures = {
            "CPU ms a request": result.request.get(name),
            "whole answer ms": result.whole.get(name),
            f"CPU ms a stream of {EVENTS}": result.stream.get(name),
            "first text ms": result.first.get(name),
            "chunk ms": result.chunk.get(name),
            f"p99 of {MANY} streams ms": result.late.get(name),
            "memory MB": result.memory.get(name),
        }
        if any(figures.values()):
            row = {column: Sample.of(values) if values else None for column, values in figures.items()}
            report.rows.append({"through": name, **row})
    report.goals = goals(result)
    if result.cores:
        report.notes.append(f"{MANY} streams took {statistics.median(result.cores):.2f} of one core")
    if settings.quick:
        report.notes.append("--quick: not for quoting")
    return report


def goals(figures: Found) -> list[Goal]:
    """Goals, with the measured values."""
    late, grown = figures.late.get(OURS), figures.grown
    return [
        Goal("added to the first text, p50", _added(figures.first), "ms", at_most=2),
        Goal("added to each chunk, p50", _added(figures.chunk), "ms", at_most=0.1),
        Goal("CPU of a request, of LiteLLM's", _share(figures.request), "×", at_most=0.1),
        Goal(f"CPU of a stream of {EVENTS} events, of LiteLLM's", _share(figures.stream), "×", at_most=0.1),
        Goal(f"p99 delay of a chunk among {MANY} streams", statistics.median(late) if late else None, "ms", at_most=50),
        Goal("memory grown over the streams", max(grown) if grown else None, "MB", at_most=5),
    ]


def _added(figures: dict[str, list[float]]) -> float | None:
    """Milliseconds that the gateway adds to the model alone: the median of the differences within a round."""
    pairs = zip(figures.get(OURS, ()), figures.get(BARE, ()), strict=False)
    added = [mine - alone for mine, alone in pairs]
    return statistics.median(added) if added else None


def _share(figures: dict[str, list[float]]) -> float | None:
    pairs = zip(figures.get(OURS, ()), figures.get(LITELLM, ()), strict=False)
    shares = [mine / theirs for mine, theirs in pairs]
    return statistics.median(shares) if shares else None
