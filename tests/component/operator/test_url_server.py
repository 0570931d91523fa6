"""A server by URL, from its McpServer to a catalog, on a real API server and with real MCP servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec
import pytest

from fairlead_api.documents.codec import catalog_name
from fairlead_api.meta import ServerKey
from operatorworld import World, running
from ports import free_port
from toolservers import (
    BROKEN,
    SDK_TOOLS,
    RawServer,
    Reply,
    Request,
    answer_modern,
    broken_server,
    legacy_server,
    modern_server,
    raw_server,
    sdk_server,
    tool,
)


async def test_a_url_server_becomes_ready_with_its_real_tools_in_the_catalog(world: World) -> None:
    async with sdk_server() as url, running(world):
        world.create("demo", {"url": url})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        catalog = world.catalog("demo")
        status = world.server("demo")["status"]
    assert catalog is not None
    assert {tool.name for tool in catalog.tools} == set(SDK_TOOLS)
    assert (catalog.prefix, catalog.online, catalog.trust_annotations) == ("demo", True, False)
    assert status["tools"] == len(SDK_TOOLS)
    assert status["toolsOffline"] == 0
    assert status["transport"] == "streamable-http"
    assert status["endpoint"] == url
    assert status["catalog"]["hash"] == catalog.hash
    assert status["observedGeneration"] == 1


@pytest.mark.parametrize("make", [modern_server, legacy_server])
async def test_every_page_is_in_the_catalog_byte_for_byte(
    world: World, make: Callable[..., contextlib.AbstractAsyncContextManager[RawServer]]
) -> None:
    tools = [tool(f"tool-{number:02}", description="Größe 🚢") for number in range(25)]
    async with make(tools, page_size=10) as server, running(world):
        world.create("demo", {"url": server.url})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        catalog = world.catalog("demo")
    assert catalog is not None
    assert [msgspec.json.decode(entry.definition) for entry in catalog.tools] == tools
    assert bytes(catalog.tools[0].definition).startswith(b'{"x-unknown":{"b":1,"a":2},"name":"tool-00"')


async def test_a_server_that_was_never_discovered_has_no_catalog(world: World) -> None:
    async with running(world):
        world.create("demo", {"url": f"http://127.0.0.1:{free_port()}/mcp"})
        await world.until("refused", lambda: world.is_("demo", "Verified", "False", "ConnectionRefused"))
        assert world.is_("demo", "Ready", "False", "ConnectionRefused")
        assert world.catalog("demo") is None
        assert "tools" not in world.server("demo")["status"]


@pytest.mark.parametrize("how", ["500", "html", "half json", "401", "redirect"])
async def test_a_server_that_answers_anything_but_mcp_is_never_ready_and_says_why(world: World, how: str) -> None:
    reasons = {
        "500": "ServerError",
        "html": "HTMLInsteadOfMCP",
        "half json": "TruncatedJSON",
        "401": "Unauthorized",
        "redirect": "Redirected",
    }
    async with broken_server(how) as server, running(world):
        world.create("demo", {"url": server.url})
        await world.until("not Ready", lambda: world.is_("demo", "Ready", "False", reasons[how]))
        assert world.condition("demo", "Verified")["message"]


@pytest.mark.parametrize("policy", ["MarkOffline", "Remove"])
async def test_a_ready_server_whose_listing_begins_to_fail_loses_ready_and_regains_it(
    world: World, policy: str
) -> None:
    failing: list[str] = []

    async def handle(request: Request, reply: Reply) -> None:
        if failing and request.method == "tools/list":
            await BROKEN[failing[0]](request, reply)
        else:
            answer_modern(request, reply, [tool("add")])

    async with raw_server(handle) as server, running(world):
        world.create("demo", {"url": server.url, "discovery": {"onDisconnect": policy}})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        failing.append("500")
        refresh(world, "demo")
        await world.until("not Ready", lambda: world.is_("demo", "Ready", "False", "ServerError"))
        assert world.is_("demo", "Programmed", "True")
        catalog = world.catalog("demo")
        if policy == "Remove":
            await world.until("withdrawn", lambda: world.catalog("demo") is None)
            assert world.server("demo")["status"]["tools"] == 0
        else:
            assert catalog is not None
            assert ([entry.name for entry in catalog.tools], catalog.online) == (["add"], False)
            assert world.server("demo")["status"]["toolsOffline"] == 1
        failing.clear()
        await world.until("Ready again", lambda: world.is_("demo", "Ready", "True"))
        await world.until("online", lambda: (c := world.catalog("demo")) is not None and c.online)


def refresh(world: World, name: str) -> None:
    """Cause a new discovery by changing the server's URL, which invalidates older answers."""
    url = world.server(name)["spec"]["url"]
    world.patch_server(name, {"spec": {"url": url.replace("/mcp", "/mcp/")}})


