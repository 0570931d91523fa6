"""Table of doors: the requests of each, the gateway that answers them, and the bound of their cost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from doors.models import CONVERSATIONS, Conversation
from doors.targets import SPEECH_MODEL, Targets
from gateway.gateways import VERSIONS, Target
from gateway.workloads import DECLARED, REST_PATH
from gatewayworld import calling, legacy
from rig.harness import Unmeasurable
from rig.idle_connections import Post, answered, bytes_of_connection
from rig.loadtools import BARE, SET_UP_SECONDS, Load, Outcome, outcome_of, run_load
from rig.processes import Stage, cpu_time

Window = tuple[float, float]
"""Seconds of measurement and of warm-up."""
Measure = Callable[[Targets, int, Window], Outcome]
"""Runs one load with a number of connections. Raises Unmeasurable."""
PLAIN, DECLARING, NGINX, NGINX_TLS = "mcp", "mcp-declared", "nginx", "nginx-tls"
"""Doors that others are compared to."""
ECHO, LARGE_ECHO = "legacy__echo", "legacy-large__echo"
TEXT = "########" + "a" * 20
"""Argument of every call: its number, and the text of the plain call."""
CALLS: Final = 8
HERE: Final = Path(__file__).resolve().parent
SETTLING: Final = 4
"""Connections of the first FIRST_CALLS calls, which connect to servers and build an index or an application."""
FIRST_CALLS, SETTLING_SECONDS = 50, 30.0
INDEXING_SECONDS: Final = 180.0
"""Maximum seconds that the gateway may take for the vectors of its tools. They are made in the background after the
first search; a search that is measured meanwhile would be charged for them."""
QUIET_SECONDS: Final = 1.5
"""Seconds without any work of the gateway, after which it makes no more vectors."""
SEARCH: Final = "echo the text back"
IDLE_CONNECTIONS: Final = 500
"""Idle connections whose memory is measured."""
TURNS: Final = 4
"""Calls that a measurement has of each connection at least, where SETTLING_SECONDS are enough for them."""


@dataclass(frozen=True)
class Door:
    """One row."""

    description: str
    measure: Measure
    at_most: float | None = None
    """Bound of the processor time of a call, as a ratio to `beside`."""
    beside: str = PLAIN


Question = Callable[[Targets], tuple[Target, Load]]
"""Target and load of a door, whose connections and times are filled in later."""


class HttpLoad:
    """Load by `mcpload`, behind FIRST_CALLS calls that are not measured. `await_ready` waits until the target has done
    what it does only once after them, in each round, as its processes end while other doors are measured. `tls` is the
    gateway behind a target that puts TLS on.
    """

    def __init__(
        self,
        question: Question,
        await_ready: Callable[[Target], object] | None = None,
        tls: Callable[[Targets], Target] | None = None,
    ) -> None:
        self._question = question
        self._await_ready = await_ready
        self._tls = tls
        self._settled: dict[Targets, tuple[Target, Load, float]] = {}

    def __call__(self, targets: Targets, connections: int, window: Window) -> Outcome:
        if targets not in self._settled or (self._await_ready is not None and connections != 1):
            self._settled[targets] = self._settle(targets)
        target, load, speed = self._settled[targets]
        turn = min(max(connections, SETTLING) / speed, SETTLING_SECONDS / TURNS)
        seconds, warmup = max(window[0], TURNS * turn), max(window[1], turn)
        whole = replace(load, connections=connections, seconds=seconds, warmup=warmup)
        return run_load(targets.stage, whole, target.pid, targets.helpers, core=targets.rest)

    def _settle(self, targets: Targets) -> tuple[Target, Load, float]:
        """Target, load and calls per second after the first calls. Raises Unmeasurable."""
        target, load = self._question(targets)
        first = replace(load, connections=SETTLING, seconds=SETTLING_SECONDS, warmup=0.1, calls=FIRST_CALLS)
        settled = run_load(targets.stage, first, target.pid, targets.helpers, core=targets.rest)
        if self._await_ready is not None:
            self._await_ready(target)
            settled = run_load(targets.stage, first, target.pid, targets.helpers, core=targets.rest)
        return target, load, settled.calls_per_second

    def idle_memory(self) -> float | None:
        """Bytes of a connection to a new gateway that was answered once; None without a gateway, and behind a proxy.
        Raises Unmeasurable.
        """
        with Stage() as stage, ExitStack() as stack:  # a gateway that had a load takes what it freed since
            targets = Targets(stage)
            target, load = self._question(targets)
            post = first_request(load)
            if self._tls is not None:
                post = replace(post, port=self._tls(targets).port, tls=True)
            elif not target.metrics:
                return None
            if self._await_ready is not None:
                stack.enter_context(answered(post))
                self._await_ready(target)
            return bytes_of_connection(target.pid, post, IDLE_CONNECTIONS, stack)


def first_request(load: Load) -> Post:
    """A request of the load, by a client that declares no capabilities."""
    era = VERSIONS["legacy"] if load.era == BARE else load.era
    ask = legacy("tools/list") if load.kind == "list" else calling(load.tool, {"text": TEXT}, era=era)
    body = load.body.read_bytes() if load.body else json.dumps(ask.message).encode()
    more = dict([load.header.split(": ", 1)] if load.header else [])
    return Post(load.port, load.path, body, {**ask.headers, **more})


def plain(target: Target, *, tool: str = ECHO, era: str = "legacy", path: str = "/mcp", **members: Any) -> Load:
    """`tools/call` with a short text."""
    return Load(target.port, path, tool, VERSIONS[era], 1, 0, 0, awake=True, **members)


def post(targets: Targets, target: Target, path: str, body: dict[str, Any], expected: str, **members: Any) -> Load:
    """POST of a JSON body by a client without MCP."""
    load = Load(target.port, path, "", BARE, 1, 0, 0, awake=True, kind="body", expected=expected, **members)
    return replace(load, body=write_body(targets, body))


def write_body(targets: Targets, body: dict[str, Any]) -> Path:
    """Write the body of requests to a file; its path."""
    data = json.dumps(body, separators=(",", ":"))
    file: Path = targets.stage.folder / f"body-{abs(hash(data))}"
    file.write_text(data)
    return file


def plain_call(
    target_of: Callable[[Targets], Target], *, tls: Callable[[Targets], Target] | None = None, **members: Any
) -> Measure:
    """Plain call of another target."""

    def question(targets: Targets) -> tuple[Target, Load]:
        target = target_of(targets)
        return target, plain(target, **members)

    return HttpLoad(question, tls=tls)


def router_call(
    tool: str, arguments: dict[str, Any], await_ready: Callable[[Target], object] | None = None, **members: Any
) -> Measure:
    """Call of a tool of `/router/mcp`."""

    def question(targets: Targets) -> tuple[Target, Load]:
        return targets.router, tool_body(targets, plain(targets.router, path="/router/mcp"), tool, arguments, **members)

    return HttpLoad(question, await_ready)


def search(query: str) -> Measure:
    """Search for tools, when all of them have vectors."""
    return router_call("search_tools", {"query": query}, await_vectors, numbered=False)


def await_vectors(target: Target) -> None:
    """Wait until a gateway has made the vectors of all its tools. Raises Unmeasurable after INDEXING_SECONDS."""
    end = time.monotonic() + INDEXING_SECONDS
    while time.monotonic() < end:
        if "have vectors" not in post_mcp(target, "/router/mcp", "search_tools", {"query": SEARCH}):
            # the last tenth of the vectors is made after that, and nothing reports its end: wait for an idle gateway
            before = cpu_time(target.pid).total
            time.sleep(QUIET_SECONDS)
            if cpu_time(target.pid).total - before < QUIET_SECONDS / 50:
                return
        time.sleep(QUIET_SECONDS)
    raise Unmeasurable(f"the tools have no vectors after {INDEXING_SECONDS:.0f} s")


def call_of(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Message that calls a tool."""
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def post_mcp(
    target: Target, path: str, tool: str, arguments: dict[str, Any], more: dict[str, str] | None = None
) -> str:
    """Answer to one call; `more` are further headers."""
    head = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    head |= {"mcp-protocol-version": VERSIONS["legacy"], **(more or {})}
    body = json.dumps(call_of(tool, arguments)).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{target.port}{path}", body, head)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return str(answer.read().decode())


