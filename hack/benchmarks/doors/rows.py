"""The doors: what each is asked, of which gateway, and the bound that its cost has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from doors.models import CONVERSATIONS, Conversation
from doors.standing import SPEECH_MODEL, Standing
from gateway.gateways import VERSIONS, Target
from gateway.workloads import DECLARED, REST_PATH
from rig.harness import Unmeasurable
from rig.loadtools import BARE, SET_UP_SECONDS, Load, Outcome, outcome_of, run_load

Window = tuple[float, float]
Measure = Callable[[Standing, int, Window], Outcome]
PLAIN, NGINX, NGINX_TLS = "mcp", "nginx", "nginx-tls"
"""What others are compared to."""
ECHO, LARGE_ECHO = "legacy__echo", "legacy-large__echo"
TEXT = "########" + "a" * 20
"""What is echoed: the number of the call, and what the plain call says too."""
CALLS: Final = 8
HERE: Final = Path(__file__).resolve().parent
SETTLING: Final = 4
"""Connections of the first calls, which make what is made once: connections, an index, an application."""
FIRST_CALLS, SETTLING_SECONDS = 50, 30.0


@dataclass(frozen=True)
class Door:
    """One row."""

    what: str
    measure: Measure
    """Of so many connections."""
    at_most: float | None = None
    """Bound of the processor time of a call, as a ratio to `beside`."""
    beside: str = PLAIN


Question = Callable[[Standing], tuple[Target, Load]]
"""A target, and what it is asked; connections and times of the load are filled in."""


def asking(question: Question) -> Measure:
    """Measure what is asked over HTTP."""
    asked: dict[Standing, tuple[Target, Load]] = {}

    def measure(standing: Standing, connections: int, window: Window) -> Outcome:
        if standing not in asked:
            target, load = asked[standing] = question(standing)
            first = replace(load, connections=SETTLING, seconds=SETTLING_SECONDS, warmup=0.1, calls=FIRST_CALLS)
            run_load(standing.stage, first, target.pid, standing.helpers, core=standing.rest)
        target, load = asked[standing]
        seconds, warmup = window
        whole = replace(load, connections=connections, seconds=seconds, warmup=warmup)
        return run_load(standing.stage, whole, target.pid, standing.helpers, core=standing.rest)

    return measure


def plain(target: Target, *, tool: str = ECHO, era: str = "legacy", path: str = "/mcp", **members: Any) -> Load:
    """A `tools/call` with a short text."""
    return Load(target.port, path, tool, VERSIONS[era], 1, 0, 0, awake=True, **members)


def posted(standing: Standing, target: Target, path: str, body: dict[str, Any], expected: str, **members: Any) -> Load:
    """A request of anything but MCP."""
    load = Load(target.port, path, "", BARE, 1, 0, 0, awake=True, kind="body", expected=expected, **members)
    return replace(load, body=written(standing, body))


def written(standing: Standing, body: dict[str, Any]) -> Path:
    """The file of a body."""
    data = json.dumps(body, separators=(",", ":"))
    file: Path = standing.stage.folder / f"body-{abs(hash(data))}"
    file.write_text(data)
    return file


def through(place: Callable[[Standing], Target], **members: Any) -> Measure:
    """The plain call, through a gateway that is run in another way."""

    def question(standing: Standing) -> tuple[Target, Load]:
        target = place(standing)
        return target, plain(target, **members)

    return asking(question)


def of_router(tool: str, arguments: dict[str, Any], **members: Any) -> Measure:
    """A call of one of the router's own tools."""

    def question(standing: Standing) -> tuple[Target, Load]:
        return standing.router, tool_body(
            standing, plain(standing.router, path="/router/mcp"), tool, arguments, **members
        )

    return asking(question)


def tool_body(standing: Standing, load: Load, tool: str, arguments: dict[str, Any], **members: Any) -> Load:
    """The load with arguments of that shape in place of a text."""
    params = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return replace(load, kind="body", body=written(standing, body), expected='"result"', **members)


def tool_calls(number: int) -> Measure:
    """A model's message with so many calls, over REST."""

    def question(standing: Standing) -> tuple[Target, Load]:
        function = {"name": ECHO, "arguments": json.dumps({"text": TEXT})}
        calls = [{"id": f"call_{n}", "type": "function", "function": function} for n in range(number)]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        body = {"format": "openai", "message": message}
        return standing.rest_api, posted(standing, standing.rest_api, REST_PATH, body, '"messages"')

    return asking(question)


def execution(standing: Standing) -> tuple[Target, Load]:
    """One call over REST, whose result is kept."""
    body = {"name": ECHO, "arguments": {"text": TEXT}}
    return standing.rest_api, posted(standing, standing.rest_api, "/v1/executions", body, "aaaa")


def listing(standing: Standing) -> tuple[Target, Load]:
    """The list of a principal that policies select by name."""
    target, header = standing.keyed
    return target, plain(target, kind="list", header=header)


