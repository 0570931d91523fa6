"""500 sign-ins per minute by the authorization server: share of a core, longest block of the loop, p99 of calls.

A sign-in includes a client's request, the provider, consent of a new user, code, tokens, and one refresh, which sends
another request to the provider. Provider, browsers and Redis are processes on another core than the gateway. On that
core, load and upstream have priority. Each round interleaves windows without sign-ins, with sign-ins, and with the same
sign-ins at another gateway. The last kind shows the effect of the machine on calls. A stop is processor time between
two turns of a timer, as `gap_recorder` has it.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import gap_recorder
from authorizationworld import identity_file
from gateway.gateways import VERSIONS, Target, catalog, contents, gateway_over, start_upstream, write_documents
from oidcprovider import CLIENT, SECRET
from ports import free_port
from rig.harness import Cell, Goal, Report, Sample, Settings, Unmeasurable, interleaved, ratios
from rig.loadtools import Load, run_load
from rig.processes import Stage, become_realtime, cores, cpu_time, memory, ordinary

PARTS: Final = ("folder", "redis")
"""Stores of sessions."""
PER_MINUTE: Final = 500
CORE_GOAL, STOP_GOAL_MS, P99_GOAL = 0.10, 5.0, 1.3
CONNECTIONS: Final = (0, 8, 64)
"""Connections on which calls are made; 0: there are no calls."""
ERA: Final = "modern"
HERE: Final = Path(__file__).resolve().parent
SUPPORT: Final = str(Path(gap_recorder.__file__).resolve().parent)
"""Folder of the modules that provider, browsers and gateway share with tests."""
RECORDED: Final = (
    "-c",
    f"import sys; sys.path.append({SUPPORT!r}); import gap_recorder; from fairlead_app.__main__ import main; main()",
)
"""Arguments of Python for a gateway whose event loop is recorded."""
START_SECONDS: Final = 60.0

SignInsAt: TypeAlias = Literal["nowhere", "elsewhere", "here"]
"""Gateway at which people sign in. `elsewhere` is a gateway that gets no tool calls."""
Case = tuple[int, SignInsAt]
"""(connections of calls, where people sign in)"""


@dataclass
class SignedIn:
    """Results of the sign-ins of one window."""

    token: str
    """Access token of the first one."""
    times_ms: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Window:
    """Figures of one window."""

    core: float
    """Processor time of the gateway, in seconds per second."""
    stop_ms: float
    p99: float = 0.0
    """Microseconds; 0 without calls."""
    sign_ins: int = 0
    sign_in_ms: float = 0.0
    """Median; 0 without sign-ins."""


@dataclass
class Figures:
    """Figures of one store."""

    windows: dict[Case, dict[int, Window]] = field(default_factory=lambda: defaultdict(dict))
    """Windows by case and round."""
    bytes_each: float | None = None
    """Memory of the gateway per session in bytes, from the second round on; None if there was only one round."""


@dataclass(frozen=True)
class World:
    """A gateway with everything that it needs."""

    stage: Stage
    gateway: Target
    elsewhere: Target
    """Second gateway, as a control."""
    upstream: Target
    gaps: gap_recorder.Gaps
    core: int
    """Core of all processes except the gateway."""
    seconds: float
    """Length of a window."""


def start(stage: Stage, store: str, seconds: float) -> World:
    """Start everything. Raises Unmeasurable."""
    hop, rest = cores()
    folder = stage.folder / store
    folder.mkdir()
    upstream = start_upstream(stage, f"upstream of {store}", rest)
    documents = folder / "documents"
    write_documents(documents, contents([catalog(era, upstream.port) for era in VERSIONS], decided=False))
    provider = free_port()
    process = _aside(stage, f"provider of {store}", [sys.executable, HERE / "sign_in_provider.py", str(provider)], rest)
    stage.wait_listening(f"provider of {store}", process, provider)
    secret, gaps, port = folder / "secret", folder / "gaps", free_port()
    secret.write_text(SECRET)
    issuer = f"http://127.0.0.1:{provider}"
    client = {"issuer": "corp", "clientId": CLIENT, "clientSecretFile": str(secret)}
    variables = {
        "FAIRLEAD_IDENTITY": str(identity_file(folder, [{"issuer": issuer, "name": "corp"}], [client])),
        **(_redis(stage, rest) if store == "redis" else {}),
    }

    def gateway_on(core: int, port: int, name: str, database: int, gaps: Path) -> Target:
        own = {
            "FAIRLEAD_PUBLIC_URL": f"http://127.0.0.1:{port}",
            gap_recorder.FILE: str(gaps),
            **({"FAIRLEAD_GRANTS_DIRECTORY": str(folder / f"grants-{database}")} if store == "folder" else {}),
            **({"FAIRLEAD_REDIS": f"{variables['FAIRLEAD_REDIS']}/{database}"} if store == "redis" else {}),
        }
        words = "--port", str(port)
        return gateway_over(stage, documents, core, *words, name=name, program=RECORDED, **{**variables, **own})

    gateway = gateway_on(hop, port, f"gateway with {store}", 0, gaps)
    elsewhere = gateway_on(rest, free_port(), f"other gateway with {store}", 1, folder / "other gaps")
    os.setpriority(os.PRIO_PROCESS, elsewhere.pid, 19)
    return World(stage, gateway, elsewhere, upstream, gap_recorder.Gaps(gaps), rest, seconds)


def _aside(
    stage: Stage, name: str, words: list[str | Path], core: int, stdout: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that yields to the other processes on its core."""
    options: dict[str, Any] = {} if stdout is None else {"stdout": stdout}
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), SUPPORT)))
    environment = {**os.environ, "PYTHONPATH": path}
    with ordinary():
        return stage.start(name, ["nice", "-n", "19", *words], core=core, env=environment, **options)