def tool_body(targets: Targets, load: Load, tool: str, arguments: dict[str, Any], **members: Any) -> Load:
    """The load with these arguments in place of a text."""
    body = write_body(targets, call_of(tool, arguments))
    return replace(load, kind="body", body=body, expected='"result"', **members)


def tool_calls(number: int) -> Measure:
    """Message of a model with `number` calls, over REST."""

    def question(targets: Targets) -> tuple[Target, Load]:
        function = {"name": ECHO, "arguments": json.dumps({"text": TEXT})}
        calls = [{"id": f"call_{n}", "type": "function", "function": function} for n in range(number)]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        body = {"format": "openai", "message": message}
        return targets.rest_api, post(targets, targets.rest_api, REST_PATH, body, '"messages"')

    return HttpLoad(question)


def execution(targets: Targets) -> tuple[Target, Load]:
    """Call over REST whose result is stored."""
    body = {"name": ECHO, "arguments": {"text": TEXT}}
    return targets.rest_api, post(targets, targets.rest_api, "/v1/executions", body, "aaaa")


def policies_list(targets: Targets) -> tuple[Target, Load]:
    """`tools/list` of a principal that policies select by name."""
    target, header = targets.keyed
    return target, plain(target, kind="list", header=header)


def stored_result(targets: Targets) -> tuple[Target, Load]:
    """`read_result` of a long result that was stored before."""
    target, header = targets.keyed
    name, value = header.split(": ", 1)
    more = {name: value, "fairlead-result-tokens": "200"}
    text = post_mcp(target, "/mcp", LARGE_ECHO, {"text": "aaaa"}, more)
    stored = re.search(r"stored as (\S+):", text)
    if stored is None:
        raise Unmeasurable(f"the long result was not stored: {text[-400:]}")
    load = tool_body(targets, plain(target, header=header), "read_result", {"id": stored[1], "range": "1:1-1:200"})
    return target, load