async def test_the_catalog_carries_what_the_manifest_says_about_tools(world: World) -> None:
    declared = {
        "name": "add",
        "description": "Adds.",
        "tags": ["math"],
        "categories": ["numbers"],
        "latency": {"estimated": "5ms"},
        "probe": {"arguments": {"a": 1}},
    }
    definition = tool("add", _meta={"fairlead.dev/latency": {"estimatedDurationMs": 9, "maxDurationMs": 90}})
    async with modern_server([definition, tool("sub")]) as server, running(world):
        world.create("demo", {"url": server.url, "tools": [declared, {"name": "sub", "enabled": False}]})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        catalog = world.catalog("demo")
        assert world.server("demo")["status"]["tools"] == 1
        world.patch_server("demo", {"spec": {"tools": None}})
        await world.until("both", lambda: world.server("demo")["status"]["tools"] == 2)
    assert catalog is not None
    add, sub = catalog.tools
    assert (add.description, add.tags, add.categories) == ("Adds.", ("math",), ("numbers",))
    assert add.latency is not None
    assert (add.latency.estimated_duration_ms, add.latency.max_duration_ms) == (5, 90)
    assert (add.probe_arguments, sub.enabled) == ({"a": 1}, False)


async def test_a_deleted_server_loses_its_catalog(world: World) -> None:
    async with sdk_server() as url, running(world):
        world.create("demo", {"url": url})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        world.request("DELETE", world.server_path("demo"))
        await world.until("no catalog", lambda: world.catalog("demo") is None)


async def test_the_younger_of_two_servers_with_one_prefix_is_told_and_keeps_its_endpoint(world: World) -> None:
    async with sdk_server() as url, running(world, prefix_retention_seconds=0.0):
        world.create("older", {"url": url, "prefix": "same"})
        await world.until("Ready", lambda: world.is_("older", "Ready", "True"))
        world.create("younger", {"url": url, "prefix": "same"})
        await world.until("told", lambda: world.is_("younger", "Conflicted", "True", "PrefixTaken"))
        await world.until("a catalog", lambda: world.catalog("younger"))
        younger = world.catalog("younger")
        older = world.catalog("older")
        assert younger is not None
        assert older is not None
        assert (older.prefix, younger.prefix) == ("same", None)
        assert world.is_("older", "Ready", "True")
        world.request("DELETE", world.server_path("older"))
        await world.until("the prefix is free", lambda: world.condition("younger", "Conflicted") == {})
        catalog = world.catalog("younger")
        assert catalog is not None
        assert catalog.prefix == "same"
        assert world.is_("younger", "Ready", "True")


async def test_kubectl_shows_transport_tools_ready_reason_and_age(world: World) -> None:
    async with sdk_server() as url, running(world):
        world.create("demo", {"url": url})
        world.create("gone", {"url": f"http://127.0.0.1:{free_port()}/mcp"})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        await world.until("not Ready", lambda: world.is_("gone", "Ready", "False"))
        world.plane.kubectl("-n", world.namespace, "wait", "mcps/demo", "--for=condition=Ready", "--timeout=9s")
        world.plane.kubectl("wait", "lt/fast", "--for=condition=Ready", "--timeout=9s")
        lines = world.plane.kubectl("-n", world.namespace, "get", "mcps").stdout.splitlines()
    assert lines[0].split() == ["NAME", "TRANSPORT", "TOOLS", "READY", "REASON", "CONFLICTED", "AGE"]
    demo = lines[1].split()
    gone = lines[2].split()
    assert demo[:4] == ["demo", "streamable-http", str(len(SDK_TOOLS)), "True"]
    assert gone[:1] + gone[-3:-1] == ["gone", "False", "Unreachable"]


async def test_events_tell_what_happens_to_a_server(world: World) -> None:
    async with sdk_server() as url, running(world):
        world.create("demo", {"url": url})
        world.create("gone", {"url": f"http://127.0.0.1:{free_port()}/mcp"})

        def is_told() -> bool:
            _, listing = world.request("GET", f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events")
            seen = {(e["regarding"]["name"], e["type"], e["reason"]) for e in listing["items"]}
            wanted = {("demo", "Normal", "Ready"), ("demo", "Normal", "CatalogPublished")}
            return seen >= wanted | {("gone", "Warning", "Unreachable")}

        await world.until("events", is_told)


async def test_a_catalog_deleted_by_hand_is_put_back_as_offline_while_its_server_cannot_be_listed(
    world: World,
) -> None:
    """The operator has never reached the server, and knows its tools only from the catalog."""
    name = catalog_name(ServerKey(world.namespace, "demo"))
    async with sdk_server() as url, running(world):
        world.create("demo", {"url": url})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
    async with running(world):
        await world.until("offline", lambda: (catalog := world.catalog("demo")) is not None and not catalog.online)
        await world.until("not Ready", lambda: world.is_("demo", "Ready", "False"))
        before = world.catalog("demo")
        assert world.request("DELETE", world.config_map_path(name))[0] == 200
        after = await world.until("put back", lambda: world.catalog("demo"))
    assert after is not None
    assert after == before
    assert not after.online
