"""Results nested nearly as deeply as the interpreter can decode: each call gets an answer, or an error of the step that
fails.

Decoding shares the interpreter's stack with the frames above it. So a later step of a call may fail to decode a result
that the upstream could decode. Compiled code has no such frames; these tests are for a call path in plain Python.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec
import pytest
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.path.call import ToolCall
from fairlead_gateway.calls.path.client_call import STAGES
from fairlead_gateway.calls.path.context import CallContext, CallServices, Introduction
from fairlead_gateway.calls.path.direct import Caller, DirectCall, Origin, _CapturingExchange
from fairlead_gateway.calls.path.dispatch import Dispatcher
from fairlead_gateway.calls.questions.input_required import Bridge
from fairlead_gateway.calls.questions.server_requests import ServerRequests
from fairlead_gateway.calls.results.cache import ResultCache
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.calls.results.result_keeper import ResultKeeper
from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.calls.subscriptions.resource_subscriptions import ResourceSubscriptions
from fairlead_gateway.catalog.model import build
from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.long_results import LongResult, ShownResult
from fairlead_gateway.core.ports import Pending, Upstream
from fairlead_gateway.core.request import McpRequest, RequestMeta
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.task import TaskRef
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_gateway.sending import NO_OP_PENDING
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.upstream.guard import Guard, Timing
from fairlead_gateway.upstream.server_facts import AdmissionLimits
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import NotMcp
from fairlead_mcp.methods import TASKS
from fairlead_mcp.uris import UriNames
from fairlead_tools.validation.schema_cache import Checks
from gatewayworld import META, catalog, entry
from selections import select

T = TypeVar("T")
CLOCK: Final = 100.0
TOO_DEEP: Final = "the server's answer is nested too deeply"
TURNS: Final = 10
"""Iterations of the event loop after which a call has ended, if its work waits for nothing."""
STEPS: Final = 40
"""Number of depths that are tested below the deepest readable one: more than a call has stack frames."""
OUTPUT: Final = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
DEFINITION: Final = json.dumps({"name": "get", "inputSchema": {"type": "object"}, "outputSchema": OUTPUT}).encode()
CHECK: Final = Checks().of("default/web", "get", DEFINITION)
SNAPSHOT: Final = build({"web": catalog("web", "http://w", [entry(DEFINITION)])})
TOOL: Final = replace(select(SNAPSHOT).targets[b"/mcp"].everything["web__get"], check=None)
OTHER: Final = replace(TOOL, tool=None)
"""Route of a request that is not a tool call."""
TASK: Final = TaskRef("sealed", ServerKey("default", "web"), "get", "t", None)
TASK.check = CHECK
ADA: Final = Identity(kind="apiKey", principal="ada", owner="ada")


class Server(Upstream):
    """Upstream that answers when the test calls `answer`, and decodes its own response as a real upstream does."""

    def __init__(self, modern: bool) -> None:
        self._modern = modern
        self.sinks: list[ResponseSink] = []
        self.guard = Guard("default/web", AdmissionLimits(10), Timing(lambda delay, action: None, lambda: CLOCK))

    def route_through(self, route: Route) -> Route:
        return replace(route, upstream=self, guard=self.guard)

    @property
    def modern(self) -> bool:
        return self._modern

    def modern_for(self, client: ClientPeer | None) -> bool:
        return self._modern

    def next_id(self) -> bytes:
        return b"7"

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        self.sinks.append(sink)
        return NO_OP_PENDING

    def answer(self, body: bytes) -> None:
        sinks = self.sinks
        self.sinks = []
        for sink in sinks:
            try:
                members = jsonrpc.decode_result(body)
            except msgspec.ValidationError:
                sink.take_result(Raw(body), None)
            except RecursionError:
                sink.take_error(NotMcp(TOO_DEEP))
            else:
                sink.take_result(Raw(body), members)

    def ask(self, params: bytes) -> None:
        message = jsonrpc.decode_message(jsonrpc.request(b"1", "elicitation/create", params))
        for sink in self.sinks:
            sink.ask(message, lambda answer: None)


class Half:
    """Shortens every result by its last character, so that a shortened result exists at any depth."""

    async def shorten(self, long: LongResult) -> ShownResult:
        return ShownResult(99, long.result[:-1] + b" }", 5)


@dataclass(frozen=True)
class Case:
    """A request whose server answers with `members` and a deeply nested member."""

    members: str
    route: Route = TOOL
    method: str = "tools/call"
    modern: bool = False
    """Era of the client."""
    to_modern: bool = False
    """Era of the server."""
    capabilities: str = "{}"
    extensions: frozenset[str] = frozenset()
    tokens: int | None = None
    recording: str | None = None
    copies: int = 1
    """Number of equal requests. All but the first wait for the first one's result."""

    def calls(self, server: Server) -> list[tuple[ToolCall, _CapturingExchange]]:
        made = []
        metrics = MetricsRegistry()
        client = eras.Client()
        context = CallContext(
            metrics,
            Introduction(client, b"{}"),
            ServerRequests(SessionIds(b"k"), lambda session, params: False),
            ResourceSubscriptions(client),
            Bridge(lambda: CLOCK),
            CallServices(
                cache=ResultCache(),
                keeper=ResultKeeper(ContextRecorder(None), Half(), metrics),
                clock=lambda: CLOCK,
            ),
        )
        for _ in range(self.copies):
            meta_json = f'{{"{META}clientCapabilities":{self.capabilities}}}'
            params = {"name": Raw(b'"get"')} | ({"_meta": Raw(meta_json.encode())} if self.modern else {})
            meta = RequestMeta("", extensions=self.extensions)
            request = McpRequest(self.modern, self.method, b"1", params, None, meta)
            request.context_session = self.recording
            request.result_tokens = self.tokens
            exchange = _CapturingExchange(Origin(identity=ADA), None, AnswerBuffers())
            made.append((ToolCall(context, exchange, server.route_through(self.route), request), exchange))
        return made