def program_load(
    program: str,
    parameters: Callable[[Targets, int], dict[str, Any]],
    *,
    itself: bool = False,
    server: Callable[[Targets], Target] | None = None,
    python: Path | None = None,
) -> Measure:
    """Load by a program of this folder, in the environment of `python`; None for ours. Processor time is that of the
    program, where `itself` is set, and of the `server`.
    """

    def measure(targets: Targets, connections: int, window: Window) -> Outcome:
        target = server(targets) if server else None
        seconds, warmup = window
        options = parameters(targets, connections) | {"seconds": seconds, "warmup": warmup}
        words: list[str | Path] = [
            python or sys.executable,
            HERE / program,
            json.dumps(options),
        ]
        core = targets.hop if itself else targets.rest
        ours = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": "" if python else ours}
        process = targets.stage.start(program, words, core=core, stdout=subprocess.PIPE, env=environment)
        measured = [*([process.pid] if itself else []), *([target.pid] if target else [])]
        helpers = [*targets.helpers, *([] if itself else [process.pid])]
        bound = seconds + warmup + SET_UP_SECONDS
        return outcome_of(targets.stage, process, measured, helpers, bound)

    return measure


def registry_call(
    tool: str, server_of: Callable[[Targets], Target] | None, *, server: Callable[[Targets], Target] | None = None
) -> Measure:
    """Calls of a Python program through a `ToolRegistry`: of an MCP server, or of a function in the program."""

    def parameters(targets: Targets, connections: int) -> dict[str, Any]:
        url = f"http://127.0.0.1:{server_of(targets).port}/mcp" if server_of else ""
        return {"url": url, "tool": tool, "threads": connections}

    return program_load("registry_calls.py", parameters, itself=True, server=server)


def realtime(kind: str) -> Measure:
    """Sessions of OpenAI Realtime."""

    def parameters(targets: Targets, connections: int) -> dict[str, Any]:
        url = f"http://127.0.0.1:{targets.speaking.port}/v1/realtime?model={SPEECH_MODEL}"
        return {"url": url, "kind": kind, "sessions": connections}

    return program_load("realtime_calls.py", parameters, server=lambda targets: targets.speaking)


