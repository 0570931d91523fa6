"""Servers in a cluster that require each user to sign in: their lists, and their conditions until a user has signed
in."""

from __future__ import annotations

import base64
import time
from typing import Any

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, Credential
from fairlead_api.documents.oauth import USER_CONSENT, OAuthSettings
from fairlead_api.reports import GrantedListing
from fairlead_mcp.server_listing import RawListing
from fairlead_operator.app import Operator
from operatorworld import Json, World, running
from rawserver import raw_server
from token_protected_server import TokenProtectedServer
from tokenendpoint import TokenEndpoint, token_endpoint
from toolservers import modern_server, tool

FIRST = {"auth": {"firstGrant": True}, "interval": "10s"}


def catalog_of(world: World) -> Catalog:
    catalog = world.catalog("demo")
    assert catalog is not None
    return catalog


def tools_of(world: World) -> list[str]:
    catalog = world.catalog("demo")
    return [] if catalog is None else [tool.name for tool in catalog.tools]


def hand_over(operator: Operator, world: World, *tools: Json) -> None:
    """Report a list that a gateway has read with a user's token."""
    catalog = catalog_of(world)
    listing = RawListing("2026-07-28", tools=tuple(Raw(msgspec.json.encode(each)) for each in tools))
    url = getattr(catalog.endpoint, "url", "")
    raw = Raw(msgspec.json.encode(listing))
    granted = GrantedListing(world.namespace, "demo", catalog.uid, url, time.time(), raw)
    assert operator.controller is not None
    operator.controller.reconciler.take_listings([granted])


def client(provider: TokenEndpoint) -> Json:
    return {"issuer": provider.url, "clientID": "fairlead", "secretRef": {"name": "client"}, "scopes": ["read"]}


async def test_a_server_has_one_tool_until_somebody_has_signed_in_and_keeps_the_lists_over_a_restart(
    world: World,
) -> None:
    metadata = {"name": "client", "labels": {"fairlead.dev/credential": "true"}}
    world.request("POST", world.path("secrets"), {"metadata": metadata, "stringData": {"token": "s3cret"}})
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server:
        spec: dict[str, Any] = {"url": server.url, "auth": {"userConsent": client(provider)}, "discovery": FIRST}
        async with running(world) as operator:
            world.create("demo", spec)
            await world.until("refused", lambda: world.is_("demo", "Ready", "False", "SignInRequired"))
            assert world.condition("demo", "Verified")["reason"] == "SignInRequired"
            await world.until("the tool", lambda: tools_of(world) == ["sign_in"])
            catalog = catalog_of(world)
            assert catalog.sign_in
            assert catalog.oauth == OAuthSettings(
                grant=USER_CONSENT,
                client_id="fairlead",
                issuer=provider.url,
                scopes=("read",),
                first_grant=True,
                listing_interval_s=10.0,
            )
            assert world.server("demo")["status"]["tools"] == 0
            _, listed = world.request("GET", f"/api/v1/namespaces/{world.release}/secrets")
            values = [value for item in listed["items"] for value in (item.get("data") or {}).values()]
            stored = [msgspec.json.decode(base64.b64decode(value), type=Credential) for value in values]
            assert stored == [Credential(client_secret="s3cret")]

            hand_over(operator, world, tool("add"))
            await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
            assert (tools_of(world), catalog_of(world).sign_in) == (["add"], False)
        async with running(world):
            world.patch_server("demo", {"spec": {"prefix": "sums"}})
            await world.until("the prefix", lambda: catalog_of(world).prefix == "sums")
            assert tools_of(world) == ["add"]
        assert provider.requests == []


async def test_a_server_that_lists_to_everybody_needs_no_sign_in_for_its_lists(world: World) -> None:
    async with modern_server([tool("add")]) as server, running(world):
        world.create("demo", {"url": server.url, "auth": {"userConsent": {}}})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        oauth = catalog_of(world).oauth

    assert tools_of(world) == ["add"]
    assert oauth == OAuthSettings(grant=USER_CONSENT, client_authentication="none")


async def test_a_server_is_listed_with_the_first_grant_only_where_the_spec_says_so(world: World) -> None:
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server, running(world):
        world.create("demo", {"url": server.url, "auth": {"userConsent": {}}})
        await world.until("refused", lambda: world.is_("demo", "Ready", "False", "ListsNeedCredential"))
        assert "firstGrant: true" in world.condition("demo", "Verified")["message"]
        assert world.catalog("demo") is None

        world.patch_server("demo", {"spec": {"discovery": {"auth": {"firstGrant": True}}}})
        await world.until("asked", lambda: world.is_("demo", "Ready", "False", "SignInRequired"))
