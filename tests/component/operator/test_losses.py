"""Servers that disappear and come back while nobody calls them, observed on a real API server.

The interval of discoveries is ten minutes, so these findings do not come from periodic discoveries.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import pytest

from fairlead_api.documents.codec import catalog_name
from fairlead_api.meta import ServerKey
from operatorworld import QUICK, Json, World, running
from ports import free_port
from rawserver import RawServer, Reply, Request, raw_server
from toolservers import answer_modern, tool

QUIET = QUICK.replace(interval_floor=30.0)
READY = ("Normal", "Ready")
LOST = ("Warning", "Unreachable")


class Site:
    """A server that can be stopped and started again at the same address."""

    def __init__(self, *tools: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.tools = [tool(name) for name in tools]
        self.server: RawServer | None = None
        self._open = contextlib.AsyncExitStack()

    async def start(self) -> None:
        async def handle(request: Request, reply: Reply) -> None:
            answer_modern(request, reply, self.tools)

        self.server = await self._open.enter_async_context(raw_server(handle, self.port))

    async def end(self) -> None:
        await self._open.aclose()


@contextlib.asynccontextmanager
async def site(*tools: str) -> Any:
    """A running Site."""
    made = Site(*tools)
    await made.start()
    try:
        yield made
    finally:
        await made.end()


def events(world: World, name: str) -> list[tuple[str, str]]:
    """Type and reason of the Events about a server, in the order in which they were posted."""
    _, listing = world.request("GET", f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events")
    related: list[Json] = [item for item in listing["items"] if item["regarding"]["name"] == name]
    return [(item["type"], item["reason"]) for item in sorted(related, key=lambda item: str(item["eventTime"]))]


@pytest.mark.parametrize("policy", ["MarkOffline", "Remove"])
async def test_a_server_that_nobody_calls_is_lost_when_it_ends_and_back_when_it_returns(
    world: World, policy: str
) -> None:
    async with site("add") as far, running(world, QUIET):
        world.create("demo", {"url": far.url, "discovery": {"onDisconnect": policy}})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        before = world.catalog("demo")
        await far.end()
        await world.until("not Ready", lambda: world.is_("demo", "Ready", "False", "ConnectionRefused"))
        assert world.is_("demo", "Programmed", "True")
        if policy == "Remove":
            await world.until("withdrawn", lambda: world.catalog("demo") is None)
        else:
            lost = world.catalog("demo")
            assert lost is not None
            assert before is not None
            assert (lost.online, lost.tools) == (False, before.tools)
        far.tools.append(tool("sub"))
        await far.start()
        await world.until("Ready again", lambda: world.is_("demo", "Ready", "True"))
        back = world.catalog("demo")
        assert back is not None
        assert ([entry.name for entry in back.tools], back.online) == (["add", "sub"], True)


async def test_events_tell_of_each_loss_and_each_return_once(world: World) -> None:
    def is_announced(what: tuple[str, str], times: int) -> bool:
        return events(world, "demo").count(what) == times

    async with site("add") as far, running(world, QUIET):
        world.create("demo", {"url": far.url})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        for round_ in (1, 2):
            await far.end()
            await world.until("told of the loss", partial(is_announced, LOST, round_))
            await far.start()
            await world.until("told of the return", partial(is_announced, READY, round_ + 1))
        told = [event for event in events(world, "demo") if event in (LOST, READY)]
    assert told == [READY, LOST, READY, LOST, READY]


@pytest.mark.timeout(300)
async def test_servers_that_work_are_not_touched_while_others_are_down(world: World) -> None:
    async with contextlib.AsyncExitStack() as stack:
        sites = [await stack.enter_async_context(site("add")) for _ in range(24)]
        await stack.enter_async_context(running(world, QUIET))
        names = [f"server-{number:02}" for number in range(24)]
        for name, url_site in zip(names, sites, strict=True):
            world.create(name, {"url": url_site.url})
        for name in names:
            await world.until(f"{name} Ready", partial(world.is_, name, "Ready", "True"), seconds=120)
        dead = names[:6]
        healthy = names[6:]
        before = {
            name: (world.server(name)["metadata"]["resourceVersion"], config_map(world, name)) for name in healthy
        }
        requests = [len(site.server.seen) for site in sites[6:] if site.server is not None]
        for url_site in sites[:6]:
            await url_site.end()
        for name in dead:
            await world.until(f"{name} lost", partial(world.is_, name, "Ready", "False"))
        for url_site in sites[:3]:
            await url_site.start()
        for name in dead[:3]:
            await world.until(f"{name} back", partial(world.is_, name, "Ready", "True"))
        after = {name: (world.server(name)["metadata"]["resourceVersion"], config_map(world, name)) for name in healthy}
        assert after == before
        assert [len(site.server.seen) for site in sites[6:] if site.server is not None] == requests


def config_map(world: World, name: str) -> str:
    """Resource version of the ConfigMap with a server's catalog, which changes with every write."""
    manifest = world.get(world.config_map_path(catalog_name(ServerKey(world.namespace, name))))
    assert manifest is not None
    return str(manifest["metadata"]["resourceVersion"])


async def test_a_server_that_closes_idle_connections_is_not_lost(world: World) -> None:
    async with site("add") as far, running(world, QUIET):
        world.create("demo", {"url": far.url})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        before = world.server("demo")["metadata"]["resourceVersion"]
        server = far.server
        assert server is not None
        requests = len(server.seen)
        for _ in range(3):
            opened = server.opened
            await world.until("an idle connection", lambda: server.open)
            server.cut()
            await world.until("another one", partial(lambda before: server.opened > before, opened))
        assert world.server("demo")["metadata"]["resourceVersion"] == before
        assert len(server.seen) == requests, "nor is it asked again"
