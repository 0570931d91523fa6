"""Two gateway processes that share sign-ins in Redis: one ends a sign-in of the other."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from authorizationworld import AuthorizationWorld, identity_file
from balancer import Balancer, balancer
from commands import fairlead
from gatewayprocess import Process, started
from gatewayworld import catalog, publish
from oidcprovider import CLIENT, BareBrowser, OidcProvider, providing
from redisserver import redis_server
from waiting import eventually, until_async

KEY = base64.b64encode(bytes(32)).decode()


class Replicas(NamedTuple):
    """Replicas of one gateway. Requests go to one of them at a time."""

    world: AuthorizationWorld
    provider: OidcProvider
    front: Balancer
    stack: contextlib.AsyncExitStack
    settings: dict[str, str]

    async def another(self) -> Process:
        """Start a replica, to which all further requests go."""
        process = await self.stack.enter_async_context(started(**self.settings))
        process.port = int((await process.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp"))[1])
        self.front.ports = [process.port]
        return process

    async def command(self, *words: str) -> str:
        """Output of a `fairlead` command that alice runs."""
        token = self.provider.token(sub="alice", aud=self.world.base)
        credential = ("--header", f"Authorization: Bearer {token}", "--url", f"{self.world.base}/mcp")
        code, out, errors = await fairlead(*words, *credential)
        assert code == 0, errors
        return out


@contextlib.asynccontextmanager
async def replicas(folder: Path) -> AsyncIterator[Replicas]:
    publish(folder / "documents", catalog("shop", "http://127.0.0.1:9/mcp", ["buy"]))
    async with contextlib.AsyncExitStack() as stack:
        front = await stack.enter_async_context(balancer())
        provider = await stack.enter_async_context(providing())
        redis = await stack.enter_async_context(redis_server(folder))
        provider.metadata["revocation_endpoint"] = f"{provider.url}/revoke"
        base = f"http://127.0.0.1:{front.port}"
        (folder / "secret").write_text(provider.secret)
        client = {"issuer": "corp", "clientId": CLIENT, "clientSecretFile": str(folder / "secret")}
        settings = {
            "FAIRLEAD_DOCUMENTS": str(folder / "documents"),
            "FAIRLEAD_IDENTITY": str(identity_file(folder, [{"issuer": provider.url, "name": "corp"}], [client])),
            "FAIRLEAD_PUBLIC_URL": base,
            "FAIRLEAD_SESSION_KEY": KEY,
            "FAIRLEAD_GRANTS": "redis",
            "FAIRLEAD_GRANT_KEYS": f"one:{KEY}",
            "FAIRLEAD_REDIS": redis.url,
        }
        world = AuthorizationWorld(base, cast("Any", None), provider, BareBrowser(base))
        yield Replicas(world, provider, front, stack, settings)


async def test_a_replica_lists_and_ends_what_another_has_signed_in(tmp_path: Path) -> None:
    async with replicas(tmp_path) as gateway:
        world, first = gateway.world, await gateway.another()
        tokens = await world.sign_in()
        assert await world.call(tokens["access_token"]) == 200
        second = await gateway.another()
        (sign_in,) = json.loads(await gateway.command("sign-ins", "--json"))
        assert sign_in["client"] == "desk"
        assert "signed out" in await gateway.command("sign-out", "Desk")
        assert await world.call(tokens["access_token"]) == 401
        assert (await world.refresh(tokens))[1]["error"] == "invalid_grant"
        gateway.front.ports = [first.port]

        async def is_refused() -> bool:
            return await world.call(tokens["access_token"]) == 401

        assert await until_async("the end at the replica that signed in", is_refused)
        assert json.loads(await gateway.command("sign-ins", "--json")) == []
        await eventually(lambda: gateway.provider.revoked)
        assert gateway.provider.refreshes == {}
        for process in (first, second):
            process.process.kill()
            await process.process.wait()
        await gateway.another()
        assert await world.call(tokens["access_token"]) == 401, "a replica that has just started knows of the end"
        assert await world.call((await world.sign_in())["access_token"]) == 200


async def test_a_provider_that_refuses_a_revocation_holds_no_sign_out_up(tmp_path: Path) -> None:
    async with replicas(tmp_path) as gateway:
        gateway.provider.revocation_status = 503
        process = await gateway.another()
        await gateway.world.sign_in()
        assert "signed out" in await gateway.command("sign-out", "Desk")
        await process.line(f"was not revoked at {gateway.provider.url}")
