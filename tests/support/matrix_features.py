"""All features of calls, each with the outcome that every kind of client must receive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from call_matrix import CALL, Cell, Outcome, Play
from matrix_clients import PARENT
from matrix_servers import PAGE, SERVERS, WHY
from waiting import eventually


@dataclass(frozen=True)
class Feature:
    """An action and its expected outcome. `at` contains members that differ by kind of server."""

    play: Play
    expected: Outcome
    at: dict[str, Outcome] = field(default_factory=dict)
    method: str = CALL
    servers: tuple[str, ...] = SERVERS
    """Kinds of server that support it."""
    exported: bool = False
    """Whether it is tested in the world that exports spans."""


UNASKED: Final = "elicitation/create: The client of this request has not declared the capability elicitation"
LACKS: Final = "The tool needs a client capability that this client has not declared (elicitation)"
GATED: Final = "gated of default/SERVER needs the client capability elicitation, which this client has not declared"

FEATURES: Final[dict[str, Feature]] = {}
PLAIN: Final[Outcome] = {
    "code": "ok",
    "says": "{}",
    "marks": (),
    "heard": (),
    "requests": 1,
    "audit": [("allowed", "ok", "")],
    "counted": {"ok": 1},
    "limited": {},
}
"""Outcome of an ordinary call."""


def refusal(code: str, says: str, decision: str = "refused", reason: str = "", **more: Any) -> Outcome:
    """Outcome of a call that does not reach its server."""
    told = {"code": code, "says": says, "requests": 0, "audit": [(decision, code, reason)], "counted": {code: 1}}
    return {**told, **more}


def failure(code: str, says: str, **more: Any) -> Outcome:
    """Outcome of a call that reaches its server once and fails there."""
    return {**refusal(code, says, "allowed"), "requests": 1, **more}


def feature(
    name: str,
    expected: Outcome,
    play: Play,
    *,
    method: str = CALL,
    at: Any = None,
    exported: bool = False,
    servers: tuple[str, ...] = SERVERS,
) -> None:
    FEATURES[name] = Feature(play, {**PLAIN, **expected}, at or {}, method, servers, exported)


def calls(tool: str, arguments: dict[str, Any] | None = None, at: str = "", times: int = 1) -> Play:
    async def play(cell: Cell) -> Outcome:
        for _ in range(times):
            await cell.call(tool, arguments, at)
        return {}

    return play


def asks(method: str, params: Callable[[Cell], dict[str, Any]], at: str = "") -> Play:
    async def play(cell: Cell) -> Outcome:
        await cell.ask(method, params(cell), at)
        return {}

    return play


async def _audit_line(cell: Cell) -> Outcome:
    await cell.call("answers", {"n": 1, "password": "s3cret"})
    (line,) = await cell.audit_lines(1)
    members = ("method", "tool", "traceId", "arguments", "principal", "client")
    return {"line": {key: line[key] for key in members if key in line} | {"sized": line["resultBytes"] > 0}}


async def _trace_of(cell: Cell) -> Outcome:
    await cell.call("answers")
    (request,) = cell.requests
    return {"trace": (request.headers.get("traceparent"), request.params["_meta"].get("traceparent"))}


def spans(method: str, name: str) -> Play:
    """A request, and the spans that a collector receives for it."""

    async def play(cell: Cell) -> Outcome:
        await cell.ask(method, {"name": name, **({"arguments": {}} if method == CALL else {})})
        return await chain(cell, method)

    return play


async def _skill_traced(cell: Cell) -> Outcome:
    await cell.ask("skills/get", {"uri": f"skill://{cell.name}/pdf/SKILL.md"})
    return await chain(cell, "skills/get")


async def chain(cell: Cell, method: str) -> Outcome:
    """Spans of the only request with that method."""
    await eventually(lambda: len(cell.spans(method)) == 2)
    (request,) = cell.world.requests_seen(cell.name, method)
    call, attempt = sorted(cell.spans(method), key=lambda span: int(span.kind))
    trace, parent = PARENT.split("-")[1:3]
    return {
        "spans": [(span.name, span.trace_id.hex() == trace) for span in (call, attempt)],
        "chain": (call.parent_span_id.hex() == parent, attempt.parent_span_id == call.span_id),
        "told": request.headers.get("traceparent", "").split("-")[2] == attempt.span_id.hex(),
    }


def spans_in_chain(name: str) -> Outcome:
    """Outcome of `spans` if the call is a child of the caller's span and the attempt a child of the call."""
    return {"spans": [(name, True)] * 2, "chain": (True, True), "told": True}