LINK: Final = '"content":[{"type":"resource_link","uri":"ui://a/b","name":"b"}]'
ELICITS: Final = '{"elicitation":{}}'
TASKING: Final = f'{{"extensions":{{"{TASKS}":{{}}}}}}'
DONE: Final = '"resultType":"complete","taskId":"t","status":"completed"'
MISFIT: Final = '"content":[],"structuredContent":{"n":"x"}'

CASES: Final = {
    "within the legacy era": Case('"content":[]'),
    "within the modern era": Case('"content":[],"resultType":"complete"', modern=True, to_modern=True),
    "to a modern client": Case('"content":[],"_meta":{}', modern=True),
    "to a legacy client": Case('"content":[]', to_modern=True),
    "a read resource": Case('"contents":[]', OTHER, "resources/read", modern=True),
    "a read resource of a modern server": Case(
        '"contents":[],"resultType":"complete"', OTHER, "resources/read", modern=True, to_modern=True
    ),
    "a resource under another name": Case(
        '"contents":[{"uri":"ui://a/b","text":"","_meta":{"ui":{"domain":"x"}}}]',
        replace(OTHER, uris=UriNames("web")),
        "resources/read",
        modern=True,
    ),
    "a link to a resource": Case(LINK, replace(TOOL, uris=UriNames("web"))),
    "a result that does not fit its schema": Case(MISFIT, replace(TOOL, check=CHECK)),
    "escaped": Case('"content":[{"type":"text","text":"\\u001b"}]', replace(TOOL, must_escape=True)),
    "of another shape": Case('"content":["x",null]', modern=True),
    "without content": Case('"structuredContent":[]'),
    "questions with a state": Case('"resultType":"input_required","requestState":"x"', modern=True, to_modern=True),
    "a task that begins": Case(
        '"resultType":"task","taskId":"t","status":"working"',
        modern=True,
        to_modern=True,
        capabilities=TASKING,
        extensions=frozenset({TASKS}),
    ),
    "a task that is over": Case(
        f'{DONE},"result":{{{MISFIT}}}',
        replace(OTHER, task=TASK, uris=UriNames("web")),
        "tasks/get",
        modern=True,
        to_modern=True,
    ),
    "a task whose result is too long": Case(
        f'{DONE},"result":{{{LINK}}}', replace(OTHER, task=TASK), "tasks/get", modern=True, to_modern=True, tokens=16
    ),
    "kept for equal calls": Case('"content":[]', replace(TOOL, cacheable_seconds=60, cache_scope=b"scope"), copies=3),
    "recorded": Case('"content":[]', recording="s", modern=True),
    "recorded, and too long": Case('"content":[]', recording="s", tokens=16),
    "too long": Case('"content":[]', tokens=16),
    "of a call that may ask": Case('"content":[]', modern=True, capabilities=ELICITS),
}


