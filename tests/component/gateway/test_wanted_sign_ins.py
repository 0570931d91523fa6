"""The server's state tells a user to sign in, without a call, and reveals nothing about other users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from commands import fairlead
from consentservers import FormBrowser, consent_server
from consentworld import SERVER, call_whoami, consent_catalog, laptop, link_of, sign_in_as, whoami
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fairlead_gateway.core.identity import Identity
from fairlead_mcp.oauth.stored_grant import GrantKey
from fixed_authenticator import Names
from gatewayworld import publish, wait_for_snapshots
from ports import free_port
from restworld import get, post
from waiting import eventually

SIGN_IN = "/v1/servers/default/linear/sign-in"


async def reason_to_sign_in(gateway: Gateway, **headers: str) -> str:
    """Why the caller has to sign in; empty if the caller need not. Asserts that the list and the server's document
    agree."""
    (listed,) = (await get(gateway, "/v1/servers", **headers)).message["servers"]
    shown = (await get(gateway, "/v1/servers/default/linear", **headers)).message
    assert listed.get("signIn") == shown.get("signIn")
    return str(shown.get("signIn", ""))


async def test_a_server_says_that_its_caller_has_to_sign_in_until_that_is_done(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        assert await reason_to_sign_in(gateway) == "you have not signed in at default/linear"
        await browser.sign_in(await link_of(gateway))
        assert await reason_to_sign_in(gateway) == ""
        assert await whoami(gateway) == "alice"
        assert await reason_to_sign_in(gateway) == ""


async def test_a_logout_is_told_at_once(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        await browser.sign_in(await link_of(gateway))
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        assert (await fairlead("logout", "linear", "--url", url))[0] == 0
        assert await reason_to_sign_in(gateway) == "you have signed out at default/linear"
        refused = (await call_whoami(gateway)).message["result"]["content"][0]["text"]
        _, listed, _ = await fairlead("servers", "--url", url)
        await browser.sign_in(await link_of(gateway))
        assert await reason_to_sign_in(gateway) == ""
    assert refused.startswith("You have signed out at default/linear: sign in. Open ")
    assert "  sign-in " in listed
    assert "SignInRequired" in listed
    assert f"you have signed out at default/linear: fairlead login --url {url} default/linear" in listed


async def test_a_grant_that_its_provider_has_ended_is_told_after_the_call_that_noticed(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        await browser.sign_in(await link_of(gateway))
        server.provider.end("alice")
        assert (await call_whoami(gateway)).message["result"]["isError"] is True
        ended = "your sign-in at default/linear has expired or was ended at the authorization server"
        assert await reason_to_sign_in(gateway) == ended
        await browser.sign_in(await link_of(gateway))
        assert await reason_to_sign_in(gateway) == ""


async def test_tokens_that_the_server_refuses_are_told_and_a_sign_in_replaces_them(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        await browser.sign_in(await link_of(gateway))
        assert await whoami(gateway) == "alice"
        server.provider.refuses = True
        assert (await call_whoami(gateway)).message["result"]["isError"] is True
        assert await reason_to_sign_in(gateway) == "default/linear refuses the access tokens of your sign-in"
        state = (await post(gateway, SIGN_IN, {})).message
        assert state["signedIn"] is False
        server.provider.refuses = False
        await browser.sign_in(state["signInUrl"])
        assert await reason_to_sign_in(gateway) == ""
        assert (await get(gateway, SIGN_IN)).message["signedIn"] is True
        assert await whoami(gateway) == "alice"


async def test_a_server_at_another_url_is_told_to_who_signed_in_at_the_first(tmp_path: Path) -> None:
    async with (
        consent_server("linear") as server,
        consent_server("linear") as other,
        laptop(tmp_path, server) as gateway,
        FormBrowser() as browser,
    ):
        await browser.sign_in(await link_of(gateway))
        publish(tmp_path / "documents", consent_catalog(other.url, hash="2"))
        await wait_for_snapshots(gateway, 2)
        assert (
            await reason_to_sign_in(gateway) == f"you signed in at {server.url}, but the server is at {other.url} now"
        )


async def test_each_person_is_told_of_their_own_sign_in_alone(tmp_path: Path) -> None:
    port = free_port()
    trust, alice = Trust((Names("alice", "bob"),)), Identity(kind="apiKey", principal="name:alice", agent="alice")
    more: dict[str, Any] = {"public_url": f"http://127.0.0.1:{port}", "session_key": "key", "trust": trust}
    async with consent_server("linear") as server, laptop(tmp_path, server, port=port, **more) as gateway:
        async with FormBrowser() as browser:
            await sign_in_as(browser, await link_of(gateway, alice), "alice")
        assert await reason_to_sign_in(gateway, authorization="Bearer alice") == ""
        assert (
            await reason_to_sign_in(gateway, authorization="Bearer bob") == "you have not signed in at default/linear"
        )
        assert gateway.grants is not None
        await gateway.grants.delete(GrantKey(alice.person, str(SERVER)))
        await eventually(lambda: not gateway.sign_ins.has_token(alice, SERVER))
        assert (
            await reason_to_sign_in(gateway, authorization="Bearer alice") == "you have not signed in at default/linear"
        )


async def test_a_gateway_that_does_not_know_its_address_names_the_setting_with_a_value(tmp_path: Path) -> None:
    trust = Trust((Names("alice"),))
    async with consent_server("linear") as server, laptop(tmp_path, server, trust=trust) as gateway:
        problem = (await post(gateway, SIGN_IN, {}, authorization="Bearer alice")).message
        here = f"http://127.0.0.1:{gateway.port}"
    setting = f"set FAIRLEAD_PUBLIC_URL (chart: gateway.settings.publicUrl), such as {here} for browsers here"
    assert setting in problem["detail"]


async def test_a_gateway_without_persons_says_nothing_about_sign_ins(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server, environment="") as gateway:
        assert await reason_to_sign_in(gateway) == ""


async def test_store_of_grants_that_is_away_asks_nobody_to_sign_in(tmp_path: Path) -> None:
    (tmp_path / "grants").write_text("a file where the folder should be")
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway:
        assert await reason_to_sign_in(gateway) == ""