async def _give_up(cell: Cell) -> Outcome:
    """Cancel a request after it has reached the server. Waits until the server is notified."""
    world = cell.world
    path = f"/{cell.name}"
    world.server.broken_off.clear()

    async def wait_until_it_waits() -> None:
        await eventually(lambda: world.every.times[path, "waits"] == 1)

    def is_told() -> bool:
        (request,) = [seen for seen in world.requests_seen(cell.name, CALL) if seen.params["name"] == "waits"]
        return world.server.broken_off.is_set() or request.message["id"] in world.every.cancelled

    await cell.call("waits", abandoned=wait_until_it_waits)
    await eventually(is_told)
    return {}


def task_call(tool: str) -> Play:
    """A call that may become a task, with the requests about it that its server received (`tasks`). `audit` contains
    only the call.
    """

    async def play(cell: Cell) -> Outcome:
        client = cell.world.clients[cell.name]

        def task_requests() -> tuple[str, ...]:
            return tuple(
                seen.method
                for seen in cell.world.server.seen[before:]
                if seen.path == f"/{cell.name}" and seen.method.startswith("tasks/")
            )

        before = len(cell.world.server.seen)
        answer = await cell.call(tool)
        if answer.code != "ok" and task_requests():
            await eventually(lambda: "tasks/cancel" in task_requests())
        own = client.kind.tasks or client.kind.over == "python"  # polls are requests of its own
        declined = client.kind.over == "python" and len(cell.requests) > 1
        lines = await cell.audit_lines(1 + declined + (len(task_requests()) if own else 0))
        calls = [
            (line["decision"], line["outcome"], line.get("reason", "")) for line in lines if line["method"] == CALL
        ]
        return {"tasks": task_requests(), "audit": calls}

    return play


async def _about(cell: Cell) -> Outcome:
    """Follow a task. Returns the audit lines of its requests, which have the name of the task's tool."""
    await cell.call("works")
    *_, line = await cell.audit_lines(2)
    return {"audit": [(line["method"], line["name"], line["decision"], line["outcome"])]}


async def _about_traced(cell: Cell) -> Outcome:
    await cell.call("works")
    return {**await chain(cell, "tasks/get"), "audit": []}


