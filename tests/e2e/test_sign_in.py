"""Users sign in at a server on a cluster and call it as themselves, from clients of each kind, at every replica.

The gateway accepts tokens of one provider, and the server those of another, at which users consent. Both providers
and the server run on this machine; a Service of the namespace stands for each. Grants are in the chart's 16 Secrets.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from cluster_questions import condition, ready, service_outside
from consentproviders import ConsentProvider, consent_provider
from consentservers import FormBrowser
from consentworld import title_of
from eraclients import call_with_forms_alone, call_with_pages, call_without_pages
from fairlead_mcp.addresses import authority
from installation import (
    GATEWAY,
    MCP_PORT,
    NAMESPACE,
    RELEASE,
    Installation,
    Json,
    apply,
    kubectl,
    node_address,
    own_address,
    ready_pods,
)
from jwtservers import SCOPE, python_server
from ports import free_port
from tokenproviders import oidc_provider
from waiting import until, until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600, func_only=True)]

KEYS = "e2e-grant-keys"
WHOAMI = "counter__whoami"  # unique, because the prefix stays reserved for a day
ENDED_SECONDS = 1.0
"""Maximum seconds until every replica refuses calls with an ended account."""


@contextmanager
def keeping_grants(installation: Installation, issuer: str) -> Iterator[str]:
    """URL of two gateways that accept an issuer's tokens and store grants in Secrets. The previous settings are
    restored at the end."""
    url = installation.url
    sealing = f"first:{base64.b64encode(os.urandom(32)).decode()}"
    apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": KEYS}, "stringData": {"keys": sealing}},
        namespace=NAMESPACE,
    )
    first = "identity.issuers[0]"
    installation.upgrade(
        f"gateway.settings.publicUrl={url}",
        f"{first}.issuer={issuer}",
        f"{first}.allowHttp=true",
        "grants.store=Secrets",
        f"grants.keysSecret={KEYS}",
        "gateway.replicas=2",
    )
    try:
        yield url
    finally:
        installation.upgrade()
        kubectl("delete", "secret", "-n", NAMESPACE, KEYS)
        kubectl("delete", "secret", "-n", NAMESPACE, *(f"{RELEASE}-grants-{n}" for n in range(16)))


def server(url: str) -> Json:
    """An McpServer at which each user signs in, and whose tools are listed with the first user's grant."""
    spec: Json = {
        "url": url,
        "prefix": "counter",
        "auth": {"userConsent": {}},
        "discovery": {"auth": {"firstGrant": True}},
    }
    return {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "counter"}, "spec": spec}


def gateways() -> dict[str, str]:
    """URL of each replica that is ready, by its pod."""
    return {
        pod["metadata"]["name"]: f"http://{authority(pod['status']['podIP'], MCP_PORT)}" for pod in ready_pods(GATEWAY)
    }


def two_gateways() -> dict[str, str]:
    """Both replicas; empty until both are ready."""
    replicas = gateways()
    return replicas if len(replicas) == 2 else {}


def wants_sign_in(namespace: str) -> bool:
    """Whether the server's status says that no user has signed in yet."""
    return condition(namespace, "counter", "Verified").get("reason") == "SignInRequired"


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent), block
    return block.text


def link_in(result: types.CallToolResult) -> str:
    """The sign-in link in the text of a call's result."""
    assert result.is_error, result
    link = re.search(r"http://\S+/sign-in/\S+", text_of(result))
    assert link is not None, text_of(result)
    return link[0].rstrip(".,")


@dataclass
class Person:
    """A user with a browser, who counts the pages that clients open."""

    name: str
    token: str
    consents: ConsentProvider
    browser: FormBrowser
    opened: int = 0

    async def sign_in(self, link: str) -> None:
        """Sign the browser in to the console, consent at the provider, and return."""
        self.opened += 1
        page = await self.browser.get(link)
        if urlsplit(page.url).path == "/console/sign-in":
            base = link.partition("/sign-in/")[0]
            await self.browser.post(f"{base}/console/sign-in", {"key": self.token}, origin=base)
            page = await self.browser.get(link)
        begun = await self.browser.press(page, follow=False)
        assert begun.onward, begun.text
        answer = await self.consents.browse(begun.onward, self.name)
        back = f"{link.partition('/sign-in/')[0]}/sign-in/callback/{urlsplit(link).path.removeprefix('/sign-in/')}"
        page = await self.browser.get(f"{back}?{urlencode(answer)}")
        assert title_of(page.text).startswith("Signed in at "), page.text

    async def calls(self, url: str) -> list[str]:
        """Texts of calls by each kind of client at a gateway."""
        return [
            text_of(await call_with_pages(url, self.token, WHOAMI, self.sign_in)),
            text_of(await call_without_pages(url, self.token, WHOAMI)),
            text_of(await call_with_forms_alone(url, self.token, WHOAMI)),
        ]


