"""Listing and lookup of real servers' tools in a registry: caching, refreshing, dead servers, changes, health."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from fairlead_client import AsyncToolRegistry, BadServer, ExecutionError, Server
from fairlead_mcp.eras import META_CAPABILITIES
from fairlead_mcp.errors import McpError
from ports import free_port
from rawserver import RawServer, Reply, Request, raw_server
from toolservers import (
    LEGACY_STDIO,
    SDK_STDIO,
    SDK_TOOLS,
    Item,
    answer_modern,
    broken_server,
    legacy_server,
    modern_server,
    sdk_server,
    tool,
)
from virtualtime import HandClock
from waiting import eventually, until_async

NOWHERE = "http://127.0.0.1:1/mcp"
GROWING = str(Path(SDK_STDIO).with_name("growing_stdio.py"))


def changing_server(tools: Sequence[Item], *, port: int = 0) -> AbstractAsyncContextManager[RawServer]:
    """A modern server that lists the current content of `tools`."""

    async def handle(request: Request, reply: Reply) -> None:
        answer_modern(request, reply, tools)

    return raw_server(handle, port)


def names_of(registry: AsyncToolRegistry) -> list[str]:
    return [tool.name for tool in registry.tools]


async def tool_names(registry: AsyncToolRegistry) -> list[str]:
    return [tool.name for tool in await registry.get_all_tools()]


async def test_the_tools_of_all_servers_of_both_eras_and_transports_are_listed_by_name() -> None:
    async with modern_server([tool("b"), tool("a")]) as new, legacy_server([tool("c")]) as old, sdk_server() as sdk:
        servers = [
            Server(name="new", url=new.url),
            Server(name="old", url=old.url),
            Server(name="sdk", url=sdk),
            Server(name="child", command=[sys.executable, LEGACY_STDIO]),
        ]
        async with AsyncToolRegistry(servers) as registry:
            children = ["child__ask", "child__changed", "child__die", "child__echo", "child__later", "child__seen"]
            expected = [*children, "new__a", "new__b", "old__c", *(f"sdk__{name}" for name in SDK_TOOLS)]
            assert names_of(registry) == expected
            assert await tool_names(registry) == expected


async def test_credentials_and_the_host_go_with_every_request_and_the_environment_to_the_process(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "not for children")
    async with modern_server([tool("a")]) as server:
        remote = Server(name="s", url=server.url, api_key="k1", headers={"X-Team": "blue"}, host_header="tools.test")
        script = "import os, sys; sys.exit(os.environ['REASON'] + os.environ.get('SECRET', ''))"
        child = Server(name="c", command=[sys.executable, "-c", script], env={"REASON": "because"})
        async with AsyncToolRegistry([remote, child]) as registry:
            await registry.execute("s__a")
        sent = [
            (request.headers["authorization"], request.headers["x-team"], request.headers["host"])
            for request in server.seen
        ]
        assert len(sent) == 3, "a handshake, a listing and a call"
        assert set(sent) == {("Bearer k1", "blue", "tools.test")}
    assert "c exited with code 1: because" in caplog.messages


async def test_an_entry_that_cannot_be_used_is_named_and_stops_no_other_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with modern_server([tool("a")]) as server:
        entries = {
            "Spelt Wrongly": {"comand": "x"},
            "HERE": {"url": server.url},
            "keyless": {"url": server.url, "headers": {"X-Key": "${NOT_SET_ANYWHERE}"}},
        }
        servers: list[Server | dict[str, Any]] = [Server(name="here", url=server.url), {"mcpServers": entries}]
        async with AsyncToolRegistry(servers) as registry:
            assert names_of(registry) == ["here__a"]
            outcome = await registry.execute("spelt-wrongly__b")
            of_either = await registry.execute("here__b")
            assert list(registry.unusable) == ["Spelt Wrongly", "HERE", "keyless"]
        with pytest.raises(BadServer, match=r"Spelt Wrongly\.comand: unknown key"):
            AsyncToolRegistry(servers, strict=True)
    sentence = "the server Spelt Wrongly is left out: Spelt Wrongly.comand: unknown key: did you mean command?"
    assert isinstance(outcome.error, ExecutionError)
    assert (outcome.error.code, str(outcome.error)) == ("CONNECTION_LOST", sentence)
    assert "servers 'HERE' and 'here' have the same prefix 'here'" in str(of_either.error)
    assert sentence in caplog.text
    assert "environment variable NOT_SET_ANYWHERE is not set" in caplog.text


async def test_a_server_of_the_program_itself_that_cannot_be_used_is_an_error() -> None:
    with pytest.raises(BadServer):
        AsyncToolRegistry([{"mcpServers": {"a": {"command": "x"}}}, Server(name="b")])


async def test_a_server_that_cannot_be_reached_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with modern_server([tool("a")]) as server, broken_server("html") as page:
        servers = [
            Server(name="gone", url=NOWHERE),
            Server(name="page", url=page.url),
            Server(name="missing", command="no-such-program-here"),
            Server(name="here", url=server.url),
        ]
        async with AsyncToolRegistry(servers) as registry:
            assert names_of(registry) == ["here__a"]
    assert "the tools of server gone are left out: 127.0.0.1:1 refused the connection" in caplog.text
    assert (
        "the tools of server missing are left out: there is no program no-such-program-here on this machine"
        in caplog.text
    )
    assert "the tools of server page are left out" in caplog.text


async def test_a_server_is_omitted_while_it_is_down_and_found_again_by_the_next_lookup() -> None:
    port = free_port()
    server = Server(name="s", url=f"http://127.0.0.1:{port}/mcp")
    async with AsyncToolRegistry([server], cache_ttl=0) as registry:
        assert names_of(registry) == []
        async with changing_server([tool("a")], port=port):
            assert await tool_names(registry) == ["s__a"]
        assert await tool_names(registry) == []
        async with changing_server([tool("b")], port=port):
            assert await tool_names(registry) == ["s__b"]


async def test_without_initialize_on_startup_nothing_is_connected_before_the_first_use() -> None:
    async with (
        modern_server([tool("a")]) as server,
        AsyncToolRegistry([Server(name="s", url=server.url)], initialize_on_startup=False) as registry,
    ):
        assert registry.tools == ()
        assert (server.seen, server.opened) == ([], 0)
        assert await tool_names(registry) == ["s__a"]


def listings(server: RawServer) -> int:
    """Number of listings so far, without those that declare capabilities to compare lists."""
    listed = (request for request in server.seen if request.method == "tools/list")
    return sum(not request.params["_meta"][META_CAPABILITIES] for request in listed)


async def test_a_listing_is_asked_for_again_only_when_it_is_older_than_the_ttl() -> None:
    clock = HandClock(1000.0)
    tools = [tool("a")]
    async with (
        changing_server(tools) as server,
        AsyncToolRegistry([Server(name="s", url=server.url)], cache_ttl=600, clock=clock) as registry,
    ):
        tools.append(tool("b"))
        clock.now += 599
        assert await tool_names(registry) == ["s__a"]
        assert listings(server) == 1
        clock.now += 2
        assert await tool_names(registry) == ["s__a", "s__b"]
        assert listings(server) == 2


async def test_a_listing_is_kept_for_less_time_where_the_server_says_so() -> None:
    clock = HandClock(1000.0)

    async def handle(request: Request, reply: Reply) -> None:
        if request.method == "tools/list":
            reply.result(request, {"tools": [tool("a")], "resultType": "complete", "ttlMs": 5000})
        else:
            answer_modern(request, reply)

    async with (
        raw_server(handle) as server,
        AsyncToolRegistry([Server(name="s", url=server.url)], cache_ttl=600, clock=clock) as registry,
    ):
        clock.now += 4
        await registry.get_all_tools()
        assert listings(server) == 1
        clock.now += 2
        await registry.get_all_tools()
        assert listings(server) == 2


async def test_callers_that_come_together_share_one_refresh() -> None:
    requested = asyncio.Event()
    go = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        if request.method == "tools/list":
            requested.set()
            await go.wait()
        answer_modern(request, reply, [tool("a")])

    async with (
        raw_server(handle) as server,
        AsyncToolRegistry([Server(name="s", url=server.url)], initialize_on_startup=False) as registry,
    ):
        lookups = [asyncio.create_task(tool_names(registry)) for _ in range(8)]
        await asyncio.wait_for(requested.wait(), 20)
        lookups[0].cancel()  # a cancelled caller does not cancel the lookup for the others
        await asyncio.wait([lookups[0]])
        go.set()
        assert await asyncio.gather(*lookups[1:]) == [["s__a"]] * 7
        assert listings(server) == 1


async def test_refresh_cache_asks_at_once_and_clear_cache_has_the_next_lookup_ask() -> None:
    tools = [tool("a")]
    async with changing_server(tools) as server, AsyncToolRegistry([Server(name="s", url=server.url)]) as registry:
        tools.append(tool("b"))
        await registry.refresh_cache()
        assert names_of(registry) == ["s__a", "s__b"]
        tools.append(tool("c"))
        registry.clear_cache()
        assert names_of(registry) == []
        assert await tool_names(registry) == ["s__a", "s__b", "s__c"]


async def test_an_announced_change_is_seen_by_the_next_lookup() -> None:
    child = Server(name="s", command=[sys.executable, GROWING], prefix="")
    async with AsyncToolRegistry([child]) as registry:
        assert names_of(registry) == ["grow"]
        assert (await registry.execute("grow", {"name": "grown"})).ok

        async def has_grown() -> bool:
            return await tool_names(registry) == ["grow", "grown"]

        await until_async("the announced tool is listed", has_grown)


async def test_tools_stay_until_their_server_is_closed_and_come_back_with_a_new_connection() -> None:
    heard: list[tuple[str, str, McpError | None]] = []
    async with (
        modern_server([tool("a")]) as server,
        AsyncToolRegistry(
            [Server(name="s", url=server.url)],
            on_connect=lambda name: heard.append(("connected", name, None)),
            on_disconnect=lambda name, error: heard.append(("gone", name, error)),
        ) as registry,
    ):
        opened = server.opened
        await registry.close_mcp_clients()
        assert not server.open
        assert await tool_names(registry) == ["s__a"]
        assert server.opened > opened
    assert heard == [("connected", "s", None), ("gone", "s", None)] * 2


async def test_the_death_of_a_process_is_told_at_once_and_the_next_lookup_restarts_it() -> None:
    connected: list[str] = []
    lost: asyncio.Queue[tuple[str, McpError | None]] = asyncio.Queue()

    async def on_disconnect(name: str, error: McpError | None) -> None:
        await lost.put((name, error))

    child = Server(name="s", command=[sys.executable, LEGACY_STDIO])
    async with AsyncToolRegistry([child], on_connect=connected.append, on_disconnect=on_disconnect) as registry:
        outcome = await registry.execute("s__die")
        name, error = await asyncio.wait_for(lost.get(), 20)
        assert (name, str(error)) == ("s", "s exited with code 7: told to die")
        assert str(outcome.error) == str(error)
        assert names_of(registry) == []
        assert "s__echo" in await tool_names(registry)
        await eventually(lambda: connected == ["s", "s"])


async def test_a_callback_that_fails_is_logged_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fails(name: str) -> None:
        raise ValueError(f"no {name} please")

    async with (
        modern_server([tool("a")]) as server,
        AsyncToolRegistry([Server(name="s", url=server.url)], on_connect=fails) as registry,
    ):
        assert await tool_names(registry) == ["s__a"]
    assert "no s please" in caplog.text


async def test_health_is_a_handshake_with_each_server_now() -> None:
    async with modern_server([tool("a")]) as up, broken_server("500") as down, legacy_server() as old:
        servers = [
            Server(name="up", url=up.url),
            Server(name="down", url=down.url),
            Server(name="gone", url=NOWHERE),
            Server(name="old", url=old.url),
            Server(name="child", command=[sys.executable, LEGACY_STDIO]),
        ]
        async with AsyncToolRegistry(servers) as registry:
            assert await registry.health_check() == {
                "up": True,
                "down": False,
                "gone": False,
                "old": True,
                "child": True,
            }
            assert up.methods().count("server/discover") == 2, "one at the start, one for its health"
            assert old.methods().count("initialize") == 2, "the same"


async def test_a_failed_health_check_drops_the_connection_and_the_tools() -> None:
    port = free_port()
    async with changing_server([tool("a")], port=port) as server:
        registry = AsyncToolRegistry([Server(name="s", url=server.url)])
        await registry.start()
    assert names_of(registry) == ["s__a"]
    assert await registry.health_check() == {"s": False}
    assert names_of(registry) == []
    await registry.close()


async def test_a_tool_is_found_by_name_by_id_and_by_its_own_name_where_one_server_has_it() -> None:
    async with (
        modern_server([tool("a"), tool("both")]) as first,
        modern_server([tool("both"), tool("x.y z")]) as second,
    ):
        servers = [Server(name="one", url=first.url), Server(name="two", url=second.url)]
        async with AsyncToolRegistry(servers) as registry:
            tools = {name: await registry.get_tool(name) for name in ("one__a", "mcp.one.a", "a", "both", "two__x_y_z")}
            assert {name: tool.name if tool else None for name, tool in tools.items()} == {
                "one__a": "one__a",
                "mcp.one.a": "one__a",
                "a": "one__a",
                "both": None,
                "two__x_y_z": "two__x.y z",
            }


async def test_the_first_server_wins_where_two_have_a_tool_of_one_name() -> None:
    async with (
        modern_server([tool("a", description="1")]) as first,
        modern_server([tool("a", description="2")]) as second,
    ):
        servers = [Server(name="one", url=first.url, prefix=""), Server(name="two", url=second.url, prefix="")]
        async with AsyncToolRegistry(servers) as registry:
            assert [(tool.name, tool.server, tool.description) for tool in registry.tools] == [("a", "one", "1")]


async def test_a_closed_registry_refuses_lookups_and_answers_calls() -> None:
    registry = AsyncToolRegistry()
    await registry.close()
    await registry.close()
    with pytest.raises(RuntimeError, match="closed"):
        await registry.get_all_tools()
    assert (await registry.execute("a")).error is not None


@pytest.mark.parametrize("server_of", [modern_server, legacy_server])
async def test_a_registry_opens_one_session_with_a_url_server_and_lists_its_tools_once(
    server_of: Callable[[Sequence[Item]], AbstractAsyncContextManager[RawServer]],
) -> None:
    async with (
        server_of([tool("a")]) as server,
        AsyncToolRegistry([Server(name="one", url=server.url)]) as registry,
    ):
        assert await tool_names(registry) == ["one__a"]
        assert server.methods().count("tools/list") == 1
        handshakes = [method for method in server.methods() if method in ("initialize", "server/discover")]
        assert len(set(handshakes)) == len(handshakes), "at most one of each era"
        assert await registry.get_tool("one__b") is None
        compared = server.methods().count("tools/list")
        assert await registry.get_tool("one__c") is None
        assert server.methods().count("tools/list") == compared, "lists that have not changed are compared once"
