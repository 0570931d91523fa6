"""Signing in at a server on a laptop, from a call without a grant to calls as the user."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consentservers import FormBrowser, consent_server
from consentworld import SERVER, call_whoami, consent_catalog, laptop, link_of, sign_in_as, title_of, whoami
from fairlead_api.documents.servers import ServerEntry, Servers
from fairlead_api.meta import ServerKey
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fairlead_cli.access.signing_in import run_login
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import Failure
from fairlead_cli.output import Output
from fairlead_gateway.core.identity import LOCAL, Identity
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.stored_grant import GrantKey
from fairlead_mcp.server_listing import RawListing
from fixed_authenticator import Names
from gatewayworld import LEGACY, Ask, ask, calling, catalog, publish, running
from ports import free_port
from rawserver import Reply, Request, raw_server
from restworld import get
from waiting import eventually, until_async


async def test_a_person_signs_in_by_one_link_and_stays_signed_in_after_a_restart(tmp_path: Path) -> None:
    async with consent_server("linear") as server:
        async with laptop(tmp_path, server) as gateway, FormBrowser() as browser:
            assert (await call_whoami(gateway)).message["result"]["isError"] is True
            page = await browser.sign_in(await link_of(gateway))
            assert title_of(page.text) == "Signed in at default/linear"
            assert await whoami(gateway) == "alice"
            assert await whoami(gateway, calling("linear__whoami", era=LEGACY)) == "alice"
        async with laptop(tmp_path, server) as gateway:
            assert await whoami(gateway) == "alice"
        assert server.provider.refreshed == 1
        assert len(server.provider.clients) == 1


async def test_the_page_says_where_it_leads_and_begins_with_a_click(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        link = await link_of(gateway)
        assert link.startswith(f"http://127.0.0.1:{gateway.port}/sign-in/default/linear?id=")
        page = await browser.get(link)
        assert page.status == 200
        for shown in ("default/linear", "127.0.0.1", server.provider.url):
            assert shown in page.text
        assert not server.provider.requests, "nothing was begun yet"
        assert not server.provider.clients, "nothing was registered yet"
        assert page.onward == ""
        begun = await browser.press(page, follow=False)
        assert begun.onward.startswith(f"{server.provider.url}/authorize?")
        assert begun.headers["referrer-policy"] == "no-referrer"


async def test_a_link_under_another_name_of_the_machine_leads_to_that_of_the_answer(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        link = await link_of(gateway)
        page = await browser.get(link.replace("127.0.0.1", "localhost"))
        assert page.url == link
        assert title_of((await browser.sign_in(page.url)).text) == "Signed in at default/linear"


async def test_a_call_without_a_grant_says_in_one_short_sentence_where_to_sign_in(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway:
        text = (await call_whoami(gateway)).message["result"]["content"][0]["text"]
    assert "You have not signed in at default/linear: sign in" in text
    assert "access token" not in text


async def test_all_calls_before_a_sign_in_get_the_same_link(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway:
        assert len({await link_of(gateway) for _ in range(5)}) == 1


async def test_a_person_who_declines_is_told_and_may_try_the_same_link_again(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        server.provider.declines = True
        link = await link_of(gateway)
        page = await browser.press_on(link)
        assert page.status == 400
        assert "access_denied" in page.text
        assert await link_of(gateway) == link
        server.provider.declines = False
        await browser.sign_in(link)
        assert await whoami(gateway) == "alice"


async def test_a_call_is_asked_again_after_the_grant_has_ended(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        await browser.sign_in(await link_of(gateway))
        assert await whoami(gateway) == "alice"
        server.provider.end("alice")
        assert (await call_whoami(gateway)).message["result"]["isError"] is True
        server.provider.person = "bob"
        await browser.sign_in(await link_of(gateway))
        assert await whoami(gateway) == "bob"


async def test_a_grant_of_another_client_is_revoked_when_it_is_replaced(tmp_path: Path) -> None:
    """A grant of the same client is not revoked, because providers such as Keycloak would also end the new grant."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    grants = {"grants_directory": tmp_path / "grants"}
    async with (
        consent_server("linear") as server,
        laptop(folders[0], server, **grants) as first,
        laptop(folders[1], server, **grants) as second,
        FormBrowser() as browser,
    ):
        provider = server.provider

        def remaining_subjects() -> set[str]:
            return {str(token.subject) for token in provider.refresh_tokens.values()}

        await browser.sign_in(await link_of(first))
        provider.person = "bob"
        page = await browser.sign_in(await link_of(second))
        assert title_of(page.text) == "Signed in at default/linear"
        await eventually(lambda: remaining_subjects() == {"bob"})
        assert len(provider.clients) == 2
        provider.person = "carol"
        await browser.sign_in(await link_of(second))
        assert await whoami(second) == "carol"
        assert remaining_subjects() == {"bob", "carol"}


