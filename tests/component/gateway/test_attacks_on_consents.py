"""Attacks on signing in at a server: no link, state or page attaches an account to another user."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from yarl import URL

from consentservers import BrowserPage, FormBrowser, consent_server
from consentworld import SERVER, call_whoami, consent_catalog, laptop, link_of, title_of, whoami
from fairlead_api.documents.catalog import Catalog
from fairlead_api.meta import ServerKey
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fairlead_gateway.core.identity import LOCAL, Identity
from fairlead_gateway.sign_in.pending import COOKIE
from fixed_authenticator import Names, person_with
from gatewayworld import Ask, Wire, calling, publish
from keyservers import key_catalog
from otherusers import as_another_user, foreign_socket
from ports import free_port
from rawserver import Reply, Request, raw_server
from waiting import eventually

Claims = Mapping[str, Mapping[str, Any]]
ALICE, MALLORY = (Identity(kind="apiKey", principal=f"name:{name}", agent=name) for name in ("alice", "mallory"))


@asynccontextmanager
async def shared_gateway(
    folder: Path, url: str, *catalogs: Catalog, claims: Claims | None = None, **settings: Any
) -> AsyncIterator[Gateway]:
    """A gateway of two users, who sign in to its console."""
    port = free_port()
    async with laptop(
        folder,
        consent_catalog(url),
        *catalogs,
        port=port,
        public_url=f"http://127.0.0.1:{port}",
        trust=Trust((Names("alice", "mallory", claims=claims),)),
        **settings,
    ) as gateway:
        yield gateway


async def console_session(browser: FormBrowser, gateway: Gateway, person: str) -> None:
    """Sign the browser in to the console."""
    page = await browser.get(f"http://127.0.0.1:{gateway.port}/console/sign-in")
    await browser.press(page, key=person)


def location_of(page: BrowserPage) -> str:
    return page.headers.get("location", "")


async def back_from(browser: FormBrowser, page: BrowserPage) -> str:
    """URL to which the authorization server redirects the browser, which does not follow it."""
    begun = await browser.press(page, follow=False)
    form = await browser.get(begun.onward)
    return location_of(await browser.press(form, follow=False))


async def test_the_person_who_called_opens_the_link_by_a_session_of_the_console(tmp_path: Path) -> None:
    async with (
        consent_server("linear") as server,
        shared_gateway(tmp_path, server.url) as gateway,
        FormBrowser() as browser,
    ):
        await console_session(browser, gateway, "alice")
        page = await browser.sign_in(await link_of(gateway, ALICE))
        assert title_of(page.text) == "Signed in at default/linear"
        assert await whoami(gateway, calling("linear__whoami").with_headers(authorization="Bearer alice")) == "alice"
        mallorys = calling("linear__whoami").with_headers(authorization="Bearer mallory")
        assert (await call_whoami(gateway, mallorys)).message["result"]["isError"] is True


async def test_link_of_somebody_else_is_refused_and_both_persons_are_named(tmp_path: Path) -> None:
    async with (
        consent_server("linear") as server,
        shared_gateway(tmp_path, server.url) as gateway,
        FormBrowser() as victim,
    ):
        await console_session(victim, gateway, "alice")
        page = await victim.press_on(await link_of(gateway, MALLORY))
        assert page.status == 403
        assert "name:alice" in page.text
        assert "another" in page.text or "owner of an API key" in page.text
        assert "mallory" not in page.text
        assert not server.provider.requests
        assert not gateway.sign_ins.has_token(MALLORY, SERVER)


async def test_pages_of_a_sign_in_name_people_as_their_tokens_do_and_not_by_subject(tmp_path: Path) -> None:
    claims = {
        name: {"iss": "https://login.example.com", "sub": f"sub-of-{name}", "preferred_username": name}
        for name in ("alice", "mallory")
    }
    keyed = key_catalog("http://127.0.0.1:9/mcp")
    async with (
        consent_server("linear") as server,
        shared_gateway(tmp_path, server.url, keyed, claims=claims) as gateway,
        FormBrowser() as browser,
    ):
        await console_session(browser, gateway, "alice")
        consent, key, foreign = [
            await browser.get(await link_of(gateway, person_with(claims[name]), of))
            for name, of in (("alice", SERVER), ("alice", ServerKey("default", "keyed")), ("mallory", SERVER))
        ]
    assert "<dt>The grant is for</dt><dd>alice at login.example.com</dd>" in consent.text
    assert "<dt>The key is for calls of</dt><dd>alice at login.example.com</dd>" in key.text
    assert foreign.status == 403
    assert "this browser is signed in as alice at login.example.com" in foreign.text
    assert "sub-of" not in consent.text + key.text


async def test_a_link_without_a_session_leads_to_the_consoles_sign_in(tmp_path: Path) -> None:
    async with (
        consent_server("linear") as server,
        shared_gateway(tmp_path, server.url) as gateway,
        FormBrowser() as browser,
    ):
        page = await browser.get(await link_of(gateway, ALICE))
        assert urlsplit(page.url).path == "/console/sign-in"
        page = await browser.press(page, key="alice")
        assert title_of(page.text) == "Sign in at default/linear"


async def test_a_browser_that_went_on_without_signing_in_is_asked_who_it_is(tmp_path: Path) -> None:
    async with (
        consent_server("linear") as server,
        shared_gateway(tmp_path, server.url, anonymous="allow") as gateway,
        FormBrowser() as browser,
    ):
        console = f"http://127.0.0.1:{gateway.port}/console/sign-in"
        await browser.post(console, {"anonymous": "yes"}, origin=console.partition("/console")[0])
        link = await link_of(gateway, ALICE)
        shown = await browser.get(link)
        await browser.post(console, {"key": "alice"}, origin=console.partition("/console")[0])
        page = await browser.sign_in(link)
    assert urlsplit(shown.url).path == "/console/sign-in"
    assert title_of(page.text) == "Signed in at default/linear"


async def test_a_link_is_used_once(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        link = await link_of(gateway)
        back = await back_from(browser, await browser.get(link))
        async with FormBrowser() as thief:
            thief.jar.update_cookies({cookie.key: cookie.value for cookie in browser.jar}, URL(link))
            assert (await browser.get(back)).status == 200
            for each in (browser, thief):
                again, opened = await each.get(back), await each.get(link)
                assert again.status == 403
                assert opened.status == 404
        assert len(server.provider.refresh_tokens) == 1


async def test_an_answer_is_of_no_use_in_another_browser(tmp_path: Path) -> None:
    async with (
        consent_server("linear") as server,
        laptop(tmp_path, server) as gateway,
        FormBrowser() as attacker,
        FormBrowser() as victim,
    ):
        server.provider.person = "mallory"
        back = await back_from(attacker, await attacker.get(await link_of(gateway)))
        page = await victim.get(back)
        assert page.status == 403
        assert not gateway.sign_ins.has_token(LOCAL, SERVER)
        assert not server.provider.refresh_tokens, "the code was not redeemed"


async def test_a_cookie_of_one_sign_in_opens_no_other(tmp_path: Path) -> None:
    async with (
        consent_server("linear") as server,
        shared_gateway(tmp_path, server.url) as gateway,
        FormBrowser() as attacker,
    ):
        await console_session(attacker, gateway, "mallory")
        await attacker.get(await link_of(gateway, MALLORY))
        own = next(cookie.value for cookie in attacker.jar if cookie.key.startswith(COOKIE))
        victims = gateway.sign_ins.find(parse_qs(urlsplit(link := await link_of(gateway, ALICE)).query)["id"][0])
        assert victims is not None
        attacker.jar.update_cookies({victims.cookie: own}, URL(link))
        page = await attacker.get(link)
        assert page.status == 403
        assert "name:mallory" in page.text


async def test_an_answer_with_a_state_of_somebody_else_attaches_no_account(tmp_path: Path) -> None:
    async with (
        consent_server("linear") as server,
        shared_gateway(tmp_path, server.url) as gateway,
        FormBrowser() as attacker,
        FormBrowser() as victim,
    ):
        await console_session(attacker, gateway, "mallory")
        await console_session(victim, gateway, "alice")
        victims = await back_from(victim, await victim.get(await link_of(gateway, ALICE)))
        attackers = await back_from(attacker, await attacker.get(await link_of(gateway, MALLORY)))
        assert (await victim.get(attackers)).status == 403
        state, own = (parse_qs(urlsplit(url).query)["state"][0] for url in (victims, attackers))
        assert (await attacker.get(attackers.replace(own, state))).status == 403
        assert not gateway.sign_ins.has_token(ALICE, SERVER)
        assert not gateway.sign_ins.has_token(MALLORY, SERVER)


async def test_an_answer_for_one_server_is_not_taken_at_the_address_of_another(tmp_path: Path) -> None:
    async with consent_server("linear") as server:
        other = consent_catalog(server.url, "notion")
        async with laptop(tmp_path, server, other) as gateway, FormBrowser() as browser:
            link = await link_of(gateway, server=ServerKey("default", "notion"))
            back = await back_from(browser, await browser.get(link))
            mixed_up = back.replace("/callback/default/notion", "/callback/default/linear")
            assert mixed_up != back
            assert (await browser.get(mixed_up)).status == 403
            assert (await browser.get(back)).status == 200


@pytest.mark.parametrize("same_issuer", [False, True])
async def test_a_port_of_two_issuers_takes_no_answer_that_does_not_name_its_own(
    tmp_path: Path, same_issuer: bool
) -> None:
    """The answer may come from the other issuer, for a client that both issuers know."""
    async with consent_server("linear") as server:
        shared = {"callback_port": free_port()}
        issuer = f"{server.provider.url}/" if same_issuer else "https://login.example.com"
        other = consent_catalog("http://127.0.0.1:1/mcp", "notion", oauth={**shared, "issuer": issuer})
        linear = consent_catalog(server.url, oauth=shared)
        async with laptop(tmp_path, linear, other) as gateway, FormBrowser() as browser:
            page = await browser.press_on(await link_of(gateway))
            if same_issuer:
                assert title_of(page.text) == "Signed in at default/linear"
                return
            assert page.status == 400
            assert "default/notion has the same callbackPort" in page.text
            assert not gateway.sign_ins.has_token(LOCAL, SERVER)
            assert not server.provider.refresh_tokens, "the code was not redeemed"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=lambda headers: " ".join(headers.values()),
)
async def test_a_form_of_another_page_begins_nothing(tmp_path: Path, headers: dict[str, str]) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        page = await browser.get(await link_of(gateway))
        action, fields = page.form
        answer = await browser.post(action, fields, **headers)
        assert answer.status == 403
        assert not server.provider.requests


async def test_a_form_without_the_token_of_its_page_begins_nothing(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        page = await browser.get(await link_of(gateway))
        assert (await browser.press(page, follow=False, token="guessed")).status == 403
        assert (await browser.press(page, follow=False, token="x" * 10_000)).status == 403
        assert not server.provider.requests


async def test_no_page_can_be_framed_or_run_a_script(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        link = await link_of(gateway)
        shown = await browser.get(link)
        begun = await browser.press(shown, follow=False)
        for page in (shown, begun, await browser.get(f"{link}x"), await browser.get(link.replace("?", "/x?"))):
            policy = page.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert page.headers["x-frame-options"] == "DENY"
            assert page.headers["cache-control"] == "no-store"


def leads(pages: Iterable[BrowserPage]) -> set[str]:
    """Hosts to which pages link or redirect."""
    return {urlsplit(url).netloc for page in pages for url in (page.onward, location_of(page)) if url}


async def test_no_parameter_leads_the_browser_to_another_host(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        base, evil = f"http://127.0.0.1:{gateway.port}", "http://evil.example/"
        link = await link_of(gateway)
        targets = [
            f"{link}&next={evil}&redirect_uri={evil}&url={evil}",
            f"{base}/callback?state=s&code=c&next={evil}",
            f"{base}/callback?{evil}",
            f"{base}/sign-in/callback?state=s&redirect_uri={evil}",
            f"{base}/sign-in/{evil}",
            f"{base}/sign-in//evil.example/x?id=1",
        ]
        pages = [await browser.get(target, follow=False) for target in targets]
        assert leads(pages) <= {urlsplit(base).netloc}
        begun = await browser.press(await browser.get(targets[0]), follow=False)
        assert leads([begun]) == {urlsplit(server.url).netloc}


async def test_the_page_of_a_laptop_is_for_browsers_of_this_machine(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        link = await link_of(gateway)
        browser.headers["x-forwarded-for"] = "203.0.113.7"
        forwarded = await browser.get(link)
        browser.headers.clear()
        rebound = await browser.get(link, host=f"evil.example:{gateway.port}")
        assert forwarded.status == 403
        assert rebound.status == 421
        assert "form" not in forwarded.text


async def assert_unknown_user(gateway: Gateway, wire: Wire, **headers: str) -> None:
    """Assert that the gateway takes requests on a connection for those of an unknown user, who has no accounts and
    cannot sign in."""
    answer = await wire.ask(calling("linear__whoami").with_headers(**headers))
    assert answer.message["result"]["isError"] is True
    assert "cannot tell who calls" in answer.message["result"]["content"][0]["text"]
    accounts = await wire.ask(Ask(verb="GET", target="/v1/accounts", headers=headers))
    of_everybody = await wire.ask(Ask(verb="GET", target="/v1/accounts?everybody=true", headers=headers))
    ended = await wire.ask(Ask(verb="DELETE", target="/v1/accounts/default/linear", body=b"", headers=headers))
    link = await wire.ask(Ask(target="/v1/servers/linear/sign-in", body=b"{}", headers=headers))
    assert [each.status for each in (accounts, of_everybody, ended, link)] == [403] * 4
    assert gateway.sign_ins.of_caller(LOCAL, SERVER) is None


@pytest.mark.parametrize("header", ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"])
async def test_a_request_that_a_proxy_forwards_is_not_the_owners(tmp_path: Path, header: str) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        await browser.sign_in(await link_of(gateway))
        async with await Wire.connect(gateway) as wire:
            await assert_unknown_user(gateway, wire, **{header: "203.0.113.9"})
            assert (await wire.ask(Ask(verb="GET", target="/v1/accounts"))).message["accounts"] != []
        assert await whoami(gateway) == "alice"


@as_another_user
async def test_another_user_of_the_machine_is_not_its_owner(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        link = await link_of(gateway)
        await browser.sign_in(link)
        async with await Wire.connect(gateway, opened=foreign_socket()) as wire:
            await assert_unknown_user(gateway, wire)
            page = await wire.ask(Ask(verb="GET", target=link.partition(str(gateway.port))[2]))
            assert page.status == 403
        assert await whoami(gateway) == "alice"


async def test_the_page_says_where_calls_go_and_whose_access_they_get(tmp_path: Path) -> None:
    async with consent_server("linear", host="localhost") as server, laptop(tmp_path, server) as gateway:
        honest = server.url.removesuffix("/mcp")
        settings = {
            "issuer": honest,
            "client_id": "c",
            "authorization_url": f"{honest}/authorize",
            "token_url": f"{honest}/token",
        }
        evil = consent_catalog(server.url.replace("localhost", "127.0.0.1"), "evil", oauth=settings)
        publish(tmp_path / "documents", evil)
        name = ServerKey("default", "evil")
        await eventually(lambda: name in gateway.snapshot.servers)
        async with FormBrowser() as browser:
            same = await browser.get(await link_of(gateway))
            other = await browser.get(await link_of(gateway, server=name))
    assert "<dt>Calls go to</dt><dd>localhost</dd>" in same.text
    assert "gets access to what you allow" not in same.text
    assert "<dt>Calls go to</dt><dd>127.0.0.1</dd>" in other.text
    assert "127.0.0.1 gets access to what you allow at localhost" in other.text


async def test_an_attached_account_and_a_refused_browser_are_in_the_audit_log(tmp_path: Path) -> None:
    async with (
        consent_server("linear") as server,
        shared_gateway(tmp_path, server.url, audit_file=tmp_path / "audit.jsonl") as gateway,
        FormBrowser() as victim,
        FormBrowser() as browser,
    ):
        await console_session(victim, gateway, "alice")
        await victim.get(await link_of(gateway, MALLORY))
        await console_session(browser, gateway, "mallory")
        await browser.sign_in(await link_of(gateway, MALLORY))
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    (refused,) = [line for line in lines if "to sign in at default/linear" in (line.get("reason") or "")]
    assert (refused["principal"], refused["decision"], refused["outcome"]) == ("name:alice", "denied", "403")
    (made,) = [line for line in lines if line["method"] == "accounts/grant"]
    assert (made["principal"], made["server"], made["client"]) == ("name:mallory", "default/linear", "127.0.0.1")
    assert made["reason"].startswith(f"of name:mallory at http://{urlsplit(server.url).netloc}")


async def test_a_repeated_parameter_of_an_answer_is_refused(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        back = await back_from(browser, await browser.get(await link_of(gateway)))
        assert (await browser.get(f"{back}&code=another")).status == 403
        assert (await browser.get(back)).status == 200


async def test_links_say_nothing_of_the_person_and_cannot_be_guessed(tmp_path: Path) -> None:
    async with consent_server("linear") as server, shared_gateway(tmp_path, server.url) as gateway:
        links = [await link_of(gateway, person) for person in (ALICE, MALLORY)]
        idents = [parse_qs(urlsplit(link).query)["id"][0] for link in links]
        assert len({*idents}) == 2
        assert all(len(ident) >= 32 for ident in idents)
        assert not any(name in link for link in links for name in ("alice", "mallory"))
        for part in (0, len(idents[0]) // 2, -2):  # the last character has unused bits
            altered = [*idents[0]]
            altered[part] = "A" if altered[part] != "A" else "B"
            assert gateway.sign_ins.find("".join(altered)) is None


async def test_an_account_at_one_url_is_not_used_at_another_of_the_servers_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For example with another `mcp.json` on a laptop, whose lists are read at the start, without any call."""
    seen: list[Request] = []

    async def note(request: Request, reply: Reply) -> None:
        seen.append(request)
        reply.send(404)

    async with consent_server("linear") as server, raw_server(note) as evil, FormBrowser() as browser:
        async with laptop(tmp_path, server) as gateway:
            await browser.sign_in(await link_of(gateway))
        other = consent_catalog(evil.url, oauth={"first_grant": True})
        refreshed = server.provider.refreshed
        async with laptop(tmp_path, other) as gateway:
            await eventually(lambda: f"you signed in at {server.url}, but the server is at {evil.url}" in caplog.text)
            assert (await call_whoami(gateway)).message["result"]["isError"] is True
        assert server.provider.refreshed == refreshed
        assert not [request for request in seen if "authorization" in request.headers]
