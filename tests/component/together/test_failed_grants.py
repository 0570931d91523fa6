"""Grants that fail only at the gateway: the server lists without a token, so only calls show the failure."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from commands import wide_fairlead
from exchangeworld import settings_of
from fairlead_app.gateway import Gateway
from gatewayworld import Answer, ask, calling
from oauthworld import of
from operatorworld import QUICK, Json, World, running
from ports import free_port
from restworld import get
from togetherworld import serving
from tokenendpoint import CLIENT, SECRET, TokenEndpoint, token_endpoint
from toolservers import modern_server, tool
from waiting import until_async

PULL_TOKEN = "pull-token-of-this-test"
TOOL = "desk__whoami"
pytestmark = pytest.mark.timeout(120)


@dataclass
class Desk:
    """The server `desk`, for which a gateway exchanges callers' tokens, and its state."""

    world: World
    provider: TokenEndpoint
    gateway: Gateway

    async def call(self, person: str) -> Answer:
        return await ask(self.gateway, of(self.provider, person, calling(TOOL, {})))

    async def code(self, person: str) -> str:
        """Error code of a call; empty if the call reached the server."""
        result = (await self.call(person)).message["result"]
        return str(result["_meta"]["fairlead.dev/error"]["code"]) if result.get("isError") else ""

    def is_authorized(self, status: str, cause: str = "") -> bool:
        return self.world.is_("desk", "Authorized", status, cause)

    def events(self) -> str:
        _, listing = self.world.request("GET", f"/apis/events.k8s.io/v1/namespaces/{self.world.namespace}/events")
        return "".join(item["note"] for item in listing["items"])

    async def state(self) -> str:
        """State and cause of the server at the gateway."""
        bearer = f"Bearer {self.provider.subject_token('alice')}"
        server = (await get(self.gateway, "/v1/servers/desk", authorization=bearer)).message
        return f"{server['state']} {server.get('cause', '')}".strip()


@contextlib.asynccontextmanager
async def serving_desk(world: World, folder: Path, *, secret: str = SECRET) -> AsyncIterator[Desk]:
    """`secret`: the client's secret in the McpServer."""
    port = free_port()
    async with (
        token_endpoint() as provider,
        modern_server([tool("whoami")]) as server,
        serving(
            world,
            metrics_port=port,
            pull_token=PULL_TOKEN,
            token_exchange_allowed=(provider.token_url,),
            **settings_of(folder, {"issuers": [{"issuer": provider.url, "algorithms": ["ES256"]}]}),
        ) as gateway,
        running(world, QUICK.replace(gateways=f"http://127.0.0.1:{port}", pull_token=PULL_TOKEN)),
    ):
        metadata: Json = {"name": "client", "labels": {"fairlead.dev/credential": "true"}}
        body = {"metadata": metadata, "stringData": {"token": secret}}
        assert world.request("POST", world.path("secrets"), body)[0] == 201
        exchange: Json = {"tokenURL": provider.token_url, "clientID": CLIENT, "secretRef": {"name": "client"}}
        # a server that is not Ready because tokens are missing is not down: its tools stay
        removes = {"discovery": {"onDisconnect": "Remove"}}
        world.create("desk", {"url": server.url, "auth": {"tokenExchange": exchange}, **removes})
        await world.until("Ready", partial(world.is_, "desk", "Ready", "True"))
        desk = Desk(world, provider, gateway)
        await until_async("the tool", partial(_lists, desk))
        yield desk


async def _lists(desk: Desk) -> bool:
    return "error" not in (await desk.call("alice")).message


async def test_a_wrong_secret_that_only_calls_find_is_a_condition_and_heals_with_the_first_token(
    world: World, tmp_path: Path
) -> None:
    async with serving_desk(world, tmp_path, secret="wr0ng-secret") as desk:
        assert await desk.code("alice") == "CREDENTIAL_UNAVAILABLE"
        await world.until("the condition", lambda: desk.is_authorized("False", "CallsNotGranted"))
        condition = world.condition("desk", "Authorized")
        assert condition["reason"] == "Unauthorized"
        assert "invalid_client" in condition["message"]
        assert "spec.auth" in condition["message"]
        assert "alice" not in condition["message"]
        assert "wr0ng-secret" not in condition["message"]
        assert world.is_("desk", "Verified", "True")
        await world.until("not Ready", lambda: world.is_("desk", "Ready", "False", "CallsNotGranted"))
        await world.until("an event", lambda: "CallsNotGranted" in desk.events())
        await until_async("the gateway's view", lambda: _is(desk, "failed CallsNotGranted"))
        token = desk.provider.subject_token("alice")
        url = f"http://127.0.0.1:{desk.gateway.port}/mcp"
        _, out, _ = await wide_fairlead("servers", "--url", url, "--token", token)
        assert "CallsNotGranted" in out

        desk.provider.clients[CLIENT].secret = "wr0ng-secret"  # corrected at the issuer, which notifies nobody
        await until_async("a call that works", lambda: _works(desk, "bob"))
        await world.until("healed", lambda: desk.is_authorized("True"))
        await world.until("Ready", lambda: world.is_("desk", "Ready", "True"))
        await until_async("the gateway's view", lambda: _is(desk, "ready"))


async def test_a_corrected_secret_ends_the_condition_before_anybody_calls(world: World, tmp_path: Path) -> None:
    async with serving_desk(world, tmp_path, secret="wr0ng-secret") as desk:
        assert await desk.code("alice") == "CREDENTIAL_UNAVAILABLE"
        await world.until("the condition", lambda: desk.is_authorized("False", "CallsNotGranted"))
        merge = "application/merge-patch+json"
        path = world.path("secrets", "client")
        assert world.request("PATCH", path, {"stringData": {"token": SECRET}}, content_type=merge)[0] == 200
        await world.until("healed", lambda: desk.is_authorized("True"))


async def test_people_without_a_grant_do_not_make_a_condition(world: World, tmp_path: Path) -> None:
    async with serving_desk(world, tmp_path) as desk:
        desk.provider.strangers.add("carol")
        assert await desk.code("carol") == "CREDENTIAL_UNAVAILABLE"
        assert await desk.code("alice") == ""
        assert desk.gateway.outbox.report("").failed_grants == ()
        assert desk.is_authorized("True")
        assert world.is_("desk", "Ready", "True")


async def test_a_server_without_grants_has_no_such_condition(world: World) -> None:
    async with modern_server([tool("add")]) as server, running(world):
        world.create("demo", {"url": server.url})
        await world.until("Ready", partial(world.is_, "demo", "Ready", "True"))
        assert world.condition("demo", "Authorized") == {}


async def _works(desk: Desk, person: str) -> bool:
    return await desk.code(person) == ""


async def _is(desk: Desk, state: str) -> Any:
    return await desk.state() == state