def kept_result(standing: Standing) -> tuple[Target, Load]:
    """A passage of a result that the caller has left in the gateway."""
    target, header = standing.keyed
    who = dict([header.split(": ", 1)])
    call = {"name": LARGE_ECHO, "arguments": {"text": "aaaa"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    head = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    head |= {"mcp-protocol-version": VERSIONS["legacy"], "fairlead-result-tokens": "200"}
    request = urllib.request.Request(f"http://127.0.0.1:{target.port}/mcp", body, head | who)
    with urllib.request.urlopen(request, timeout=20) as answer:
        said = answer.read().decode()

    found = re.search(r"stored as (\S+):", said)
    if found is None:
        raise Unmeasurable(f"the long result was not kept: {said[-400:]}")
    load = tool_body(standing, plain(target, header=header), "read_result", {"id": found[1], "range": "1:1-1:200"})
    return target, load


def by_program(
    program: str,
    parameters: Callable[[Standing, int], dict[str, Any]],
    *,
    itself: bool = False,
    server: Callable[[Standing], Target] | None = None,
) -> Measure:
    """What a program of this folder asks: its processor time counts where it is `itself` what is measured, and that of
    the `server`.
    """

    def measure(standing: Standing, connections: int, window: Window) -> Outcome:
        target = server(standing) if server else None
        seconds, warmup = window
        asked = parameters(standing, connections) | {"seconds": seconds, "warmup": warmup}
        words: list[str | Path] = [sys.executable, HERE / program, json.dumps(asked)]
        core = standing.hop if itself else standing.rest
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        process = standing.stage.start(program, words, core=core, stdout=subprocess.PIPE, env=environment)
        measured = [*([process.pid] if itself else []), *([target.pid] if target else [])]
        helpers = [*standing.helpers, *([] if itself else [process.pid])]
        bound = seconds + warmup + SET_UP_SECONDS
        return outcome_of(standing.stage, process, measured, helpers, bound)

    return measure


def registry(
    tool: str, place: Callable[[Standing], Target] | None, *, server: Callable[[Standing], Target] | None = None
) -> Measure:
    """Calls of a Python program through a `ToolRegistry`, of a function of its own where there is no `place`."""

    def parameters(standing: Standing, connections: int) -> dict[str, Any]:
        url = f"http://127.0.0.1:{place(standing).port}/mcp" if place else ""
        return {"url": url, "tool": tool, "threads": connections}

    return by_program("registry_calls.py", parameters, itself=True, server=server)


def spoken(asked: str) -> Measure:
    """Sessions of OpenAI Realtime."""

    def parameters(standing: Standing, connections: int) -> dict[str, Any]:
        url = f"http://127.0.0.1:{standing.speaking.port}/v1/realtime?model={SPEECH_MODEL}"
        return {"url": url, "asked": asked, "sessions": connections}

    return by_program("realtime_calls.py", parameters, server=lambda standing: standing.speaking)


def conversation(asked: Conversation) -> Door:
    """A request of a client of a model."""

    def question(standing: Standing) -> tuple[Target, Load]:
        target = standing.models
        return target, posted(standing, target, asked.path, asked.body, "word ")

    how = "streamed" if asked.stream else "whole"
    bound = 20 if asked.calls else 12
    path = asked.path.partition("?")[0].replace(asked.model, "MODEL")
    return Door(f"`{path}`, {how}, {asked.calls} calls of tools", asking(question), at_most=bound)


DOORS: Final[dict[str, Door]] = {
    NGINX: Door("nginx, a plain hop", through(lambda standing: standing.nginx, tool="echo")),
    PLAIN: Door("`/mcp`, a call: the plain call", through(lambda standing: standing.plain)),
    "mcp-declared": Door(
        "`/mcp`, a call of a client that declares capabilities",
        through(lambda standing: standing.plain, capabilities=DECLARED),
        at_most=1.0,
    ),
    "mcp-modern": Door(
        "`/mcp`, a call of the modern era",
        through(lambda standing: standing.plain, tool="modern__echo", era="modern"),
    ),
    "execute-tool": Door(
        "`/router/mcp`, `execute_tool`",
        of_router("execute_tool", {"name": ECHO, "arguments": {"text": TEXT}}),
        at_most=1.6,
    ),
    "search-tools": Door(
        "`/router/mcp`, `search_tools`",
        of_router("search_tools", {"query": "echo the text back ########"}, numbered=False),
    ),
    "tool-calls-1": Door("`POST /v1/tool-calls`, 1 call", tool_calls(1), at_most=3),
    "tool-calls-8": Door(f"`POST /v1/tool-calls`, {CALLS} calls", tool_calls(CALLS), at_most=5),
    "executions": Door("`POST /v1/executions`", asking(execution), at_most=3),
    "list-policies": Door("`/mcp`, `tools/list` of a principal with 5 policies", asking(listing)),
    "read-result": Door("`/mcp`, `read_result`", asking(kept_result)),
    "limits-redis": Door(
        "`/mcp`, a call under limits shared over Redis", through(lambda standing: standing.limited), at_most=1.5
    ),
    "audit": Door(
        "`/mcp`, a call with a line of audit on disk", through(lambda standing: standing.audited), at_most=1.15
    ),
    "traces-1": Door("`/mcp`, 1 % of calls traced", through(lambda standing: standing.traced_few)),
    "traces-100": Door("`/mcp`, every call traced", through(lambda standing: standing.traced_all), at_most=1.4),
    "registry-function": Door(
        "`ToolRegistry.execute` in process, a function of the program", registry("echo", None), at_most=1.0
    ),
    "registry-server": Door(
        "`ToolRegistry.execute` in process, a tool of an MCP server", registry("echo", lambda each: each.upstream)
    ),
    "registry-gateway": Door(
        "`ToolRegistry.execute` against a gateway, both counted",
        registry(ECHO, lambda each: each.registered, server=lambda each: each.registered),
    ),
    **{each.model: conversation(each) for each in CONVERSATIONS},
    "realtime-frame": Door("`/v1/realtime`, a frame of 40 ms each way", spoken("frame")),
    "realtime-call": Door("`/v1/realtime`, an answer with a call of a tool", spoken("call")),
    NGINX_TLS: Door("nginx with TLS", through(lambda standing: standing.nginx_tls, tool="echo")),
    "tls": Door("`/mcp` with TLS, a call", through(lambda standing: standing.tls), at_most=2, beside=NGINX_TLS),
}
"""By name, in the order of the table."""
