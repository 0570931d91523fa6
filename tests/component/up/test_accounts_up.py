"""Accounts of a laptop's owner outlive `fairlead up`, also without a state folder, until a logout."""

from __future__ import annotations

import json
from pathlib import Path

from mcp import Client
from mcp.types import CallToolResult

from commands import fairlead
from consentservers import FormBrowser, consent_server
from upprocess import Up, fairlead_up
from waiting import until_async


async def call_whoami(up: Up) -> CallToolResult:
    async with Client(up.url) as client:
        return await client.call_tool("linear__whoami", {})


async def is_listed(up: Up, tool: str) -> bool:
    async with Client(up.url) as client:
        return [each.name for each in (await client.list_tools()).tools] == [tool]


async def link_of(up: Up) -> str:
    """The link that `POST /v1/servers/default/linear/sign-in` returns to `fairlead login`."""
    async with Client(up.url) as client:
        content = (await client.call_tool("linear__sign_in", {})).content[0]
    assert content.type == "text"
    return next(word.rstrip(".,") for word in content.text.split() if word.startswith("http"))


async def test_an_account_is_kept_without_a_state_folder_and_ended_by_a_logout(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    async with consent_server("linear") as server, FormBrowser() as browser:
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"linear": {"url": server.url}}}))
        async with fairlead_up("mcp.json", cwd=tmp_path, env=environment) as up:
            await until_async("the sign-in", lambda: is_listed(up, "linear__sign_in"))
            await browser.sign_in(await link_of(up))
            await until_async("the tools", lambda: is_listed(up, "linear__whoami"))
        async with fairlead_up("mcp.json", cwd=tmp_path, env=environment) as up:
            await until_async("the tools", lambda: is_listed(up, "linear__whoami"))
            assert not (await call_whoami(up)).is_error
            code, shown, _ = await fairlead("accounts", "--json", "--url", up.url)
            assert (code, [account["server"] for account in json.loads(shown)]) == (0, ["default/linear"])
            assert (await fairlead("logout", "linear", "--url", up.url))[0] == 0
            told = await up.server("default/linear", "sign-in")
            assert (told["cause"], told["message"]) == ("SignInRequired", "fairlead login linear")
            _, refreshed, _ = await fairlead("refresh", "linear", "--url", up.url)
            assert "default/linear needs your sign-in" in refreshed
            assert (await call_whoami(up)).is_error
            assert not server.provider.refresh_tokens
            assert await is_listed(up, "linear__whoami"), "the catalog stays"
        grants = tmp_path / "state" / "fairlead" / "grants"
        assert grants.stat().st_mode & 0o077 == 0
