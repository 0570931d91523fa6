"""Refreshes, losses and changes, from the server to the client: operator and gateway with a real API server and the
operations port. The interval of discoveries is ten minutes, so nothing here is found by periodic discoveries.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from commands import fairlead as command
from fairlead_app.gateway import Gateway
from fairlead_gateway.events import Event
from forkserver import program_words
from gatewayworld import Answer, ask, calling, modern
from operatorworld import QUICK, World, running
from ports import free_port
from rawserver import RawServer, Reply, Request, raw_server
from restworld import get, post, problem
from togetherworld import serving, shows
from toolservers import answer_modern, tool
from upprocess import fairlead_up
from waiting import until_async

TOKEN = "shared-by-both"


class Server:
    """A modern server that announces nothing. `deaf`: it accepts connections, but closes them at each request."""

    def __init__(self, *names: str) -> None:
        self.tools: list[Any] = [tool(name) for name in names]
        self.deaf = False
        self.ttl_ms = 0

    async def __call__(self, request: Request, reply: Reply) -> None:
        if self.deaf:
            reply.close()
        elif request.method == "tools/list" and self.ttl_ms:
            reply.result(request, {"resultType": "complete", "tools": self.tools, "ttlMs": self.ttl_ms})
        else:
            answer_modern(request, reply, self.tools)


@contextlib.asynccontextmanager
async def both(world: World, *, operators_token: str = TOKEN, **changes: Any) -> AsyncIterator[Gateway]:
    """An operator that pulls reports of one gateway, and the gateway, which allows it."""
    port = free_port()
    settings = QUICK.replace(interval_floor=30.0, gateways=f"http://127.0.0.1:{port}", pull_token=operators_token)
    async with (
        serving(world, metrics_port=port, pull_token=TOKEN) as gateway,
        running(world, settings.replace(**changes)),
    ):
        yield gateway


async def apply_server(world: World, gateway: Gateway, server: RawServer, *names: str, **discovery: Any) -> None:
    world.create("demo", {"url": server.url, "discovery": discovery})
    await until_async("its tools in the list", shows(gateway, *(f"demo__{name}" for name in names)))


async def fairlead(gateway: Gateway | str, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    url = gateway if isinstance(gateway, str) else f"http://127.0.0.1:{gateway.port}/mcp"
    return await command(*words, "--url", url)


async def test_a_refresh_shows_what_a_server_did_not_announce_and_says_so(world: World) -> None:
    server = Server("add")
    async with raw_server(server) as raw, both(world) as gateway:
        await apply_server(world, gateway, raw, "add")
        server.tools.append(tool("sub"))
        code, out, _ = await fairlead(gateway, "refresh", "demo")
        assert (code, "2 tools, 1 before" in out) == (0, True)
        assert await shows(gateway, "demo__add", "demo__sub")()
        await world.until("its status", lambda: world.server("demo")["status"]["tools"] == 2)
        version = world.server("demo")["metadata"]["resourceVersion"]
        code, out, _ = await fairlead(gateway, "refresh", f"{world.namespace}/demo")
        assert (code, "2 tools, unchanged" in out) == (0, True)
        assert world.server("demo")["metadata"]["resourceVersion"] == version, "nothing to tell in the status"
        server.deaf = True
        code, _, err = await fairlead(gateway, "refresh", "demo")
        assert code == 1
        assert f"the discovery of {world.namespace}/demo failed" in err


async def test_a_request_is_answered_with_202_and_unknown_servers_with_a_problem(world: World) -> None:
    async with raw_server(Server("add")) as raw, both(world) as gateway:
        await apply_server(world, gateway, raw, "add")
        answer = await post(gateway, f"/v1/servers/{world.namespace}/demo/refresh", {})
        assert (answer.status, answer.message["server"]) == (202, f"{world.namespace}/demo")
        unknown = await post(gateway, "/v1/servers/nobody/refresh", {})
        assert problem(unknown) == (404, "UNKNOWN_SERVER")
        assert unknown.message["known"] == [f"{world.namespace}/demo"]
        assert (await fairlead(gateway, "refresh", "nobody"))[0] == 2


async def test_a_request_waits_for_an_operator_and_the_command_says_what_is_missing(world: World) -> None:
    server = Server("add")
    async with raw_server(server) as raw:
        async with both(world, operators_token="another") as gateway:
            await apply_server(world, gateway, raw, "add")
            code, _, err = await fairlead(gateway, "refresh", "demo", "--timeout", "5")
            assert (code, "no operator has polled this gateway" in err) == (1, True), err
            requests = len(raw.seen)
            url = f"http://127.0.0.1:{gateway.metrics_port}"
            settings = QUICK.replace(interval_floor=30.0, gateways=url, pull_token=TOKEN, identity="second")
            async with running(world, settings) as second:
                await world.until("waiting", lambda: second.lease.waiting)
                assert len(raw.seen) == requests, "only the leader asks"
        async with serving(world, metrics_port=free_port(), pull_token=TOKEN) as gateway:
            await until_async("the list", shows(gateway, "demo__add"))
            assert (await fairlead(gateway, "refresh", "demo", "--no-wait"))[0] == 0
            server.tools.append(tool("sub"))
            settings = QUICK.replace(interval_floor=30.0, gateways=f"http://127.0.0.1:{gateway.metrics_port}")
            async with running(world, settings.replace(pull_token=TOKEN)):
                await until_async("what the request brought", time_of_refresh(gateway))


def time_of_refresh(gateway: Gateway) -> Any:
    async def look() -> Any:
        return (await get(gateway, "/v1/servers/demo")).message["refreshed"]

    return look


async def test_a_server_that_only_calls_find_dead_is_lost_soon_after_the_first_of_them(world: World) -> None:
    server = Server("add")
    async with raw_server(server) as raw, both(world) as gateway:
        await apply_server(world, gateway, raw, "add")
        server.deaf = True
        assert (await ask(gateway, calling("demo__add"))).refusal == "CONNECTION_LOST"
        await world.until("lost", lambda: world.is_("demo", "Ready", "False"))
        server.deaf = False
        await world.until("back", lambda: world.is_("demo", "Ready", "True"), seconds=30)


async def test_a_lost_server_stays_in_the_list_byte_for_byte_and_refuses_calls_at_once(world: World) -> None:
    heard: list[Event] = []
    async with both(world) as gateway:
        async with raw_server(Server("add")) as raw:
            await apply_server(world, gateway, raw, "add")
            gateway.events.subscribe(heard.append)
            before = await listing(gateway)
        await until_async("offline", offline(gateway))
        assert (await listing(gateway)).body == before.body
        refused = await ask(gateway, calling("demo__add"))
        assert refused.refusal == "CONNECTION_LOST"
        assert "is offline" in refused.message["result"]["content"][0]["text"]
        offer = (await get(gateway, "/v1/tools?format=openai")).message
        assert (offer["tools"], offer["offline"]) == ([], ["demo__add"])
        assert (await fairlead(gateway, "refresh", "demo"))[0] == 1
        assert [event.reason for event in heard if event.type == "server.disconnected"] == ["offline"]
        async with raw_server(Server("add"), raw.port):
            await until_async("online", online(gateway))
            assert (await listing(gateway)).body == before.body

            async def is_told() -> bool:
                return [event.type for event in heard if event.server][-1] == "server.connected"

            await until_async("the news of it", is_told)


async def test_a_lost_server_that_is_to_be_removed_is_gone_from_every_list_of_tools_and_shown_as_failed(
    world: World,
) -> None:
    async with both(world) as gateway:
        async with raw_server(Server("add")) as raw:
            await apply_server(world, gateway, raw, "add", onDisconnect="Remove")
        await until_async("an empty list", shows(gateway))
        assert (await get(gateway, "/v1/tools")).message["tools"] == []
        assert (await ask(gateway, calling("demo__add"))).code == -32602

        async def is_failed() -> bool:
            servers = (await get(gateway, "/v1/servers")).message["servers"]
            return [server["state"] for server in servers] == ["failed"]

        await until_async("told why", is_failed)
        async with raw_server(Server("add"), raw.port):
            await until_async("back in the list", shows(gateway, "demo__add"))


async def test_a_schema_that_has_changed_is_what_the_gateway_lists_once_its_time_to_live_is_over(world: World) -> None:
    server = Server("add")
    server.ttl_ms = 100
    async with raw_server(server) as raw, both(world, interval_floor=1.0) as gateway:
        await apply_server(world, gateway, raw, "add")
        late = tool("add")
        late["inputSchema"] = {"type": "object", "properties": {"late": {"type": "integer"}}}
        server.tools = [late]

        async def schema() -> bool:
            (shown,) = (await listing(gateway)).message["result"]["tools"]
            return bool(shown["inputSchema"] == late["inputSchema"])

        await until_async("the new schema", schema)


async def listing(gateway: Gateway) -> Answer:
    return await ask(gateway, modern("tools/list"))


def offline(gateway: Gateway) -> Any:
    async def look() -> bool:
        return bool((await get(gateway, "/v1/servers/demo")).message["offline"])

    return look


def online(gateway: Gateway) -> Any:
    async def look() -> bool:
        return not (await get(gateway, "/v1/servers/demo")).message["offline"]

    return look


async def test_a_refresh_and_a_loss_show_on_a_laptop_too(tmp_path: Path) -> None:
    server = Server("add")
    async with raw_server(server) as raw:
        manifest = {
            "apiVersion": "fairlead.dev/v1alpha1",
            "kind": "McpServer",
            "metadata": {"name": "demo"},
            "spec": {"url": raw.url},
        }
        (tmp_path / "demo.yaml").write_text(json.dumps(manifest))
        async with fairlead_up(tmp_path, cwd=tmp_path) as up:
            await up.ready("default/demo")
            server.tools.append(tool("sub"))
            code, out, _ = await fairlead(up.url, "refresh", "demo")
            assert (code, "2 tools, 1 before" in out) == (0, True)
            following = await asyncio.create_subprocess_exec(
                *program_words(),
                "events",
                "--tail",
                "0",
                "--output",
                "json",
                "--url",
                up.url,
                stdout=asyncio.subprocess.PIPE,
            )
            try:
                assert (await next_event(following))["type"] == "stream.opened"
                raw.refuse()
                assert (await next_event(following))["type"] == "server.disconnected"
            finally:
                following.kill()
                await following.wait()


async def next_event(process: asyncio.subprocess.Process) -> Any:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return json.loads(await process.stdout.readline())


async def test_a_server_that_never_answered_is_shown_by_the_gateways_of_a_cluster_and_asked_by_a_refresh(
    world: World,
) -> None:
    server = Server("add")
    server.deaf = True
    async with raw_server(server) as raw, both(world) as gateway:
        world.create("demo", {"url": raw.url})

        async def is_failed() -> Any:
            shown = await get(gateway, "/v1/servers/demo")
            return shown.message if shown.message.get("state") == "failed" else None

        shown_server = await until_async("that it failed", is_failed)
        assert shown_server["cause"] in ("ConnectionLost", "ClosedMidAnswer", "EmptyAnswer")
        assert shown_server["message"]
        assert not {"tools", "restarts", "rssBytes", "lastWords"} & shown_server.keys(), "what is not known is absent"
        assert (await ask(gateway, calling("demo__add"))).refusal == "CONNECTION_LOST"
        code, _, why = await fairlead(gateway, "refresh", "demo")
        assert (code, f"the discovery of {world.namespace}/demo failed: " in why) == (1, True)
        server.deaf = False
        code, out, _ = await fairlead(gateway, "refresh", "demo")
        assert (code, "1 tool, for the first time" in out) == (0, True)

        async def ready() -> Any:
            return (await get(gateway, "/v1/servers/demo")).message["state"] == "ready"

        await until_async("that it is ready", ready)  # its entry is in a separate document, which may arrive later