feature("a result comes as the server made it", {"says": '{"n": 1}'}, calls("answers", {"n": 1}))
feature(
    "an error of the tool comes as the server made it",
    failure("tool_error", "no such city"),
    calls("fails"),
)
feature(
    "an error of the server is quoted",
    failure("UPSTREAM_ERROR", "the server answered with error -32000: not today"),
    calls("refuses"),
)
feature(
    "arguments that the server does not take are named",
    failure(
        "INVALID_ARGUMENTS",
        "the server answered with error -32602: n is odd",
        audit=[("refused", "INVALID_ARGUMENTS", "")],
    ),
    calls("disagrees"),
)
feature(
    "an unknown tool is named",
    refusal(
        "UNKNOWN_TOOL",
        "Unknown tool: qzxqzxqzx",
        audit=[("denied", "-32602", "Unknown tool: SERVER__qzxqzxqzx")],
        counted={"-32602": 1},
    ),
    calls("qzxqzxqzx"),
)
feature(
    "a tool that a policy hides is unknown",
    refusal(
        "UNKNOWN_TOOL",
        "Unknown tool: hidden",
        audit=[("denied", "-32602", "rule 0 of policy default/hide denies the tool")],
        counted={"-32602": 1},
    ),
    calls("hidden"),
)
feature(
    "a tool that a policy denies openly is refused with the reason",
    refusal(
        "UNKNOWN_TOOL",
        "The tool explained is not allowed for you: rule 0 of policy default/tell denies the tool",
        audit=[("denied", "-32602", "rule 0 of policy default/tell denies the tool")],
        counted={"-32602": 1},
    ),
    calls("explained", at="-twice"),
)
feature(
    "a tool over the budget of the tier names the tier that has it",
    refusal("OVER_BUDGET", f"tier fast hides the tool late: {WHY}; tier deep shows the tool, at /mcp/deep"),
    calls("late"),
)
feature(
    "arguments that do not fit the schema are refused",
    refusal(
        "INVALID_ARGUMENTS", "The arguments do not match the tool's inputSchema:\n- n: expected integer, got a string"
    ),
    calls("strict", {"n": "one"}),
)
feature(
    "arguments that a policy does not allow are refused",
    refusal(
        "INVALID_ARGUMENTS",
        "No policy allows a call of the tool with these arguments",
        "denied",
        "rule 0 of policy default/all",
    ),
    calls("even", {"n": 1}),
)
feature(
    "a tool takes so many calls in a minute",
    refusal(
        "RATE_LIMITED",
        "The limit of 1 calls a minute for the tool is reached: retry later",
        marks=("retryAfterMs",),
        limited={"tool": 1},
        audit=[("allowed", "ok", ""), ("limited", "RATE_LIMITED", "tool")],
        counted={"ok": 1, "RATE_LIMITED": 1},
    ),
    calls("counted", times=2),
)
feature(
    "a server takes so many calls in a second",
    refusal(
        "RATE_LIMITED",
        "the limit of 0.6 calls a minute for the server default/SERVER is reached: retry later",
        marks=("retryAfterMs",),
        limited={"server": 1},
        audit=[("allowed", "ok", ""), ("limited", "RATE_LIMITED", "server")],
        counted={"ok": 1, "RATE_LIMITED": 1},
    ),
    calls("answers", at="-busy", times=2),
)
feature(
    "a kept result answers an equal call",
    {"marks": ("fairlead.dev/cache",), "requests": 0, "audit": [("allowed", "ok", "")] * 2, "counted": {"ok": 2}},
    calls("keeps", times=2),
)
feature(
    "a slow call is overtaken by a second one",
    {"says": "second", "requests": 2},
    calls("lags", at="-twice"),
)
feature(
    "a call whose connection was lost is made again where the tool is idempotent",
    {"says": "again", "requests": 2},
    calls("drops"),
)
feature(
    "a call whose connection was lost is not made again where the tool is not idempotent",
    failure("CONNECTION_LOST", "the server closed the connection without an answer"),
    calls("loses"),
)
feature(
    "a call that takes too long is ended, and says by which bound",
    failure(
        "TIMEOUT", "overruns of default/SERVER did not answer within 0.5 s, the maximum of the tool (maxDurationMs)"
    ),
    calls("overruns"),
)
feature(
    "a server that failed five times in a row is left alone",
    refusal(
        "BREAKER_OPEN",
        "the server default/SERVER is not called for a while: 5 calls failed in a row, the last because the "
        "server refuses "
        "connections",
        marks=("retryAfterMs",),
        audit=[("allowed", "CONNECTION_LOST", "")] * 5 + [("refused", "BREAKER_OPEN", "")],
        counted={"CONNECTION_LOST": 5, "BREAKER_OPEN": 1},
    ),
    calls("answers", at="-down", times=6),
)
feature(
    "a server that is known to be down is not tried",
    refusal(
        "CONNECTION_LOST", "the server default/SERVER is offline: `fairlead servers default/SERVER` says why", "allowed"
    ),
    calls("answers", at="-gone"),
)
feature(
    "a result that is too large is refused",
    failure("RESULT_TOO_LARGE", "the answer announces 8000 bytes, more than 4096"),
    calls("grows"),
)
feature(
    "a result that does not fit its schema is marked",
    {"marks": ("fairlead.dev/warning",)},
    calls("strays"),
)
feature(
    "control characters are made visible where a policy says so",
    {"says": "red \\u001b[31m"},
    calls("paints"),
)
feature(
    "a call is audited with its trace and redacted arguments",
    {
        "says": '{"n": 1, "password": "s3cret"}',
        "line": {
            "method": CALL,
            "tool": "mcp.SERVER.answers",
            "traceId": PARENT[3:35],
            "principal": "anonymous",
            "client": "127.0.0.1",
            "arguments": {"n": 1, "password": "[redacted]"},
            "sized": True,
        },
    },
    _audit_line,
)
feature("the trace of a call goes on to the server", {"trace": (PARENT, PARENT)}, _trace_of)
feature(
    "a call that its client gives up is cancelled at the server",
    failure("gone", "", audit=[("allowed", "CANCELLED", "")], counted={"CANCELLED": 1}),
    _give_up,
)
feature("progress and log messages come ahead of the answer", {"says": "done"}, calls("reports"))
feature(
    "a tool that asks its client finds nobody where nothing was declared",
    failure("tool_error", "nobody to ask"),
    calls("asks"),
    at={
        "modern": {
            "code": "MISSING_CLIENT_CAPABILITY",
            "audit": [("refused", "MISSING_CLIENT_CAPABILITY", "")],
            "says": f"{LACKS}: nobody to ask",
            "counted": {"MISSING_CLIENT_CAPABILITY": 1},
        }
    },
)
feature(
    "a tool behind a client capability is kept from clients without it",
    refusal("MISSING_CLIENT_CAPABILITY", GATED),
    calls("gated"),
)
feature(
    "a prompt is of the server that has it",
    {"says": "greet"},
    asks("prompts/get", lambda cell: {"name": "greet"}),
    method="prompts/get",
)
feature(
    "a prompt of a server that refuses it",
    failure("-32000", "not today"),
    asks("prompts/get", lambda cell: {"name": "broken"}),
    method="prompts/get",
)
feature(
    "a prompt that nobody has",
    refusal("-32602", "Unknown prompt: nonesuch", audit=[("denied", "-32602", "Unknown prompt: SERVER__nonesuch")]),
    asks("prompts/get", lambda cell: {"name": "nonesuch"}),
    method="prompts/get",
)
feature(
    "a prompt of a server that is down",
    refusal(
        "CONNECTION_LOST", "the server refuses connections", audit=[("allowed", "-32603", "")], counted={"-32603": 1}
    ),
    asks("prompts/get", lambda cell: {"name": "greet"}, "-down"),
    method="prompts/get",
)
feature(
    "a resource is of the server that has it",
    {"says": "test://SERVER"},
    asks("resources/read", lambda cell: {"uri": f"test://{cell.name}"}),
    method="resources/read",
)
feature(
    "a user interface is of the server whose tool names it",
    {"says": PAGE},
    asks("resources/read", lambda cell: {"uri": f"ui://{cell.name}/page/app.html"}),
    method="resources/read",
)
feature(
    "a skill is of the server that has it",
    {"says": "skill://pdf/SKILL.md"},
    asks("skills/get", lambda cell: {"uri": f"skill://{cell.name}/pdf/SKILL.md"}),
    method="skills/get",
)
feature(
    "a request for a skill is a span in the trace of its caller, with a span for the attempt at its server",
    {"says": "skill://pdf/SKILL.md", **spans_in_chain("skills/get")},
    _skill_traced,
    method="skills/get",
    servers=("modern",),
    exported=True,
)
feature(
    "a resource that nobody has",
    refusal("-32602", "Resource not found", "denied", "Resource not found"),
    asks("resources/read", lambda cell: {"uri": "test://nonesuch"}),
    method="resources/read",
)
feature(
    "a completion is of the server that has the prompt",
    {"says": "greet"},
    asks(
        "completion/complete",
        lambda cell: {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "a", "value": "b"}},
    ),
    method="completion/complete",
)
feature(
    "a completion of a prompt that nobody has",
    refusal(
        "-32602", "Unknown reference: nonesuch", audit=[("denied", "-32602", "Unknown reference: SERVER__nonesuch")]
    ),
    asks(
        "completion/complete",
        lambda cell: {"ref": {"type": "ref/prompt", "name": "nonesuch"}, "argument": {"name": "a", "value": "b"}},
    ),
    method="completion/complete",
)
feature(
    "a call is a span in the trace of its caller, with a span for the attempt at its server",
    {**spans_in_chain("tools/call answers")},
    spans(CALL, "answers"),
    exported=True,
)
feature(
    "a prompt is a span in the trace of its caller, with a span for the attempt at its server",
    {"says": "greet", **spans_in_chain("prompts/get greet")},
    spans("prompts/get", "greet"),
    method="prompts/get",
    exported=True,
)
feature(
    "a call that becomes a task where its client has tasks",
    {"says": "done", "tasks": ()},
    task_call("works"),
    servers=("modern",),
)
feature(
    "a call that is always a task is waited for by clients without tasks",
    {"says": "done", "requests": 2, "tasks": ("tasks/get",)},
    task_call("toils"),
    servers=("modern",),
)
feature(
    "a task that asks its client finds nobody where nothing was declared",
    refusal("MISSING_CLIENT_CAPABILITY", f"{LACKS}: {UNASKED}", requests=2, tasks=("tasks/get", "tasks/cancel")),
    task_call("inquires"),
    servers=("modern",),
)
feature(
    "a request about a task is audited as one of its tool",
    {"says": "done", "audit": [("tasks/get", "works", "allowed", "ok")]},
    _about,
    method="tasks/get",
    servers=("modern",),
)
feature(
    "a request about a task is a span in the trace of its caller, with a span for the attempt at its server",
    {"says": "done", **spans_in_chain("tasks/get"), "audit": []},
    _about_traced,
    method="tasks/get",
    servers=("modern",),
    exported=True,
)
