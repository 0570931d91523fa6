"""A large HTTP API in one `kubectl apply`: five of its operations as shaped tools, called with each user's own
token."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any, Final

from exchangeworld import complaint_of, identity_of, settings_of
from gatewayworld import Reachable, Wire, calling, modern
from githubapi import GitHubApi, github_document
from issuers import HERE
from jwtservers import SCOPE, JwksVerifier
from operatorworld import World, running
from ports import free_port
from rawserver import raw_server
from togetherworld import serving
from tokenproviders import CLIENT, SECRET, TokenProvider, oidc_provider
from waiting import until_async

MANIFEST: Final = """
apiVersion: fairlead.dev/v1alpha1
kind: McpServer
metadata: {name: github}
spec:
  openapi:
    url: API/openapi.json
    baseURL: API
    include: [issues/list-for-repo, issues/get, issues/create, issues/create-comment, search/issues-and-pull-requests]
  auth:
    tokenExchange: {issuer: ISSUER, clientID: CLIENT, secretRef: {name: client}, scopes: ["SCOPE"], resource: API}
"""
"""An McpServer of ten lines with five of 1,200 operations, called with each user's own token."""
REPOSITORY: Final = "owner: {value: acme}, repo: {value: shop}"
SHAPES: Final = f"""
  tools:
    - name: issues_list-for-repo
      as: list_issues
      arguments: {{{REPOSITORY}, state: {{default: open}}, milestone: {{hidden: true}}, per_page: {{as: count}}}}
      result: {{select: "result[].{{number: number, title: title}}"}}
    - name: issues_get
      as: read_issue
      arguments: {{{REPOSITORY}, issue_number: {{as: number}}}}
      result: {{select: "{{title: title, text: body, by: user.login}}"}}
    - name: issues_create
      as: open_issue
      arguments: {{{REPOSITORY}, labels: {{value: [from-an-agent]}}, assignee: {{hidden: true}}}}
      result: {{select: "{{number: number}}"}}
    - name: issues_create-comment
      as: comment
      arguments: {{{REPOSITORY}, issue_number: {{as: number}}, body: {{as: text}}}}
      result: {{select: "{{id: id}}"}}
    - name: search_issues-and-pull-requests
      as: search_issues
      arguments: {{q: {{as: words}}, sort: {{hidden: true}}, order: {{hidden: true}}}}
      result: {{select: "items[].{{number: number, title: title}}"}}
"""
TOOLS: Final = ["comment", "list_issues", "open_issue", "read_issue", "search_issues"]


def manifest(api: str, issuer: str) -> str:
    """The manifest with shapes, for an API that has its document at `api`."""
    words = {"API": api, "ISSUER": issuer, "CLIENT": CLIENT, "SCOPE": SCOPE}
    text = MANIFEST
    for word, value in words.items():
        text = text.replace(word, value)
    return text + SHAPES.lstrip("\n")


async def tools_of(gateway: Reachable, token: str) -> dict[str, Any]:
    """Definitions that a caller gets, by name without prefix."""
    async with await Wire.connect(gateway) as wire:
        answer = await wire.ask(modern("tools/list").with_headers(authorization=f"Bearer {token}"))
    return {tool["name"].removeprefix("github__"): tool for tool in answer.message["result"]["tools"]}


async def call_tool(gateway: Reachable, token: str, tool: str, **arguments: Any) -> Any:
    """Structured content of a successful call."""
    async with await Wire.connect(gateway) as wire:
        request = calling(f"github__{tool}", arguments).with_headers(authorization=f"Bearer {token}")
        result = (await wire.ask(request)).message["result"]
    assert not result.get("isError"), result
    return json.loads(result["content"][0]["text"])


async def test_tools_of_githubs_document_are_shaped_by_one_apply_and_called_with_each_persons_own_token(
    world: World, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    document = await asyncio.to_thread(github_document)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with (
        oidc_provider(
            tmp_path,
            gateway=HERE,
            resources=[url],
            grants={"alice": [url], "bob": [url]},
            scope=SCOPE,
            shared=shared_provider,
        ) as provider,
        raw_server((api := GitHubApi(document, JwksVerifier(provider.issuer, provider.jwks_url, url))).handle, port),
        running(world, lease_seconds=30.0),
        serving(world, **settings_of(tmp_path, identity_of(provider.issuer))) as gateway,
    ):
        secret = {
            "metadata": {"name": "client", "labels": {"fairlead.dev/credential": "true"}},
            "stringData": {"token": SECRET},
        }
        assert world.request("POST", world.path("secrets"), secret)[0] == 201
        apply = partial(world.plane.kubectl, "-n", world.namespace, "apply", "-f", "-")
        await asyncio.to_thread(apply, stdin=manifest(url, provider.issuer))
        await world.until("Ready", partial(world.is_, "github", "Ready", "True"))
        alice, bob, carol = [await provider.sign_in(person) for person in ("alice", "bob", "carol")]

        async def are_listed() -> bool:
            return sorted(await tools_of(gateway, alice)) == TOOLS

        await until_async("the tools", are_listed)
        tools = await tools_of(gateway, alice)
        opened = await call_tool(gateway, alice, "open_issue", title="The door squeaks")
        await call_tool(gateway, bob, "open_issue", title="A second one")
        read = await call_tool(gateway, bob, "read_issue", number=1)
        await call_tool(gateway, bob, "comment", number=1, text="Oil it")
        listed = await call_tool(gateway, alice, "list_issues", count=10)
        matching = await call_tool(gateway, bob, "search_issues", words="door repo:acme/shop")
        async with await Wire.connect(gateway) as wire:
            request = calling("github__list_issues", {}).with_headers(authorization=f"Bearer {carol}")
            code, _ = complaint_of(await wire.ask(request))
    assert list(tools["read_issue"]["inputSchema"]["properties"]) == ["number"]
    assert tools["comment"]["inputSchema"]["required"] == ["number", "text"]
    assert opened == {"number": 1}
    assert read == {"title": "The door squeaks", "text": None, "by": "alice"}
    assert api.issues[0]["labels"] == ["from-an-agent"]
    assert api.comments == [("bob", 1, "Oil it")]
    assert listed == [{"number": 1, "title": "The door squeaks"}, {"number": 2, "title": "A second one"}]
    assert matching == [{"number": 1, "title": "The door squeaks"}]
    assert [(verb, path, person) for verb, path, person in api.seen if verb == "GET"] == [
        ("GET", "/repos/acme/shop/issues/1", "bob"),
        ("GET", "/repos/acme/shop/issues?state=open&per_page=10", "alice"),
        ("GET", "/search/issues?q=door%20repo%3Aacme%2Fshop", "bob"),
    ]
    assert code == "CREDENTIAL_UNAVAILABLE"
