"""`fairlead up` with another gateway as the server of an mcp.json, which users call with assertions (ID-JAG)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from exchangeworld import identity_of
from fargateway import BOUGHT, REFUSED, SECRET_THERE, TOOL, FarGateway, far_gateway
from issuers import HERE
from tokenproviders import CLIENT, SECRET
from upprocess import Up, fairlead_up
from waiting import until_async

ENTRY: dict[str, Any] = {
    "profile": "IdJag",
    "clientID": CLIENT,
    "secret": "${CLIENT_SECRET}",
    "resourceClient": {"clientID": CLIENT, "secret": "${SECRET_THERE}"},
}


async def token_of_staff(far: FarGateway) -> str:
    """A token for the far gateway itself, with which `fairlead up` lists its tools."""
    provider, near = far.provider, far.provider.gateway
    resource = {"scope": "", "lifetime": 600}
    await provider.mark(gateway=far.url, resources={far.url: resource, near: resource})
    provider.gateway = far.url
    token = await provider.sign_in("carol")
    provider.gateway = near
    await provider.mark(gateway=near)
    return token


async def call(up: Up, token: str) -> str:
    """Call a tool. Returns the text of its result."""
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(up.url, http_client=http)) as client,
    ):

        async def is_listed() -> bool:
            return [tool.name for tool in (await client.list_tools()).tools] == [f"far__{TOOL}"]

        await until_async("the tool", is_listed)
        result: Any = await client.call_tool(f"far__{TOOL}", {"item": "tea"})
    return str(result.content[0].text)


async def test_people_call_the_server_of_an_mcp_json_with_secrets_of_two_clients(tmp_path: Path) -> None:
    async with far_gateway(tmp_path, HERE) as far, far.running(assertions=["corp"]):
        issuer = far.provider.issuer
        client = {**ENTRY, "issuer": issuer, "resourceClient": {**ENTRY["resourceClient"], "issuer": far.url}}
        own = {"auth": {"tokenExchange": client}, "discovery": {"auth": {"bearer": {"secret": "${LISTING_TOKEN}"}}}}
        entry = {"url": f"{far.url}/mcp", "fairlead": own}
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"far": entry}}))
        (tmp_path / "near.yaml").write_text(json.dumps(identity_of(issuer)))
        env = {
            "FAIRLEAD_IDENTITY": str(tmp_path / "near.yaml"),
            "FAIRLEAD_PUBLIC_URL": HERE,
            "CLIENT_SECRET": SECRET,
            "SECRET_THERE": SECRET_THERE,
            "LISTING_TOKEN": await token_of_staff(far),
        }
        async with fairlead_up("mcp.json", cwd=tmp_path, env=env) as up:
            await up.ready("default/far")
            assert await call(up, await far.provider.sign_in("alice")) == BOUGHT
            assert await call(up, await far.provider.sign_in("bob")) == REFUSED
