"""Servers with access tokens: the tokens and documents of the operator, failures, and that no secret is revealed."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

from fairlead_api.documents.catalog import Catalog, Credential
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, TOKEN_EXCHANGE
from operatorworld import GROUP, Json, World, running
from rawserver import Reply, Request, raw_server
from serverprocesses import sse_server
from token_protected_server import TokenProtectedServer
from tokenendpoint import CLIENT, SECRET, TokenEndpoint, token_endpoint
from toolservers import modern_server, tool

MERGE = "application/merge-patch+json"


def stored_credentials(world: World) -> list[Credential]:
    """Credentials that the gateway would find."""
    _, listing = world.request("GET", f"/api/v1/namespaces/{world.release}/secrets")
    values = [value for item in listing["items"] for value in (item.get("data") or {}).values()]
    return [msgspec.json.decode(base64.b64decode(value), type=Credential) for value in values]


def add_client(world: World, secret: str = SECRET, hosts: str | None = None, name: str = "client") -> None:
    metadata: Json = {"name": name, "labels": {"fairlead.dev/credential": "true"}}
    if hosts is not None:
        metadata["annotations"] = {"fairlead.dev/hosts": hosts}
    status, answer = world.request("POST", world.path("secrets"), {"metadata": metadata, "stringData": {"key": secret}})
    assert status == 201, answer


def change_client(world: World, **change: Any) -> None:
    status, answer = world.request("PATCH", world.path("secrets", "client"), change, content_type=MERGE)
    assert status == 200, answer


def client(provider: TokenEndpoint, **members: Any) -> Json:
    where = {} if "issuer" in members else {"tokenURL": provider.token_url}
    return {"clientID": CLIENT, "secretRef": {"name": "client", "key": "key"}, **where, **members}


def catalog_of(world: World, name: str = "demo") -> Catalog:
    catalog = world.catalog(name)
    assert catalog is not None
    return catalog


async def test_a_server_is_listed_with_a_token_of_fairlead_itself(world: World) -> None:
    add_client(world, hosts="127.0.0.1")
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server, running(world):
        world.create("demo", {"url": server.url, "auth": {"clientCredentials": client(provider, scopes=["read"])}})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))

        catalog = catalog_of(world)
        assert stored_credentials(world) == [Credential(client_secret=SECRET)]

    assert catalog.oauth is not None
    assert (catalog.oauth.grant, catalog.oauth.client_id, catalog.oauth.scopes) == (
        CLIENT_CREDENTIALS,
        CLIENT,
        ("read",),
    )
    assert catalog.oauth.token_hosts == "127.0.0.1"
    assert catalog.credential is not None
    assert [tool.name for tool in catalog.tools] == ["add"]
    assert set(provider.tokens_by_person) == {""}


async def test_the_endpoint_of_an_issuer_is_discovered(world: World) -> None:
    add_client(world)
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server, running(world):
        grant = client(provider, issuer=provider.url)
        world.create("demo", {"url": server.url, "auth": {"clientCredentials": grant}})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))

    assert provider.tokens_by_person[""] >= 1


async def test_a_wrong_secret_is_a_condition_and_an_event_and_heals_with_the_secret(world: World) -> None:
    add_client(world, secret="wr0ng-secret")
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server, running(world):
        world.create("demo", {"url": server.url, "auth": {"clientCredentials": client(provider)}})
        await world.until("failed", lambda: world.is_("demo", "Ready", "False", "GrantFailed"))
        condition = world.condition("demo", "Verified")
        assert condition["reason"] == "Unauthorized"
        assert condition["message"].startswith("GrantFailed: ")
        assert "Secret" in condition["message"]
        await world.until("an event", lambda: "GrantFailed" in events(world))

        change_client(world, stringData={"key": SECRET})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        assert stored_credentials(world) == [Credential(client_secret=SECRET)]
        assert "wr0ng-secret" not in all_texts(world)


async def test_a_changed_secret_changes_the_hash_of_the_catalog(world: World) -> None:
    add_client(world)
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server, running(world):
        world.create("demo", {"url": server.url, "auth": {"clientCredentials": client(provider)}})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        before = catalog_of(world).credential
        provider.clients[CLIENT].secret = "rotated"
        change_client(world, stringData={"key": "rotated"})

        await world.until("another hash", lambda: catalog_of(world).credential != before)
        await world.until("stored", lambda: stored_credentials(world) == [Credential(client_secret="rotated")])


async def test_an_issuer_that_is_away_is_named_and_asked_again(world: World) -> None:
    add_client(world)
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server, running(world):
        provider.away = True
        world.create("demo", {"url": server.url, "auth": {"clientCredentials": client(provider)}})
        await world.until("away", lambda: world.is_("demo", "Ready", "False", "IssuerUnreachable"))
        assert world.condition("demo", "Verified")["reason"] == "Unreachable"

        provider.away = False
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))


async def test_a_secret_goes_only_to_the_token_endpoints_that_it_names(world: World) -> None:
    add_client(world, hosts="login.example.com")
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server, running(world):
        world.create("explicit", {"url": server.url, "auth": {"clientCredentials": client(provider)}})
        discovered = client(provider, issuer=provider.url)
        world.create("discovered", {"url": server.url, "auth": {"clientCredentials": discovered}})
        await world.until("refused", lambda: world.is_("explicit", "Ready", "False", "HostNotAllowed"))
        message = world.condition("explicit", "ResolvedRefs")["message"]
        assert f"the token endpoint is at {provider.url}" in message
        await world.until("refused", lambda: world.is_("discovered", "Ready", "False", "GrantFailed"))

        assert provider.requests == []


async def test_a_server_that_lists_to_everybody_needs_no_credential_for_lists(world: World) -> None:
    add_client(world)
    async with token_endpoint() as provider, modern_server([tool("add")]) as server, running(world):
        exchange = client(provider, audience="tools", grantsPer="Agent")
        world.create("demo", {"url": server.url, "auth": {"tokenExchange": exchange}})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        catalog = catalog_of(world)
        assert stored_credentials(world) == [Credential(client_secret=SECRET)]

    assert catalog.oauth is not None
    assert (catalog.oauth.grant, catalog.oauth.audience, catalog.oauth.grants_per) == (TOKEN_EXCHANGE, "tools", "Agent")
    assert provider.requests == []


async def test_a_server_that_lists_to_nobody_says_what_lists_need_and_is_listed_with_it(world: World) -> None:
    add_client(world)
    add_client(world, secret="listing-client", name="lists")
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server, running(world):
        exchange = {"tokenExchange": client(provider)}
        world.create("demo", {"url": server.url, "auth": exchange})
        await world.until("refused", lambda: world.is_("demo", "Ready", "False", "ListsNeedCredential"))
        assert "spec.discovery.auth" in world.condition("demo", "Verified")["message"]
        assert provider.requests == []

        world.patch_server("demo", {"spec": {"discovery": {"auth": {"clientCredentials": client(provider)}}}})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        assert set(provider.tokens_by_person) == {""}
        catalog = catalog_of(world)
        assert catalog.oauth is not None
        assert catalog.oauth.grant == TOKEN_EXCHANGE

        lists = {"name": "lists", "key": "key"}
        world.patch_server("demo", {"spec": {"discovery": {"auth": {"clientCredentials": {"secretRef": lists}}}}})
        await world.until("its own secret", lambda: world.is_("demo", "Ready", "False", "GrantFailed"))
        assert stored_credentials(world) == [Credential(client_secret=SECRET)]


async def test_a_missing_secret_for_lists_is_a_reference_that_does_not_resolve(world: World) -> None:
    add_client(world)
    async with token_endpoint() as provider, modern_server([tool("add")]) as server, running(world):
        lists = {"bearer": {"secretRef": {"name": "lists"}}}
        spec = {"url": server.url, "auth": {"tokenExchange": client(provider)}, "discovery": {"auth": lists}}
        world.create("demo", spec)
        await world.until("not found", lambda: world.is_("demo", "ResolvedRefs", "False", "SecretNotFound"))


async def test_a_server_that_only_has_event_streams_says_why_it_gets_no_tokens(world: World) -> None:
    add_client(world)
    async with token_endpoint() as provider, sse_server() as url, running(world):
        world.create("demo", {"url": url, "auth": {"tokenExchange": client(provider)}})
        await world.until("refused", lambda: world.is_("demo", "Ready", "False", "UnsupportedVersion"))

        assert "use bearer or header in place of" in world.condition("demo", "Verified")["message"]
        assert world.catalog("demo") is None


def events(world: World) -> str:
    return json.dumps(world.request("GET", f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events")[1])


def all_texts(world: World) -> str:
    """All objects of the servers at the API server and all documents, without Secrets."""
    _, servers = world.request("GET", f"{GROUP}/namespaces/{world.namespace}/mcpservers")
    _, maps = world.request("GET", f"/api/v1/namespaces/{world.release}/configmaps")
    documents = b"".join(world.documents().values()).decode()
    return json.dumps(servers) + json.dumps(maps) + documents + events(world)


async def test_no_secret_and_no_token_is_in_a_document_an_event_a_condition_a_metric_or_a_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The servers quote the requests that they get. The run uses a wrong secret, a refused token and a valid one."""
    caplog.set_level(logging.DEBUG)
    planted = ("planted-good-secret", "planted-wrong-secret")
    add_client(world, secret=planted[0])
    add_client(world, secret=planted[1], name="wrong")
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server:
        provider.clients[CLIENT].secret = planted[0]
        refusing = TokenProtectedServer(provider, refuse_all=True)

        async def angry(request: Request, reply: Reply) -> None:
            reply.send(500, json.dumps(request.headers).encode())

        async with raw_server(refusing) as refuses, raw_server(angry) as fails, running(world) as operator:
            good = client(provider)
            wrong = {**good, "secretRef": {"name": "wrong", "key": "key"}}
            exchange = {"tokenExchange": good}
            lists = {"auth": {"clientCredentials": good}}
            world.create("good", {"url": server.url, "auth": {"clientCredentials": good}})
            world.create("wrong", {"url": server.url, "auth": {"clientCredentials": wrong}})
            world.create("refused", {"url": refuses.url, "auth": {"clientCredentials": good}})
            world.create("failing", {"url": fails.url, "auth": exchange, "discovery": lists})
            await world.until("good", lambda: world.is_("good", "Ready", "True"))
            await world.until("wrong", lambda: world.is_("wrong", "Ready", "False", "GrantFailed"))
            await world.until("refused", lambda: world.is_("refused", "Ready", "False", "GrantFailed"))
            await world.until("failing", lambda: world.is_("failing", "Ready", "False", "ServerError"))
            told = all_texts(world) + generate_latest(operator.telemetry.registry).decode()
            told += world.condition("failing", "Verified")["message"]
    logs = "\n".join(record.getMessage() + str(record.exc_text or "") for record in caplog.records)
    assert provider.grants
    secrets = (*planted, *(grant.token for grant in provider.grants))
    assert [secret for secret in secrets if secret in told or secret in logs] == []