async def test_a_grant_that_is_deleted_is_not_used_any_more(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        await browser.sign_in(await link_of(gateway))
        assert await whoami(gateway) == "alice"
        assert gateway.grants is not None
        await gateway.grants.delete(GrantKey(LOCAL.person, str(SERVER)))

        async def is_refused() -> bool:
            return (await call_whoami(gateway)).message["result"].get("isError") is True

        await until_async("the call is refused", is_refused)


async def test_waiting_for_a_sign_in_ends_with_it(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        await gateway.sign_ins.wait(LOCAL, SERVER, 60)  # no sign-in is pending
        link = await link_of(gateway)
        waiting = asyncio.ensure_future(gateway.sign_ins.wait(LOCAL, SERVER, 60))
        await browser.sign_in(link)
        await waiting
        assert gateway.sign_ins.has_token(LOCAL, SERVER)


async def test_each_replica_takes_part_in_a_sign_in(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    trust, alice = Trust((Names("alice"),)), Identity(kind="apiKey", principal="name:alice", agent="alice")
    shared = {"public_url": f"http://127.0.0.1:{ports[1]}", "session_key": "key", "trust": trust}
    async with (
        consent_server("linear") as server,
        laptop(tmp_path, server, port=ports[0], **shared) as calls,
        laptop(tmp_path, server, port=ports[1], **shared) as pages,
        FormBrowser() as browser,
    ):
        request = calling("linear__whoami").with_headers(authorization="Bearer alice")
        link = await link_of(calls, alice)
        waiting = asyncio.ensure_future(calls.sign_ins.wait(alice, SERVER, 60))
        page = await sign_in_as(browser, link, "alice")
        assert title_of(page.text) == "Signed in at default/linear"
        await waiting
        assert await calls.sign_ins.is_signed_in(alice, SERVER)
        assert await link_of(calls, alice) != link, "which is used up"
        assert [await whoami(gateway, request) for gateway in (calls, pages)] == ["alice", "alice"]


async def test_a_registered_port_takes_the_answer(tmp_path: Path) -> None:
    port = free_port()
    async with consent_server("linear") as server:
        linear = consent_catalog(server.url, oauth={"callback_port": port})
        async with laptop(tmp_path, linear) as gateway, FormBrowser() as browser:
            page = await browser.sign_in(await link_of(gateway))
            assert title_of(page.text) == "Signed in at default/linear"
            (client,) = server.provider.clients.values()
            assert [str(uri) for uri in client.redirect_uris or ()] == [f"http://localhost:{port}/callback"]
            assert await whoami(gateway) == "alice"


async def never_answer(request: Request, reply: Reply) -> None:
    """Never answer."""


async def test_a_registered_port_stays_free_when_a_sign_in_cannot_begin(tmp_path: Path) -> None:
    port = free_port()
    gone = consent_catalog(f"http://127.0.0.1:{free_port()}/mcp", oauth={"callback_port": port})
    async with laptop(tmp_path, gone) as gateway:
        await link_of(gateway)
        pending = gateway.sign_ins.of_caller(LOCAL, SERVER)
        assert pending is not None
        with pytest.raises(GrantFailed):
            await gateway.sign_ins.begin(pending)
        async with raw_server(never_answer, port=port):
            pass


async def test_a_registered_port_may_be_the_gateways_own(tmp_path: Path) -> None:
    port = free_port()
    async with consent_server("linear") as server:
        linear = consent_catalog(server.url, oauth={"callback_port": port})
        async with laptop(tmp_path, linear, port=port) as gateway, FormBrowser() as browser:
            await browser.sign_in(await link_of(gateway))
            assert await whoami(gateway) == "alice"


async def test_a_server_is_listed_with_the_first_grant_and_again_after_a_restart(tmp_path: Path) -> None:
    async with consent_server("linear") as server:
        linear = consent_catalog(
            server.url, oauth={"first_grant": True}, tools=["sign_in"], sign_in=True, version=LEGACY
        )
        async with laptop(tmp_path, linear) as gateway, FormBrowser() as browser:
            assert (await call_whoami(gateway, calling("linear__sign_in"))).message["result"]["isError"] is True
            assert gateway.outbox.report("").listings == ()
            await browser.sign_in(await link_of(gateway))
            await eventually(lambda: gateway.outbox.report("").listings != ())
            (listing,) = gateway.outbox.report("").listings
            assert (listing.namespace, listing.server, listing.url) == ("default", "linear", server.url)
            raw = msgspec.json.decode(listing.listing, type=RawListing)
            assert [msgspec.json.decode(tool)["name"] for tool in raw.tools] == ["whoami"]
            cursor = gateway.outbox.report("").cursor
            assert gateway.outbox.report(cursor).listings == ()
            answer = await call_whoami(gateway, calling("linear__sign_in"))
            assert "You are signed in" in answer.message["result"]["content"][0]["text"]
            gateway.outbox.ask_refresh(SERVER)
            await eventually(lambda: gateway.outbox.report(cursor).listings != ())
        async with laptop(tmp_path, linear) as gateway:
            await eventually(lambda: gateway.outbox.report("").listings != ())


async def test_lists_that_one_replica_has_read_are_not_read_by_another(tmp_path: Path) -> None:
    oauth = {"first_grant": True, "listing_interval_s": 600.0}
    async with consent_server("linear") as linear, consent_server("notion") as notion, FormBrowser() as browser:
        servers = {"linear": linear, "notion": notion}
        catalogs = {name: consent_catalog(server.url, name, oauth=oauth) for name, server in servers.items()}
        async with laptop(tmp_path, *catalogs.values()) as first:
            for name in servers:
                await browser.sign_in(await link_of(first, server=ServerKey("default", name)))
            await eventually(lambda: len(first.outbox.report("").listings) == 2)
            read = linear.methods.count("tools/list")
            published = msgspec.structs.replace(catalogs["linear"], lists_read_at=time.time())
            async with laptop(tmp_path, published, catalogs["notion"], port=free_port()) as second:
                await eventually(lambda: second.outbox.report("").listings != ())
                assert [listing.server for listing in second.outbox.report("").listings] == ["notion"]
            assert linear.methods.count("tools/list") == read


async def test_a_grant_outlives_a_change_of_other_settings(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        await browser.sign_in(await link_of(gateway))
        assert await whoami(gateway) == "alice"
        publish(tmp_path / "documents", consent_catalog(server.url, version=LEGACY))
        await eventually(lambda: gateway.snapshot.servers[SERVER].catalog.protocol_version == LEGACY)
        assert await whoami(gateway) == "alice"
        assert server.provider.refreshed == 0


async def test_a_gateway_that_other_machines_reach_has_no_persons_without_authentication(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server, host="0.0.0.0") as gateway:
        answer = await call_whoami(gateway)
        assert "cannot tell who calls" in answer.message["result"]["content"][0]["text"]


def at(gateway: Gateway) -> Destination:
    return Destination(f"http://127.0.0.1:{gateway.port}/mcp", {}, 10)


async def test_login_prints_the_link_and_waits_for_the_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        login = asyncio.ensure_future(asyncio.to_thread(run_login, at(gateway), "linear", Output.table, browser=True))
        await eventually(lambda: gateway.sign_ins.of_caller(LOCAL, SERVER) is not None)
        link = await link_of(gateway)
        await browser.sign_in(link)
        await login
        printed = capsys.readouterr().out
        assert link in printed
        assert printed.endswith("You are signed in at default/linear.\n")
        await asyncio.to_thread(run_login, at(gateway), "linear", Output.json, browser=True)
        state = json.loads(capsys.readouterr().out)
        assert state == {"server": "default/linear", "signedIn": True, "signInUrl": None, "failure": None}


@pytest.mark.parametrize("change", [{"refresh_token": ""}, {"expires_at": 1.0}, {"server_address": "http://other/mcp"}])
async def test_login_gives_a_link_in_the_place_of_a_grant_that_cannot_be_used(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    key = GrantKey(LOCAL.person, str(SERVER))
    async with consent_server("linear") as server, FormBrowser() as browser:
        async with laptop(tmp_path, server) as gateway:
            await browser.sign_in(await link_of(gateway))
            assert gateway.grants is not None
            stored = await gateway.grants.read(key)
            assert stored is not None
            await gateway.grants.write(key, msgspec.structs.replace(stored.grant, granted_at=1.0, **change))
        async with laptop(tmp_path, server) as gateway:
            target = "/v1/servers/linear/sign-in"
            opened = (await ask(gateway, Ask(target=target, body=b"{}"))).message
            assert opened["signedIn"] is False
            assert opened["signInUrl"] == await link_of(gateway)
            assert (await get(gateway, target)).message["signedIn"] is False
            await browser.sign_in(opened["signInUrl"])
            assert (await get(gateway, target)).message["signedIn"] is True


async def test_login_fails_when_the_person_declines(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        server.provider.declines = True
        login = asyncio.ensure_future(asyncio.to_thread(run_login, at(gateway), "linear", Output.json, browser=False))
        await eventually(lambda: gateway.sign_ins.of_caller(LOCAL, SERVER) is not None)
        await browser.press_on(await link_of(gateway))
        with pytest.raises(Failure, match=r"not signed in at default/linear: .*access_denied") as failed:
            await login
        assert failed.value.code == 1


async def test_login_ends_when_the_page_cannot_say_where_the_sign_in_leads(tmp_path: Path) -> None:
    gone = consent_catalog(f"http://127.0.0.1:{free_port()}/mcp")
    async with laptop(tmp_path, gone) as gateway, FormBrowser() as browser:
        login = asyncio.ensure_future(asyncio.to_thread(run_login, at(gateway), "linear", Output.json, browser=False))
        await eventually(lambda: gateway.sign_ins.of_caller(LOCAL, SERVER) is not None)
        assert (await browser.get(await link_of(gateway))).status == 502
        with pytest.raises(Failure, match="not signed in at default/linear: "):
            await login


async def test_login_ends_when_the_sign_in_cannot_begin(tmp_path: Path) -> None:
    async with consent_server("linear") as server, await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as taken:
        port = taken.sockets[0].getsockname()[1]
        linear = consent_catalog(server.url, oauth={"callback_port": port})
        async with laptop(tmp_path, linear) as gateway, FormBrowser() as browser:
            work = asyncio.to_thread(run_login, at(gateway), "linear", Output.json, browser=False)
            login = asyncio.ensure_future(work)
            await eventually(lambda: gateway.sign_ins.of_caller(LOCAL, SERVER) is not None)
            page = await browser.press(await browser.get(await link_of(gateway)), follow=False)
            assert page.status == 502
            with pytest.raises(Failure, match=f"not signed in at default/linear: .*port {port}"):
                await login


@pytest.mark.parametrize(("server", "code"), [("other", 2), ("plain", 1)])
async def test_login_at_a_server_without_sign_in_says_so(tmp_path: Path, server: str, code: int) -> None:
    plain = catalog("plain", "http://127.0.0.1:9/mcp", ["buy"])
    async with laptop(tmp_path, plain) as gateway:
        with pytest.raises(Failure, match=server) as failed:
            await asyncio.to_thread(run_login, at(gateway), server, Output.table, browser=False)
        assert failed.value.code == code


async def test_login_at_a_gateway_without_a_store_says_what_a_call_says(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server, grants_directory=None) as gateway:
        refusal = (await call_whoami(gateway)).message["result"]["content"][0]["text"]
        assert "the gateway has no store for grants: set FAIRLEAD_GRANTS" in refusal
        with pytest.raises(Failure, match="the gateway has no store for grants: set FAIRLEAD_GRANTS"):
            await asyncio.to_thread(run_login, at(gateway), "linear", Output.table, browser=False)


async def test_login_at_a_server_that_never_answered_says_so(tmp_path: Path) -> None:
    dead = ServerEntry(namespace="default", name="dead", state="failed", cause="ConnectionRefused")
    async with running(tmp_path, Servers(servers=(dead,)), environment="local") as gateway:
        with pytest.raises(Failure, match=r"default/dead failed \(ConnectionRefused\)") as failed:
            await asyncio.to_thread(run_login, at(gateway), "dead", Output.table, browser=False)
    assert "does not want" not in str(failed.value)
