"""Operator and gateway together on a real API server: tools of applied servers can be listed and called, until the
server is deleted. The two communicate only by ConfigMaps and Secrets.
"""

from __future__ import annotations

import base64
import time
from functools import partial

import pytest
from mcp import Client

from fairlead_app.gateway import Gateway
from operatorworld import World, running
from togetherworld import serving, shows
from toolservers import SDK_TOOLS, Reply, Request, answer_modern, raw_server, sdk_server, tool
from waiting import until_async


@pytest.mark.timing
async def test_a_server_is_listed_within_a_second_of_being_ready_and_called_in_both_eras(world: World) -> None:
    expected: list[str] = []
    async with sdk_server() as url, running(world), serving(world) as gateway:
        took: list[float] = []
        for name in ("demo", "another", "third"):
            world.create(name, {"url": url})
            await world.until("Ready", partial(world.is_, name, "Ready", "True"))
            ready = time.monotonic()
            expected += [f"{name}__{tool}" for tool in SDK_TOOLS]
            await until_async("the tools in the list", shows(gateway, *expected))
            took.append(time.monotonic() - ready)
        assert min(took) < 1, "a busy machine may delay one, hardly all"
        for target in (f"http://127.0.0.1:{gateway.port}/mcp", _own(gateway, world, "demo")):
            prefix = "" if "/servers/" in target else "demo__"
            for mode in ("auto", "legacy"):
                async with Client(target, mode=mode) as client:
                    result = await client.call_tool(f"{prefix}add", {"a": 2, "b": 3})
                assert result.structured_content == {"result": 5}
        for name in ("demo", "another", "third"):
            assert world.request("DELETE", world.server_path(name))[0] == 200
        await until_async("an empty list", shows(gateway))


def _own(gateway: Gateway, world: World, name: str) -> str:
    return f"http://127.0.0.1:{gateway.port}/servers/{world.namespace}/{name}/mcp"


async def test_an_image_is_served_once_its_pod_runs(world: World) -> None:
    async with sdk_server() as url, running(world), serving(world) as gateway:
        world.hosts.ports[f"demo.{world.namespace}.svc"] = int(url.split(":")[2].split("/")[0])
        world.create("demo", {"image": {"name": "example.com/demo:1", "port": 8000}})
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        assert not world.is_("demo", "Ready", "True")
        world.pods_are("demo", 1)
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        await until_async("the tools", shows(gateway, *(f"demo__{name}" for name in SDK_TOOLS)))
        async with Client(f"http://127.0.0.1:{gateway.port}/mcp") as client:
            result = await client.call_tool("demo__add", {"a": 2, "b": 3})
        assert not result.is_error


async def test_a_credential_reaches_the_server_with_the_call_and_stands_in_no_document(world: World) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        if request.headers.get("authorization") == "Bearer hunter2":
            answer_modern(request, reply, [tool("look")], call=lambda _: {"content": [], "isError": False})
        else:
            reply.send(401)

    async with raw_server(handle) as vault, running(world), serving(world) as gateway:
        _secret(world, "token", "hunter2")
        auth = {"bearer": {"secretRef": {"name": "token", "key": "token"}}}
        world.create("vault", {"url": vault.url, "auth": auth})
        await world.until("Ready", lambda: world.is_("vault", "Ready", "True"))
        await until_async("its tool", shows(gateway, "vault__look"))
        async with Client(f"http://127.0.0.1:{gateway.port}/mcp") as client:
            result = await client.call_tool("vault__look", {})
        assert not result.is_error
        assert vault.seen[-1].method == "tools/call"
        assert all(b"hunter2" not in document for document in world.documents().values())


def _secret(world: World, name: str, value: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {"fairlead.dev/credential": "true"}},
        "data": {"token": base64.b64encode(value.encode()).decode()},
    }
    status, answer = world.request("POST", f"/api/v1/namespaces/{world.namespace}/secrets", body)
    assert status == 201, answer
