"""Accounts at real servers end at the provider and at every gateway that shares the grants."""

from __future__ import annotations

from pathlib import Path

from commands import fairlead
from consentservers import FormBrowser, consent_server
from consentworld import SERVER, called, laptop, link_of, whoami
from fairlead_app.gateway import Gateway
from fairlead_gateway.core.identity import LOCAL
from fairlead_mcp.oauth.stored_grant import GrantKey
from waiting import until_async


async def is_refused(gateway: Gateway) -> bool:
    return (await called(gateway)).message["result"].get("isError") is True


async def test_a_logout_is_in_force_at_every_gateway_and_revoked_at_the_provider(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    shared = {"grants_directory": tmp_path / "grants"}
    async with (
        consent_server("linear") as server,
        laptop(folders[0], server, **shared) as first,
        laptop(folders[1], server, **shared) as second,
        FormBrowser() as browser,
    ):
        await browser.sign_in(await link_of(first))
        assert await whoami(first) == await whoami(second) == "alice"
        code, out, _ = await fairlead("logout", "linear", "--url", f"http://127.0.0.1:{first.port}/mcp")
        assert (code, out) == (0, f"default/linear: signed out, and {server.provider.url}/ has revoked the grant\n")
        assert await is_refused(first)
        assert not server.provider.refresh_tokens
        assert not server.provider.access_tokens
        await until_async("the other gateway refuses too", lambda: is_refused(second))


async def test_a_gateway_drops_its_token_of_an_ended_grant_that_the_server_would_still_take(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    shared = {"grants_directory": tmp_path / "grants"}
    async with (
        consent_server("linear") as server,
        laptop(folders[0], server, **shared) as first,
        laptop(folders[1], server, **shared) as second,
        FormBrowser() as browser,
    ):
        await browser.sign_in(await link_of(first))
        assert await whoami(second) == "alice"
        assert first.grants is not None
        await first.grants.delete(GrantKey(LOCAL.person, "default/linear"))
        await until_async("the other gateway refuses", lambda: is_refused(second), seconds=15)
        assert server.provider.access_tokens, "the provider was told nothing"


async def test_another_account_is_used_by_every_gateway(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    shared = {"grants_directory": tmp_path / "grants"}
    async with (
        consent_server("linear") as server,
        laptop(folders[0], server, **shared) as first,
        laptop(folders[1], server, **shared) as second,
        FormBrowser() as browser,
    ):
        await browser.sign_in(await link_of(first))
        assert await whoami(first) == await whoami(second) == "alice"
        server.provider.person = "bob"
        refreshed = server.provider.refreshed
        await browser.sign_in(await link_of(first))
        await first.registry.review(SERVER, LOCAL.person)
        assert await whoami(first) == "bob"
        assert server.provider.refreshed == refreshed, "the token of the new consent is used"

        async def is_bob() -> bool:
            return await whoami(second) == "bob"

        await until_async("the other gateway uses the new account", is_bob)
