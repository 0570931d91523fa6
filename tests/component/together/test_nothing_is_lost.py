"""What a server has beside tools, through operator and gateway: as it is asked directly, in both eras, at both kinds
of endpoint. Prompts are prefixed on the merged one; URIs never are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from controlplane import ControlPlane
from everythingserver import LEVELS, NOTE, everything_server
from operatorworld import World, release_namespace, running
from togetherworld import serving, shows
from waiting import until_async

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

MODES: list[Any] = ["auto", "legacy"]
DAY = "note://by-day/monday"


@pytest.fixture
def world(control_plane: ControlPlane, namespace: str) -> Iterator[World]:
    with release_namespace(control_plane, namespace) as release:
        yield World(control_plane, namespace, release)


@dataclass(frozen=True)
class Endpoints:
    """The server itself, its endpoint, and the merged one."""

    direct: str
    own: str
    merged: str


@asynccontextmanager
async def published(world: World) -> AsyncIterator[Endpoints]:
    """The server that has everything, discovered by an operator and served by a gateway."""
    async with everything_server() as url, running(world, lease_seconds=30.0), serving(world) as gateway:
        world.create("demo", {"url": url})
        await until_async("listed", shows(gateway, "demo__chatter", "demo__edit"))
        base = f"http://127.0.0.1:{gateway.port}"
        yield Endpoints(url, f"{base}/servers/{world.namespace}/demo/mcp", f"{base}/mcp")


async def _everything(url: str, mode: Any, prefix: str = "") -> dict[str, Any]:
    """All that a client can ask of a server beside tools, as plain values without what an era adds."""
    prompt = f"{prefix}greet"
    async with Client(url, mode=mode) as client:
        asked = {
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
    return {name: answer.model_dump(exclude=envelope) for name, answer in asked.items()}


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_loses_nothing_behind_its_own_endpoint_and_its_prompts_have_a_prefix_on_the_merged_one(
    world: World, mode: Any
) -> None:
    async with published(world) as at:
        direct = await _everything(at.direct, mode)
        assert await _everything(at.own, mode) == direct
        merged = await _everything(at.merged, mode, "demo__")
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

    async with published(world) as at:
        tool = "edit" if endpoint == "own" else "demo__edit"
        async with Client(getattr(at, endpoint), mode="legacy", message_handler=listen) as client:
            assert client.server_capabilities.resources is not None
            assert client.server_capabilities.resources.subscribe
            await client.subscribe_resource(NOTE)

            async def edited() -> bool:
                await client.call_tool(tool, {})
                return heard.is_set()

            await until_async("the news", edited)
            await client.unsubscribe_resource(NOTE)


@pytest.mark.parametrize("level", ["debug", "error"])
@pytest.mark.parametrize("mode", MODES)
async def test_log_messages_reach_the_client_from_the_level_on_that_it_asks_for(
    world: World, mode: Any, level: Any
) -> None:
    heard: list[str] = []

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        heard.append(str(params.data))

    expected = [f"said at {one}" for one in LEVELS[LEVELS.index(level) :]]
    asked = {"log_level": level} if mode == "auto" else {}
    async with published(world) as at:
        for url, tool in ((at.own, "chatter"), (at.merged, "demo__chatter")):
            heard.clear()
            async with Client(url, mode=mode, logging_callback=log, **asked) as client:
                if mode == "legacy":
                    await client.set_logging_level(level)
                assert not (await client.call_tool(tool, {})).is_error
                await until_async("what was said", lambda: _is(heard, expected))


async def _is(heard: list[str], expected: list[str]) -> bool:
    return heard == expected