def nest(members: str, depth: int) -> bytes:
    return b'{%b,"deep":%b%b}' % (members.encode(), b"[" * depth, b"]" * depth)


def read_result(depth: int) -> object:
    return jsonrpc.decode_result(nest('"content":[]', depth))


def deepest(read: Callable[[int], object] = read_result) -> int:
    """Depth of the deepest document that can be decoded at the caller's stack depth."""
    low = 1
    high = 200_000
    while low < high:
        middle = (low + high + 1) // 2
        try:
            read(middle)
            low = middle
        except RecursionError:
            high = middle - 1
    return low


async def from_the_loop(action: Callable[[], T]) -> T:
    """Result of `action`, run directly by the event loop as a transport is, with few frames above it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def act() -> None:
        try:
            done.set_result(action())
        except Exception as error:  # noqa: BLE001  # raised where it is awaited
            done.set_exception(error)

    loop.call_soon(act)
    return await done


async def run_until_settled() -> None:
    """Run the event loop until calls that wait for nothing have ended."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


def is_answer(body: bytes) -> bool:
    """Whether this is the deep result, or an error that says why it cannot be passed on."""
    return b"[" * 100 in body or TOO_DEEP.encode() in body


@pytest.mark.parametrize("name", CASES)
async def test_a_result_of_any_depth_is_passed_on_or_refused(name: str) -> None:
    case = CASES[name]
    top = await from_the_loop(deepest)
    bodies = []
    for depth in range(top - STEPS, top + 2):
        server = Server(case.to_modern)
        calls = case.calls(server)
        for call, _ in calls:
            call.run(STAGES)
        assert len(server.sinks) == 1
        while server.sinks:  # if the first call has no result, the equal calls are made one by one
            await from_the_loop(lambda: server.answer(nest(case.members, depth)))  # noqa: B023  # awaited
            await run_until_settled()
        for call, exchange in calls:
            assert call.done
            assert is_answer(exchange.result), (depth - top, exchange.result[-300:])
            bodies.append(exchange.result)
    assert TOO_DEEP.encode() not in bodies[0]
    assert TOO_DEEP.encode() in bodies[-1]


async def test_a_question_of_any_depth_is_passed_on_or_refused() -> None:
    case = CASES["of a call that may ask"]
    refused = set[bool]()
    top = await from_the_loop(lambda: deepest(lambda depth: jsonrpc.decode_message(nest('"id":1', depth))))
    for depth in range(top - STEPS, top + 1):
        server = Server(modern=False)
        ((call, exchange),) = case.calls(server)
        call.run(STAGES)
        await from_the_loop(lambda: server.ask(nest('"message":"?"', depth - 1)))  # noqa: B023  # awaited
        await run_until_settled()
        assert call.done
        assert is_answer(exchange.result), (depth - top, exchange.result[-300:])
        refused.add(TOO_DEEP.encode() in exchange.result)
    assert False in refused


async def test_a_caller_within_the_gateway_has_a_result_of_any_depth_or_a_refusal() -> None:
    top = await from_the_loop(deepest)
    for depth in range(top - STEPS, top + 2):
        server = Server(modern=False)
        view = select(SNAPSHOT).targets[b"/mcp"]
        view.routes = {"get": server.route_through(TOOL)}
        ((call, _),) = CASES["within the legacy era"].calls(server)
        own_tools: Any = None
        caller = Caller(Dispatcher(call.context), own_tools)
        calling = asyncio.create_task(below(STEPS // 4, caller.call(Origin(), view, DirectCall("get", b"{}"))))
        await run_until_settled()
        await from_the_loop(lambda: server.answer(nest('"content":[]', depth)))  # noqa: B023  # awaited
        made = await calling
        assert isinstance(made, Raw)
        assert is_answer(bytes(made)), (depth - top, bytes(made)[-300:])


async def below(frames: int, work: Awaitable[T]) -> T:
    """Result of `work`, awaited through nested coroutines as in an application."""
    return await work if frames == 0 else await below(frames - 1, work)