def model_request(conversation: Conversation) -> Door:
    """Request to a model."""

    def question(targets: Targets) -> tuple[Target, Load]:
        target = targets.models
        return target, post(targets, target, conversation.path, conversation.body, "word ")

    how = "streamed" if conversation.stream else "whole"
    bound = 20 if conversation.calls else 12
    path = conversation.path.partition("?")[0].replace(conversation.model, "MODEL")
    return Door(f"`{path}`, {how}, {conversation.calls} calls of tools", HttpLoad(question), at_most=bound)


DOORS: Final[dict[str, Door]] = {
    NGINX: Door("nginx, a plain hop", plain_call(lambda targets: targets.nginx, tool="echo")),
    PLAIN: Door(
        "`/mcp`, a call: the plain call", plain_call(lambda targets: targets.plain), at_most=1.05, beside=DECLARING
    ),
    DECLARING: Door(
        "`/mcp`, a call of a client that declares capabilities",
        plain_call(lambda targets: targets.plain, capabilities=DECLARED),
    ),
    "mcp-modern": Door(
        "`/mcp`, a call of the modern era",
        plain_call(lambda targets: targets.plain, tool="modern__echo", era="modern"),
    ),
    "execute-tool": Door(
        "`/router/mcp`, `execute_tool`",
        router_call("execute_tool", {"name": ECHO, "arguments": {"text": TEXT}}),
        at_most=1.6,
    ),
    "search-tools": Door("`/router/mcp`, `search_tools`, a repeated query", search(SEARCH)),
    "search-tools-new": Door("`/router/mcp`, `search_tools`, a new query", search(f"{SEARCH} ########")),
    "tool-calls-1": Door("`POST /v1/tool-calls`, 1 call", tool_calls(1), at_most=3),
    "tool-calls-8": Door(f"`POST /v1/tool-calls`, {CALLS} calls", tool_calls(CALLS), at_most=5),
    "executions": Door("`POST /v1/executions`", HttpLoad(execution), at_most=3),
    "list-policies": Door("`/mcp`, `tools/list` of a principal with 5 policies", HttpLoad(policies_list)),
    "read-result": Door("`/mcp`, `read_result`", HttpLoad(stored_result)),
    "limits-redis": Door(
        "`/mcp`, a call under limits shared over Redis", plain_call(lambda targets: targets.limited), at_most=1.5
    ),
    "audit": Door(
        "`/mcp`, a call with a line of audit on disk", plain_call(lambda targets: targets.audited), at_most=1.15
    ),
    "traces-1": Door("`/mcp`, 1 % of calls traced", plain_call(lambda targets: targets.traced_few)),
    "traces-100": Door("`/mcp`, every call traced", plain_call(lambda targets: targets.traced_all), at_most=1.4),
    "registry-function": Door(
        "`ToolRegistry.execute` in process, a function of the program", registry_call("echo", None), at_most=1.0
    ),
    "registry-server": Door(
        "`ToolRegistry.execute` in process, a tool of an MCP server", registry_call("echo", lambda each: each.upstream)
    ),
    "registry-gateway": Door(
        "`ToolRegistry.execute` against a gateway, both counted",
        registry_call(ECHO, lambda each: each.registered, server=lambda each: each.registered),
    ),
    **{each.model: model_request(each) for each in CONVERSATIONS},
    "realtime-frame": Door("`/v1/realtime`, a frame of 40 ms each way", realtime("frame")),
    "realtime-call": Door("`/v1/realtime`, an answer with a call of a tool", realtime("call")),
    "mcp-proxied": Door("`/mcp` behind a reverse proxy, a call", plain_call(lambda targets: targets.proxied)),
    NGINX_TLS: Door("nginx with TLS", plain_call(lambda targets: targets.nginx_tls, tool="echo")),
    "tls": Door(
        "`/mcp` with TLS, a call",
        plain_call(lambda targets: targets.tls, tls=lambda targets: targets.tls_gateway),
        at_most=2,
        beside=NGINX_TLS,
    ),
}
"""Doors by name, in the order of the table."""
