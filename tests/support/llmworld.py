"""A gateway in front of a scripted model, with an MCP server that adds numbers, and a client of the APIs of models.

async with llm_world(tmp_path, ScriptedTurn("Hello")) as world:
    answer = await world.chat("Say hello")
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Rules, Tier
from fairlead_app.configuration import Models
from fairlead_app.gateway import Gateway
from fairlead_formats.scripted_turns import ScriptedTurn
from fairlead_formats.tokens.models import ContextWindows
from fairlead_formats.tokens.prices import ModelPrice
from fairlead_formats.tokens.routes import read_routes
from fairlead_llm.scripted_model import ScriptedModel
from fairlead_models.providers import read_providers
from gatewayworld import Answer, catalog, running
from restworld import post
from toolservers import RawServer, Reply, Request, answer_modern, raw_server, serve_asgi, tool

PATH = "/v1/chat/completions"
MESSAGES = "/v1/messages"
ANTHROPIC = {"kind": "anthropic"}
"""Members of an Anthropic provider."""
ADDS = tool(
    "add",
    description="Add two numbers",
    inputSchema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
    annotations={"readOnlyHint": True},
)
FAILS = tool("fail", description="Always fail")


def more_tools(count: int) -> list[dict[str, Any]]:
    """Additional tools of about 150 tokens each."""
    return [tool(f"count_{n:03}", description=f"Count the boxes of store {n}. " + "Boxes. " * 60) for n in range(count)]


def policy(name: str = "careful", *, limits: PolicyLimits | None = None, auto_run: str = "All") -> Policy:
    """A policy for every user and every tool."""
    return Policy(
        namespace="default",
        name=name,
        every=True,
        rules=(Rule(action="Allow", tools=("*",)),),
        limits=limits or PolicyLimits(),
        auto_run=auto_run,
    )


def theirs(name: str = "theirs") -> dict[str, Any]:
    """A tool of the caller."""
    function = {"name": name, "description": "The caller's", "parameters": {"type": "object", "properties": {}}}
    return {"type": "function", "function": function}


@dataclass
class LlmWorld:
    """The running processes, with the requests that they received."""

    gateway: Gateway
    models: Sequence[ScriptedModel]
    called: list[dict[str, Any]]
    """Parameters of the calls that the MCP server received."""

    @property
    def model(self) -> ScriptedModel:
        return self.models[0]

    async def chat(self, *messages: str | Mapping[str, Any], **members: Any) -> Answer:
        """Send one request. A text becomes a message of the user. `headers` are added to the request."""
        headers = members.pop("headers", {})
        conversation = [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages]
        return await post(self.gateway, PATH, {"model": "scripted", "messages": conversation, **members}, **headers)

    async def messages(self, *messages: str | Mapping[str, Any], path: str = MESSAGES, **members: Any) -> Answer:
        """Send one request of Anthropic's API; otherwise like `chat`."""
        headers = members.pop("headers", {})
        conversation = [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages]
        body = {"model": "scripted", "max_tokens": 2048, "messages": conversation, **members}
        return await post(self.gateway, path, body, **headers)


def chunks(answer: Answer) -> list[Any]:
    """Decoded data of a streamed answer's events; `[DONE]` is kept as text."""
    lines = answer.body.decode().split("\n")
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [each if each == "[DONE]" else json.loads(each) for each in data]


def _call_handler(seen: list[dict[str, Any]]) -> Any:
    def call(request: Request) -> dict[str, Any]:
        params = request.message["params"]
        seen.append(params)
        if params["name"] == "fail":
            return {"content": [{"type": "text", "text": "it failed"}], "isError": True}
        total = sum(params["arguments"].values())
        return {"content": [{"type": "text", "text": str(total)}]}

    return call


def _tool_server(
    tools: Sequence[dict[str, Any]], seen: list[dict[str, Any]], before: Callable[[], Awaitable[object]] | None
) -> contextlib.AbstractAsyncContextManager[RawServer]:
    call = _call_handler(seen)

    async def handle(request: Request, reply: Reply) -> None:
        if before is not None and request.method == "tools/call":
            await before()
        answer_modern(request, reply, tools, call=call)

    return raw_server(handle)


def _with_delay(model: ScriptedModel, before: Callable[[], Awaitable[None]] | None) -> Any:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if before is not None and scope["type"] == "http":
            await before()
        await model(scope, receive, send)

    return answer


@contextlib.asynccontextmanager
async def llm_world(
    folder: Path,
    *scripts: ScriptedTurn | Sequence[ScriptedTurn],
    windows: Mapping[str, int] | None = None,
    provider: Mapping[str, Any] | None = None,
    providers: Sequence[Mapping[str, Any]] = (),
    policies: Sequence[Policy] = (),
    tools: Sequence[dict[str, Any]] = (),
    tiers: Sequence[Tier] = (),
    prices: Mapping[str, ModelPrice] | None = None,
    before_answer: Callable[[], Awaitable[None]] | None = None,
    before_call: Callable[[], Awaitable[object]] | None = None,
    **settings: Any,
) -> AsyncIterator[LlmWorld]:
    """`scripts`: turns of one model, or a list of turns for each of several models, which form the route
    `fairlead/all`. `provider`: further members of all providers; `providers`: further members of each provider, in
    order. The server's annotations are trusted, and the server also has `tools`. `before_answer` is awaited before each
    answer of a model, and `before_call` before each call of a tool. Tokens are counted in this process unless
    `rest_processes` is given.
    """
    lists = [scripts] if not scripts or isinstance(scripts[0], ScriptedTurn) else scripts
    models = [ScriptedModel(*turns) for turns in lists]  # type: ignore[misc] # a list of turns each
    own = [*providers, *({} for _ in models)]
    seen: list[dict[str, Any]] = []
    async with contextlib.AsyncExitStack() as stack:
        ports = [await stack.enter_async_context(serve_asgi(_with_delay(model, before_answer))) for model in models]
        server = await stack.enter_async_context(_tool_server([ADDS, FAILS, *tools], seen, before_call))
        names = ["scripted", *(f"scripted-{number}" for number in range(1, len(models)))]
        routes = read_routes({"all": {"models": names, "reservedOutputTokens": 0}})
        configured_providers = read_providers(
            {
                f"script{number}": {
                    "baseUrl": f"http://127.0.0.1:{port}/v1",
                    "models": [name],
                    **(provider or {}),
                    **own[number],
                }
                for number, (port, name) in enumerate(zip(ports, names, strict=True))
            },
            routes,
        )
        context_windows = ContextWindows(dict.fromkeys(names, 128000) | dict(windows or {}))
        configured = Models(routes, context_windows, None, configured_providers, prices or {})
        demo = catalog("demo", server.url, [ADDS, FAILS, *tools], trust_annotations=True)
        rules = Rules(policies=tuple(policies), tiers=tuple(tiers))
        settings = {"rest_processes": 0, **settings}  # starting a worker process would take a second per world
        gateway = await stack.enter_async_context(running(folder, demo, rules, models=configured, **settings))
        yield LlmWorld(gateway, models, seen)
