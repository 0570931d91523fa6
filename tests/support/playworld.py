"""The example with a voice agent, run by `fairlead up` in front of scripted speech models: all eight servers.

The endpoints behind the servers for the web and for pictures are fakes that take as long as real ones.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from commands import program_in
from fairlead_servers.image_gen.drawing import draw
from fairlead_servers.table import SERVERS
from playengines import PlayEngine
from playscript import HOLD, STEPS, script
from upprocess import fairlead_up
from voicetables import flat, key_of, listed_tools, of_bundled
from waiting import until_async

EXAMPLE: Final = Path(__file__).resolve().parents[2] / "examples" / "voice"
SEARCH_SECONDS: Final = 0.7
PICTURE_SECONDS: Final = 1.6


@dataclass
class Endpoints:
    """A search engine and an image model."""

    port: int = 0
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the search that is never answered has arrived."""
    images_drawn: int = 0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/v1/images/generations":
            self.images_drawn += 1
            await asyncio.sleep(PICTURE_SECONDS)
            picture = await asyncio.to_thread(draw, "A harbor", "night", 256, 256)
            return web.json_response({"data": [{"b64_json": base64.b64encode(picture).decode()}]})
        query = request.query.get("q", "")
        if query == HOLD:
            self.held.set()
            await asyncio.Event().wait()
        await asyncio.sleep(SEARCH_SECONDS)
        hit = {"title": "Tides", "url": "https://example.org/tides", "content": f"What is known of {query}."}
        return web.json_response({"results": [hit]})

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Endpoints]:
        runner = web.ServerRunner(web.Server(self.answer), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()


@dataclass(frozen=True)
class PlayWorld:
    """A gateway with all eight servers, and API keys of agents."""

    base: str
    keys: dict[str, str]
    endpoints: Endpoints | None = None
    """None if the servers send no requests."""


def _copy_example(folder: Path, port: int) -> None:
    """Copy the example, with the addresses of the endpoints. Models wait for a search, so an interruption cancels
    it.
    """
    shutil.copytree(EXAMPLE, folder)
    ends = {
        "web-search": f', --set, "engine=http://127.0.0.1:{port}"]',
        "image-gen": f', --set, "endpoint=http://127.0.0.1:{port}/v1"]',
    }
    for name, end in ends.items():
        file = folder / f"{name}.yaml"
        text = file.read_text().replace(f"{name}]", f"{name}{end}", 1)
        file.write_text(text.replace("- name: search\n", "- name: search\n      speech: Wait\n"))


@contextlib.asynccontextmanager
async def play_world(folder: Path, engines: Sequence[PlayEngine]) -> AsyncIterator[PlayWorld]:
    """The example with the providers of these engines. Starts after every tier shows its expected tools."""
    async with contextlib.AsyncExitStack() as stack:
        endpoints = await stack.enter_async_context(Endpoints().serving())
        for engine in engines:
            played = script(STEPS, late=not engine.hears_first)
            await stack.enter_async_context(engine.serving(played, "127.0.0.1"))
        _copy_example(folder / "voice", endpoints.port)
        providers: dict[str, dict[str, Any]] = {}
        for number, engine in enumerate(engines):
            providers |= engine.providers("127.0.0.1", f"play-{number}")
        routes = folder / "routes.yaml"
        routes.write_text(json.dumps({"providers": providers}))
        agents = sorted({engine.agent for engine in engines} | {"qa"})
        keys = {agent: await key_of(agent, folder, "--file", str(folder / "keys.json")) for agent in agents}
        environment = {
            "PATH": f"{program_in(folder / 'bin')}:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "FAIRLEAD_API_KEYS": str(folder / "keys.json"),
        }
        up = await stack.enter_async_context(fairlead_up("voice", "--routes", routes, cwd=folder, env=environment))
        states = await up.states(len(SERVERS))
        assert all(state.startswith("ready") for state in states.values()), states
        await until_tables(up.url, keys, engines)
        yield PlayWorld(up.url.removesuffix("/mcp"), keys, endpoints)


async def until_tables(url: str, keys: dict[str, str], engines: Sequence[PlayEngine]) -> None:
    """Wait until each tier shows its tools: a busy machine makes tools slow for a while."""
    for engine in engines:
        for tier in engine.table:
            expected = of_bundled(flat(engine.table, tier))

            async def shows(agent: str, tier: str, expected: set[str]) -> bool:
                return await listed_tools(f"{url}/{tier}", keys[agent]) == expected

            await until_async(f"{engine.agent} {tier}", partial(shows, engine.agent, tier, expected), seconds=120)
