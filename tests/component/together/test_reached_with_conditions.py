"""Servers with special requirements, from their McpServer to a call through a gateway: a Host name, a private
certificate, a credential that is renewed while both processes run.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mcp import Client
from mcp.server.transport_security import TransportSecuritySettings

from certificates import Authority
from operatorworld import World, running
from rawserver import raw_server
from sdk_tools import make_server
from togetherworld import serving, shows
from toolservers import SDK_TOOLS, Guarded, sdk_server, serve_asgi
from waiting import until_async

MERGE = "application/merge-patch+json"
TOOLS = [f"good__{name}" for name in SDK_TOOLS]


async def _adds(port: int) -> bool:
    async with Client(f"http://127.0.0.1:{port}/mcp") as client:
        result = await client.call_tool("good__add", {"a": 2, "b": 3})
    return bool(result.structured_content == {"result": 5})


async def test_a_server_that_answers_to_one_name_is_called_by_it(world: World) -> None:
    async with (
        sdk_server(allowed_hosts=["tools.internal"]) as url,
        running(world, lease_seconds=30.0),
        serving(world) as gateway,
    ):
        world.create("good", {"url": url, "remote": {"hostHeader": "tools.internal"}})
        world.create("bad", {"url": url})
        await world.until("refused", lambda: world.is_("bad", "Ready", "False", "MisdirectedRequest"))
        assert "spec.remote.hostHeader" in world.condition("bad", "Ready")["message"]
        await until_async("listed", shows(gateway, *TOOLS))
        assert await _adds(gateway.port)


async def test_a_certificate_is_verified_against_the_bundle_of_the_spec_and_nothing_else(
    world: World, tmp_path: Path
) -> None:
    authority = Authority()
    stranger = Authority("a stranger")
    app = make_server().streamable_http_app(
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False)
    )
    async with (
        serve_asgi(app, tls=authority.server_context(tmp_path)) as port,
        running(world, lease_seconds=30.0),
        serving(world) as gateway,
    ):
        url = f"https://127.0.0.1:{port}/mcp"
        world.create("good", {"url": url, "remote": {"caBundle": authority.bundle}})
        world.create("strange", {"url": url, "remote": {"caBundle": stranger.bundle}})
        world.create("system", {"url": url})
        for name in ("strange", "system"):
            await world.until("refused", partial(world.is_, name, "Ready", "False", "TLSFailed"))
            assert "spec.remote.caBundle" in world.condition(name, "Ready")["message"]
        await until_async("listed", shows(gateway, *TOOLS))
        assert await _adds(gateway.port)
        world.patch_server("good", {"spec": {"remote": {"caBundle": stranger.bundle}}})
        await world.until("refused now", lambda: world.is_("good", "Ready", "False", "TLSFailed"))


async def test_a_credential_that_is_renewed_goes_with_the_next_calls_and_nothing_is_restarted(world: World) -> None:
    guard = Guarded("Bearer first")
    metadata = {"name": "key", "labels": {"fairlead.dev/credential": "true"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": "first"}}
    assert world.request("POST", world.path("secrets"), secret)[0] == 201
    async with raw_server(guard) as guarded, running(world, lease_seconds=30.0), serving(world) as gateway:
        world.create("good", {"url": guarded.url, "auth": {"bearer": {"secretRef": {"name": "key"}}}})
        await until_async("listed", shows(gateway, "good__add"))
        async with Client(f"http://127.0.0.1:{gateway.port}/mcp") as client:
            assert not (await client.call_tool("good__add", {})).is_error
            guard.credential = "Bearer second"
            patch = {"stringData": {"token": "second"}}
            assert world.request("PATCH", world.path("secrets", "key"), patch, content_type=MERGE)[0] == 200

            async def answers() -> bool:
                return not (await client.call_tool("good__add", {})).is_error

            await until_async("calls with the new credential", answers)
        await world.until("Ready still", lambda: world.is_("good", "Ready", "True"))
    assert (guard.called[0], guard.called[-1]) == ("Bearer first", "Bearer second")
