"""Two users call one server as themselves on a cluster, by token exchange at a provider outside of its pods.

Provider and server run on this machine; a Service of the namespace stands for each, so that both have a name there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from cluster_questions import ready, service_outside
from installation import Installation, Json, apply, node_address, own_address
from issuers import HERE
from jwtservers import SCOPE, python_server
from ports import free_port
from tokenproviders import CLIENT, SECRET, oidc_provider
from waiting import until, until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600, func_only=True)]


@contextmanager
def trust_issuer(installation: Installation, issuer: str) -> Iterator[str]:
    """URL of gateways that also accept an issuer's tokens. The previous settings are restored at the end."""
    first = "identity.issuers[0]"
    installation.upgrade(f"gateway.settings.publicUrl={HERE}", f"{first}.issuer={issuer}", f"{first}.allowHttp=true")
    try:
        yield installation.url
    finally:
        installation.upgrade()


def server(url: str, issuer: str) -> list[Json]:
    """Secret and McpServer."""
    client = {"issuer": issuer, "clientID": CLIENT, "secretRef": {"name": "client"}, "scopes": [SCOPE], "resource": url}
    own = {"auth": {"tokenExchange": client}, "discovery": {"auth": {"clientCredentials": client}}}
    metadata = {"name": "client", "labels": {"fairlead.dev/credential": "true"}}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": SECRET}},
        {
            "apiVersion": "fairlead.dev/v1alpha1",
            "kind": "McpServer",
            "metadata": {"name": "as-themselves"},
            "spec": {"url": url, "prefix": "desk", **own},
        },
    ]


async def call_whoami(url: str, token: str) -> Any:
    """Result of `whoami` for a caller with the token."""
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        if "desk__whoami" not in [tool.name for tool in (await client.list_tools()).tools]:
            return None
        return await client.call_tool("desk__whoami", {})


async def test_two_persons_call_one_server_as_themselves_and_a_third_is_told_what_to_do(
    installation: Installation, namespace: str, tmp_path: Path
) -> None:
    address = own_address(node_address())
    ports = free_port(), free_port()
    issuer = f"http://login.{namespace}.svc:{ports[0]}"
    url = f"http://desk.{namespace}.svc:{ports[1]}/mcp"
    services = (*service_outside("login", address, ports[0]), *service_outside("desk", address, ports[1]))
    apply(*services, namespace=namespace)
    grants = {person: [url] for person in ("alice", "bob")}
    async with (
        oidc_provider(
            tmp_path,
            gateway=HERE,
            resources=[url],
            grants=grants,
            scope=SCOPE,
            address=address,
            port=ports[0],
            issuer=issuer,
        ) as provider,
        python_server(issuer, provider.jwks_url, address=address, port=ports[1], url=url),
    ):
        with trust_issuer(installation, issuer) as gateway:
            apply(*server(url, issuer), namespace=namespace)
            await asyncio.to_thread(until, "Ready", lambda: ready(namespace, "as-themselves") == "True", seconds=120)
            tokens = {person: await provider.sign_in(person) for person in ("alice", "bob", "carol")}
            await until_async("the tools", lambda: call_whoami(gateway, tokens["alice"]))
            results = {person: await call_whoami(gateway, token) for person, token in tokens.items()}
    assert [results[person].content[0].text for person in ("alice", "bob")] == ["alice", "bob"]
    assert results["carol"].is_error
    assert "consent" in results["carol"].content[0].text
