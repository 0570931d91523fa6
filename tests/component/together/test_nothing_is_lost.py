"""Features of a server other than tools, through operator and gateway: they work as at the server itself, in both eras,
at both kinds of endpoint. At the merged endpoint, prompts have prefixes, but URIs do not. The SDK warns of log
messages, which are deprecated but widely used.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import mcp_types as types
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings

from operatorworld import World, running
from togetherworld import serving, shows
from toolservers import serve_asgi
from waiting import until_async

NOTE = "note://today"
LEVELS = ("debug", "info", "error")


def make_everything() -> MCPServer:
    """Create a server with all features."""
    subscribers: list[Any] = []
    server = MCPServer("everything", version="3.2.1", instructions="Ask for anything.")

    @server.tool(description="Says something at each level.")
    async def chatter(ctx: Context) -> str:
        for level in LEVELS:
            await ctx.log(cast("Any", level), f"said at {level}")
        return "done"

    @server.tool(description="Changes the note.")
    async def edit(ctx: Context) -> str:
        for session in subscribers:
            await session.send_resource_updated(NOTE)
        await ctx.notify_resource_updated(NOTE)
        return "edited"

    @server.resource(NOTE, description="A note.", mime_type="text/plain")
    def note() -> str:
        return "Größe 🚢"

    @server.resource("note://by-day/{day}", description="Notes by day.", mime_type="text/plain")
    def by_day(day: str) -> str:
        return f"the note of {day}"

    @server.prompt(description="Greets somebody.")
    def greet(name: str) -> str:
        return f"Say hello to {name}."

    async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
        kind = "prompt" if isinstance(ref, types.PromptReference) else "resource"
        return types.Completion(values=[f"{kind}-{argument.name}-{argument.value}"])

    cast("Any", server).completion()(complete)

    async def subscribe(ctx: Any, params: Any) -> types.EmptyResult:
        subscribers.append(ctx.session)
        return types.EmptyResult()

    async def accept(ctx: Any, params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    for method, params, handler in (
        ("resources/subscribe", types.SubscribeRequestParams, subscribe),
        ("resources/unsubscribe", types.UnsubscribeRequestParams, accept),
        ("logging/setLevel", types.SetLevelRequestParams, accept),
    ):
        server._lowlevel_server.add_request_handler(method, params, handler)
    return server


@contextlib.asynccontextmanager
async def everything_server() -> AsyncIterator[str]:
    """Serve the server in this event loop. Yields its URL."""
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    async with serve_asgi(make_everything().streamable_http_app(transport_security=security)) as port:
        yield f"http://127.0.0.1:{port}/mcp"


pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

MODES: list[Any] = ["auto", "legacy"]
DAY = "note://by-day/monday"


@dataclass(frozen=True)
class Endpoints:
    """URLs of the server itself, of its endpoint at the gateway, and of the merged endpoint."""

    direct: str
    own: str
    merged: str


@asynccontextmanager
async def published_endpoints(world: World) -> AsyncIterator[Endpoints]:
    """The server with all features, discovered by an operator and served by a gateway."""
    async with everything_server() as url, running(world, lease_seconds=30.0), serving(world) as gateway:
        world.create("demo", {"url": url})
        await until_async("listed", shows(gateway, "demo__chatter", "demo__edit"))
        base = f"http://127.0.0.1:{gateway.port}"
        yield Endpoints(url, f"{base}/servers/{world.namespace}/demo/mcp", f"{base}/mcp")


async def _all_answers(url: str, mode: Any, prefix: str = "") -> dict[str, Any]:
    """Answers to all requests other than about tools, as plain values without members that depend on the era."""
    prompt = f"{prefix}greet"
    async with Client(url, mode=mode) as client:
        answers = {
            "prompts": await client.list_prompts(),
            "resources": await client.list_resources(),
            "templates": await client.list_resource_templates(),
            "prompt": await client.get_prompt(prompt, {"name": "Ada"}),
            "note": await client.read_resource(NOTE),
            "day": await client.read_resource(DAY),
            "completed": await client.complete(types.PromptReference(name=prompt), {"name": "name", "value": "A"}),
            "completed day": await client.complete(
                types.ResourceTemplateReference(uri="note://by-day/{day}"), {"name": "day", "value": "mo"}
            ),
        }
        capabilities = client.server_capabilities
        assert capabilities.prompts is not None
        assert capabilities.resources is not None
        assert capabilities.completions is not None
    envelope = {"meta", "ttl_ms", "cache_scope", "result_type"}
    return {name: answer.model_dump(exclude=envelope) for name, answer in answers.items()}


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_loses_nothing_behind_its_own_endpoint_and_its_prompts_have_a_prefix_on_the_merged_one(
    world: World, mode: Any
) -> None:
    async with published_endpoints(world) as at:
        direct = await _all_answers(at.direct, mode)
        assert await _all_answers(at.own, mode) == direct
        merged = await _all_answers(at.merged, mode, "demo__")
        assert [prompt["name"] for prompt in merged["prompts"]["prompts"]] == ["demo__greet"]
        merged["prompts"]["prompts"][0]["name"] = "greet"
        assert merged == direct
        async with Client(at.own, mode=mode) as client:
            assert client.instructions == "Ask for anything."
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.version) == ("everything", "3.2.1")


@pytest.mark.parametrize("endpoint", ["own", "merged"])
async def test_a_legacy_client_hears_of_a_resource_that_it_subscribed_to(world: World, endpoint: str) -> None:
    heard = asyncio.Event()

    async def listen(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification) and str(message.params.uri) == NOTE:
            heard.set()

    async with published_endpoints(world) as at:
        tool = "edit" if endpoint == "own" else "demo__edit"
        async with Client(getattr(at, endpoint), mode="legacy", message_handler=listen) as client:
            assert client.server_capabilities.resources is not None
            assert client.server_capabilities.resources.subscribe
            await client.subscribe_resource(NOTE)

            async def is_edited() -> bool:
                await client.call_tool(tool, {})
                return heard.is_set()

            await until_async("the news", is_edited)
            await client.unsubscribe_resource(NOTE)


@pytest.mark.parametrize("level", ["debug", "error"])
@pytest.mark.parametrize("mode", MODES)
async def test_log_messages_reach_the_client_from_the_level_on_that_it_asks_for(
    world: World, mode: Any, level: Any
) -> None:
    heard: list[str] = []

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        heard.append(str(params.data))

    expected = [f"said at {level_name}" for level_name in LEVELS[LEVELS.index(level) :]]
    options = {"log_level": level} if mode == "auto" else {}
    async with published_endpoints(world) as at:
        for url, tool in ((at.own, "chatter"), (at.merged, "demo__chatter")):
            heard.clear()
            async with Client(url, mode=mode, logging_callback=log, **options) as client:
                if mode == "legacy":
                    await client.set_logging_level(level)
                assert not (await client.call_tool(tool, {})).is_error
                await until_async("what was said", lambda: _is(heard, expected))


async def _is(heard: list[str], expected: list[str]) -> bool:
    return heard == expected