async def is_listed(url: str, token: str, tool: str) -> bool:
    """Whether a caller's list has a tool."""
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        return tool in [each.name for each in (await client.list_tools()).tools]


async def log_out(url: str, namespace: str, token: str) -> None:
    """End the caller's account."""
    async with (
        aiohttp.ClientSession(headers={"authorization": f"Bearer {token}"}) as http,
        http.delete(f"{url}/v1/accounts/{namespace}/counter") as answer,
    ):
        assert answer.status == 200, await answer.text()


async def is_refused(url: str, token: str) -> bool:
    """Whether a call at one replica asks the caller to sign in."""
    result = await call_without_pages(url, token, WHOAMI)
    return bool(result.is_error) and bool(link_in(result))


@asynccontextmanager
async def counter(
    installation: Installation, namespace: str, folder: Path
) -> AsyncIterator[tuple[str, tuple[Person, ...]]]:
    """URL of the gateways with a server `counter` at which no user has signed in yet, and the users alice, bob and
    carol."""
    address = own_address(node_address())
    ports = {name: free_port() for name in ("login", "consents", "counter")}
    names = {name: f"http://{name}.{namespace}.svc:{port}" for name, port in ports.items()}
    url = f"{names['counter']}/mcp"
    apply(*(each for name, port in ports.items() for each in service_outside(name, address, port)), namespace=namespace)
    who: dict[str, Any] = {"resources": [], "grants": {}, "gateway": installation.url}
    async with (
        oidc_provider(folder, address=address, port=ports["login"], issuer=names["login"], **who) as login,
        consent_provider(
            folder, {url: SCOPE}, address=address, port=ports["consents"], issuer=names["consents"]
        ) as consents,
        python_server(names["consents"], consents.jwks_url, address=address, port=ports["counter"], url=url),
    ):
        with keeping_grants(installation, names["login"]) as gateway:
            apply(server(url), namespace=namespace)
            await asyncio.to_thread(until, "nobody has signed in", lambda: wants_sign_in(namespace), seconds=120)
            async with AsyncExitStack() as stack:
                people = [
                    Person(name, await login.sign_in(name), consents, await stack.enter_async_context(FormBrowser()))
                    for name in ("alice", "bob", "carol")
                ]
                yield gateway, tuple(people)


async def test_persons_act_as_themselves_at_every_replica_until_they_end_it(
    installation: Installation, namespace: str, tmp_path: Path
) -> None:
    async with counter(installation, namespace, tmp_path) as (gateway, (alice, bob, carol)):
        # the first user is asked during her call, and the server is then listed with her grant
        await until_async("the tool that asks", lambda: is_listed(gateway, alice.token, "counter__sign_in"))
        result = await call_with_pages(gateway, alice.token, "counter__sign_in", alice.sign_in)
        assert not result.is_error, result
        await asyncio.to_thread(until, "Ready", lambda: ready(namespace, "counter") == "True", seconds=120)
        await until_async("the tools", lambda: is_listed(gateway, alice.token, WHOAMI))
        # another user signs in by the link in the text
        await bob.sign_in(link_in(await call_without_pages(gateway, bob.token, WHOAMI)))
        replicas = await asyncio.to_thread(until, "both replicas", two_gateways)
        for url in replicas.values():
            assert await alice.calls(url) == ["alice"] * 3
            assert await bob.calls(url) == ["bob"] * 3
            assert link_in(await call_with_forms_alone(url, carol.token, WHOAMI))

        kubectl("delete", "pod", "-n", NAMESPACE, next(iter(replicas)))
        replicas = await asyncio.to_thread(until, "another replica", two_gateways, seconds=120)
        for url in replicas.values():
            assert await alice.calls(url) == ["alice"] * 3
            assert await bob.calls(url) == ["bob"] * 3

        await log_out(next(iter(replicas.values())), namespace, bob.token)
        await asyncio.gather(
            *(
                until_async("refused", partial(is_refused, url, bob.token), seconds=ENDED_SECONDS)
                for url in replicas.values()
            )
        )
        for url in replicas.values():
            assert await alice.calls(url) == ["alice"] * 3
        assert (alice.opened, bob.opened, carol.opened) == (1, 1, 0)