def _redis(stage: Stage, core: int) -> dict[str, str]:
    """Start Redis. Returns the gateway's environment variables for it. Raises Unmeasurable."""
    program = shutil.which("redis-server")
    if program is None:
        raise Unmeasurable("redis-server is not installed (Debian: apt-get install redis-server)")
    port = free_port()
    process = _aside(stage, "redis", [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""], core)
    stage.wait_listening("redis", process, port)
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    return {
        "FAIRLEAD_REDIS": f"redis://127.0.0.1:{port}",
        "FAIRLEAD_REDIS_TIMEOUT": "10",  # slow to start, because it yields to other processes
        "FAIRLEAD_GRANTS": "redis",
        "FAIRLEAD_GRANT_KEYS": f"bench:{key}",
    }


@contextmanager
def signing_in(world: World, gateway: Target) -> Iterator[SignedIn]:
    """Let people sign in at a gateway until the block ends. Raises Unmeasurable if a sign-in failed, or if there were
    too few.
    """
    parameters = {"base": f"http://127.0.0.1:{gateway.port}", "per_minute": PER_MINUTE}
    words: list[str | Path] = [sys.executable, HERE / "sign_in_browsers.py", json.dumps(parameters)]
    process = _aside(world.stage, "browsers", words, world.core, subprocess.PIPE)
    assert process.stdout is not None
    bound = threading.Timer(START_SECONDS + 4 * world.seconds, process.kill)
    bound.daemon = True
    bound.start()
    try:
        signed_in = SignedIn(process.stdout.readline().decode().strip())
        began = time.monotonic()
        if signed_in.token:
            yield signed_in
        process.send_signal(signal.SIGTERM)
        seconds = time.monotonic() - began
        answer = process.stdout.readline()
    finally:
        bound.cancel()
        world.stage.end(process)
    try:
        told = json.loads(answer)
    except ValueError as error:
        log = (world.stage.folder / "browsers.log").read_text(errors="replace")[-600:]
        raise Unmeasurable(f"the browsers gave up: {log.strip()}") from error
    signed_in.times_ms = told["times_ms"]
    if told["failure"]:
        raise Unmeasurable(f"a sign-in failed: {told['failure']}")
    if len(signed_in.times_ms) < 0.95 * seconds * PER_MINUTE / 60 - 1:
        raise Unmeasurable(f"{len(signed_in.times_ms)} sign-ins in {seconds:.1f} s")


def measure(world: World, case: Case, token: str) -> Window:
    """Measure one window. `token` authorizes the calls."""
    connections, signs_in = case
    if signs_in == "nowhere":
        return _observed(world, connections, token)
    with signing_in(world, world.gateway if signs_in == "here" else world.elsewhere) as signed_in:
        window = _observed(world, connections, token)
    times = signed_in.times_ms
    return replace(window, sign_ins=len(times), sign_in_ms=statistics.median(times))


def _observed(world: World, connections: int, token: str) -> Window:
    gateway = world.gateway
    if not connections:
        world.gaps.reset()
        before, began = cpu_time(gateway.pid), time.monotonic()
        time.sleep(world.seconds)
        spent = (cpu_time(gateway.pid) - before).total / (time.monotonic() - began)
        return Window(spent, world.gaps.longest_ms())
    header = f"Authorization: Bearer {token}"
    load = Load(
        gateway.port, "/mcp", gateway.tool(ERA), VERSIONS[ERA], connections, world.seconds, warmup=0.5, header=header
    )
    helpers = [world.upstream.pid]
    outcome = run_load(world.stage, load, gateway.pid, helpers, core=world.core, started=world.gaps.reset)
    return Window(outcome.utilization, world.gaps.longest_ms(), p99=outcome.p99)


