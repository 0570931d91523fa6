"""Servers with forbidden addresses in `url`: neither the real operator nor the real gateway connects."""

from __future__ import annotations

import asyncio
from functools import partial

from gatewayworld import ask, calling
from operatorworld import QUICK, World, running
from rawserver import Reply, Request, raw_server
from togetherworld import serving, shows
from toolservers import answer_modern, modern_server, tool
from waiting import until_async

CONFINED = QUICK.replace(confined="always", denied_networks="10.96.0.0/12")


async def test_an_operator_in_a_pod_does_not_connect_to_its_own_machine_and_says_what_to_do(world: World) -> None:
    """Without `Egress.guarded` in `discovery.connect`, the servers would become Ready."""
    connections = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    listener = await asyncio.start_server(count, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    world.hosts.ports |= {"rebind.example.com.": port, "admin.other.svc": port, f"mine.{world.namespace}.svc": port}
    urls = {
        "literal": f"http://127.0.0.1:{port}/mcp",
        "name": "http://rebind.example.com/mcp",
        "service": "http://admin.other.svc/mcp",
        "own": f"http://mine.{world.namespace}.svc/mcp",
    }
    async with listener, running(world, CONFINED):
        for name, url in urls.items():
            world.create(name, {"url": url})
        for name in urls:
            await world.until(name, partial(world.is_, name, "Ready", "False", "AddressNotAllowed"))
        told = world.condition("literal", "Verified")["message"]
        assert told.count("servers.allowedUrls") == 1, "what to do is told once"
        assert "FAIRLEAD_" not in told
        assert "a Service of namespace other" in world.condition("service", "Verified")["message"]
    assert connections == 0


async def test_servers_in_allowed_networks_are_reached(world: World) -> None:
    async with modern_server([tool("add")]) as server, running(world, CONFINED, allowed_urls="127.0.0.0/8"):
        world.create("demo", {"url": server.url})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))


async def test_a_gateway_looks_for_itself_when_it_connects(world: World) -> None:
    """DNS rebinding: the name resolves to a harmless address for the operator, and to another address for the gateway.
    Without the guard in the gateway's registry, the call would succeed.
    """
    async with modern_server([tool("add")]) as server, running(world), serving(world, confined="always") as gateway:
        world.create("demo", {"url": server.url})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        await until_async("the tool", shows(gateway, "demo__add"))
        seen = len(server.seen)
        answer = await ask(gateway, calling("demo__add", {}))
        assert answer.message["result"]["_meta"]["fairlead.dev/error"]["code"] == "CONNECTION_LOST"
        assert not [request for request in server.seen[seen:] if request.method == "tools/call"]


async def test_a_redirect_is_not_followed_and_no_credential_goes_there(world: World) -> None:
    async def elsewhere(request: Request, reply: Reply) -> None:
        answer_modern(request, reply, [tool("add")])

    async with raw_server(elsewhere) as target:

        async def redirect(request: Request, reply: Reply) -> None:
            reply.send(307, location=f"{target.url}/")  # differs from a permitted URL only in the port

        secret = {
            "metadata": {"name": "key", "labels": {"fairlead.dev/credential": "true"}},
            "stringData": {"token": "not for others"},
        }
        world.request("POST", world.path("secrets"), secret)
        async with raw_server(redirect) as server, running(world):
            auth = {"bearer": {"secretRef": {"name": "key", "key": "token"}}}
            world.create("demo", {"url": server.url, "auth": auth})
            await world.until("refused", lambda: world.is_("demo", "Ready", "False", "Redirected"))
            assert server.seen
        assert target.seen == []