def measured(stage: Stage, store: str, settings: Settings) -> Figures:
    """Figures of all rounds. Raises Unmeasurable."""
    world = start(stage, store, 2.0 if settings.quick else 4.0)
    with signing_in(world, world.elsewhere):  # creates what is created only once
        time.sleep(2.0)
    with signing_in(world, world.gateway) as signed_in:
        time.sleep(2.0)
    cases: list[Case] = [(0, "nowhere"), (0, "here")]
    cases += [(each, signs_in) for each in CONNECTIONS[1:] for signs_in in get_args(SignInsAt)]
    figures = Figures()
    before = sign_ins = 0
    for number, case in interleaved(cases, settings.rounds):
        if number and not before:
            before = memory(world.gateway.pid).now
        figures.windows[case][number] = window = measure(world, case, signed_in.token)
        sign_ins += window.sign_ins if before and case[1] == "here" else 0
    if before:
        figures.bytes_each = (memory(world.gateway.pid).now - before) / sign_ins
    return figures


def rows(store: str, figures: Figures) -> Iterator[dict[str, Cell]]:
    """One row for each number of connections: without sign-ins, with sign-ins elsewhere, with sign-ins at this gateway,
    and the change.
    """
    windows = figures.windows
    for connections in CONNECTIONS:
        alone, beside = windows[connections, "nowhere"], windows[connections, "here"]
        calls = connections > 0
        yield {
            "sessions in": store,
            "calls on": f"{connections} connections" if calls else "none",
            "core for sign-ins": None if calls else Sample.of(_shares(windows).values()),
            "stop ms alone": Sample.of(each.stop_ms for each in alone.values()),
            "stop ms beside": Sample.of(each.stop_ms for each in beside.values()),
            "p99 µs alone": Sample.of(each.p99 for each in alone.values()) if calls else None,
            "p99 µs elsewhere": Sample.of(each.p99 for each in windows[connections, "elsewhere"].values())
            if calls
            else None,
            "p99 µs beside": Sample.of(each.p99 for each in beside.values()) if calls else None,
            "× p99": _moved(windows, connections, "nowhere") if calls else None,
            "× elsewhere": _moved(windows, connections, "elsewhere") if calls else None,
            "sign-in ms": Sample.of(each.sign_in_ms for each in beside.values()),
            "KB a session": None if calls or figures.bytes_each is None else figures.bytes_each / 1000,
        }


def _shares(windows: dict[Case, dict[int, Window]]) -> dict[int, float]:
    """Share of a core that sign-ins take, by round: the gateway's processor time beyond that of an idle gateway."""
    return {number: each.core - windows[0, "nowhere"][number].core for number, each in windows[0, "here"].items()}


def _moved(windows: dict[Case, dict[int, Window]], connections: int, than: SignInsAt) -> Sample | None:
    others, beside = windows[connections, than], windows[connections, "here"]
    return ratios({n: each.p99 for n, each in beside.items()}, {n: each.p99 for n, each in others.items()})


def goals(store: str, windows: dict[Case, dict[int, Window]]) -> Iterator[Goal]:
    """Goals; each bounds the median of the rounds."""
    yield Goal(f"share of a core, {store}", statistics.median(_shares(windows).values()), "", at_most=CORE_GOAL)
    stop = statistics.median(each.stop_ms for each in windows[0, "here"].values())
    yield Goal(f"longest stop of the loop, {store}", stop, "ms", at_most=STOP_GOAL_MS)
    for connections in CONNECTIONS[1:]:
        moved = _moved(windows, connections, "nowhere")
        name = f"p99 of calls on {connections} connections, {store}"
        yield Goal(name, None if moved is None else moved.median, "× alone", at_most=P99_GOAL)


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if a process does not start or a sign-in fails."""
    if settings.realtime:
        become_realtime()
    report = Report("sign_ins", notes=[f"{PER_MINUTE} sign-ins a minute, each of another person"])
    for store in PARTS:
        if settings.wants(store):
            with Stage() as stage:
                figures = measured(stage, store, settings)
            report.rows += rows(store, figures)
            report.goals += goals(store, figures.windows)
            settings.keep(report)
    if settings.quick:
        report.notes.append("--quick: not for quoting")
    return report
