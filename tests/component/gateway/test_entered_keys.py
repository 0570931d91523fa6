"""Servers that each user calls with a personal key, which the user enters once."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from consentservers import BrowserPage, FormBrowser, consent_server
from consentworld import call_whoami, laptop, link_of, title_of, whoami
from fairlead_api.documents.catalog import Credential
from fairlead_api.meta import ServerKey
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fairlead_cli.access.entering_keys import EnteredKeySource
from fairlead_cli.access.signing_in import run_login
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import Failure
from fairlead_cli.output import Output
from fairlead_cli.wording import NAMED_URL
from fairlead_gateway.core.identity import LOCAL, Identity
from fairlead_mcp.host import ChildHost
from fairlead_mcp.http.dial import resolve_by_dns
from fairlead_mcp.oauth.stored_grant import GrantKey
from fairlead_mcp.opening import NetworkAccess, network_session
from fixed_authenticator import Names
from gated_stdio_server import TOKEN
from gatewayworld import LEGACY, Ask, ask, calling, legacy, publish, scrape
from keyservers import HEADER, key_catalog, key_server, keyed_pod, pod_catalog, process_catalog
from otlpreceiver import otlp_receiver
from ports import free_port
from rawserver import RawServer
from restworld import get
from secretscan import leaks
from waiting import eventually, until_async

KEYED = ServerKey("default", "keyed")
KEYS = {"alice-key-1": "alice", "bob-key-1": "bob", "alice-key-2": "alice again"}
ALICE, BOB = (Identity(kind="apiKey", principal=f"name:{name}", agent=name) for name in ("alice", "bob"))
SIGN_IN = "/v1/servers/keyed/sign-in"


def call_of(person: str = "", *, era: str | None = None) -> Ask:
    call = calling("keyed__whoami") if era is None else calling("keyed__whoami", era=era)
    return call.with_headers(authorization=f"Bearer {person}") if person else call


async def enter_key(gateway: Gateway, key: str, person: str = "", *, server: str = "keyed") -> dict[str, Any]:
    """Enter a key by the REST API. Returns the answer."""
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {person}"} if person else {})
    target = f"/v1/servers/{server}/sign-in"
    answer = await ask(gateway, Ask({"key": key}, headers, verb="PUT", target=target))
    message: dict[str, Any] = answer.message
    return message


async def refusal_text(gateway: Gateway, request: Ask | None = None) -> str:
    """Text of the result of a call for which there is no key."""
    result = (await call_whoami(gateway, request or call_of())).message["result"]
    assert result["isError"] is True, result
    assert result["_meta"]["fairlead.dev/error"]["code"] == "SIGN_IN_REQUIRED"
    return str(result["content"][0]["text"])


@asynccontextmanager
async def shared_gateway(folder: Path, *catalogs: Any, **settings: Any) -> AsyncIterator[Gateway]:
    """A gateway of two users."""
    port = free_port()
    trust = Trust((Names("alice", "bob"),))
    url = f"http://127.0.0.1:{port}"
    async with laptop(folder, *catalogs, port=port, public_url=url, trust=trust, **settings) as gateway:
        yield gateway


async def open_form(browser: FormBrowser, gateway: Gateway, identity: Identity = LOCAL) -> BrowserPage:
    return await browser.get(await link_of(gateway, identity, KEYED))


def sent_keys(server: RawServer) -> list[str]:
    return [request.headers.get(HEADER.lower(), "") for request in server.seen]


async def test_a_person_enters_a_key_once_and_calls_with_it_also_after_a_restart(tmp_path: Path) -> None:
    async with key_server(KEYS) as server:
        keyed = key_catalog(server.url, key={"description": "a key to read tickets", "help_url": "https://x.test/keys"})
        async with laptop(tmp_path, keyed) as gateway, FormBrowser() as browser:
            assert "You have not entered your key for default/keyed: enter your key" in await refusal_text(gateway)
            form = await open_form(browser, gateway)
            for shown in ("default/keyed", "127.0.0.1", "a key to read tickets", "https://x.test/keys"):
                assert shown in form.text
            page = await browser.press(form, key=" alice-key-1\n")
            assert title_of(page.text) == "Your key for default/keyed is stored"
            assert await whoami(gateway, call_of()) == "alice"
            assert await whoami(gateway, call_of(era=LEGACY)) == "alice"
        async with laptop(tmp_path, keyed) as gateway:
            assert await whoami(gateway, call_of()) == "alice"
        assert set(sent_keys(server)) == {"alice-key-1"}
        assert "authorization" not in server.seen[-1].headers


async def test_a_key_follows_the_word_of_its_header(tmp_path: Path) -> None:
    async with key_server(KEYS) as server:
        async with laptop(tmp_path, key_catalog(server.url, key={"prefix": "Token"})) as gateway:
            await enter_key(gateway, "bob-key-1")
            assert await whoami(gateway, call_of()) == "bob"
        assert sent_keys(server) == ["Token bob-key-1"]


async def test_each_person_calls_with_the_own_key(tmp_path: Path) -> None:
    async with key_server(KEYS) as server, shared_gateway(tmp_path, key_catalog(server.url)) as gateway:
        assert (await enter_key(gateway, "alice-key-1", "alice"))["signedIn"] is True
        await refusal_text(gateway, call_of("bob"))
        assert (await enter_key(gateway, "bob-key-1", "bob"))["signedIn"] is True
        for _ in range(2):
            both = await asyncio.gather(whoami(gateway, call_of("alice")), whoami(gateway, call_of("bob")))
            assert [*both] == ["alice", "bob"]
        listed = await ask(gateway, Ask(headers={"authorization": "Bearer alice"}, verb="GET", target="/v1/accounts"))
        assert [(each["server"], each["kind"], each["person"]) for each in listed.message["accounts"]] == [
            ("default/keyed", "key", "name:alice")
        ]


async def test_a_key_that_the_server_refuses_is_asked_for_again_and_stays_until_there_is_another(
    tmp_path: Path,
) -> None:
    persons = dict(KEYS)
    async with key_server(persons) as server, laptop(tmp_path, key_catalog(server.url)) as gateway:
        await enter_key(gateway, "alice-key-1")
        assert await whoami(gateway, call_of()) == "alice"
        del persons["alice-key-1"]
        text = await refusal_text(gateway)
        assert "The server default/keyed refused your key (401): enter your key" in text
        assert "alice-key-1" not in text
        calls = len(server.seen)
        await refusal_text(gateway)
        assert len(server.seen) == calls, "the refused key is not sent with each call"
        assert (await get(gateway, SIGN_IN)).message["signedIn"] is False
        assert gateway.grants is not None
        stored = await gateway.grants.read(GrantKey(LOCAL.person, str(KEYED)))
        assert stored is not None
        assert stored.grant.user_key == "alice-key-1"
        await enter_key(gateway, "alice-key-2")
        assert await whoami(gateway, call_of()) == "alice again"


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "the key is empty"),
        ("two words", "copy only the key"),
        ("ümlaut-key", "copy only the key"),
        ("x\r\nX-Admin: yes", "copy only the key"),
        ("k" * 1025, "longer than 1024"),
        ("other-key", "keys of this server begin with alice- or bob-"),
    ],
)
async def test_a_text_that_cannot_be_the_key_is_not_stored_and_not_repeated(tmp_path: Path, key: str, why: str) -> None:
    wanted = {"starts_with": ("alice-", "bob-")} if key == "other-key" else {}
    keyed = key_catalog("http://127.0.0.1:9/mcp", key=wanted)
    async with laptop(tmp_path, keyed) as gateway, FormBrowser() as browser:
        page = await browser.press(await open_form(browser, gateway), key=key)
        assert page.status == 400
        assert why in page.text.lower()
        problem = json.dumps(await enter_key(gateway, key))
        assert why in problem.lower()
        for text in (page.text, problem):
            assert not key or key not in text
        assert gateway.grants is not None
        assert await gateway.grants.read(GrantKey(LOCAL.person, str(KEYED))) is None
        again = await browser.press(page, key="bob-key-1")
        assert again.status == 200, "the link stays good"


async def test_a_link_to_enter_a_key_is_used_once(tmp_path: Path) -> None:
    async with key_server(KEYS) as server, laptop(tmp_path, key_catalog(server.url)) as gateway:
        async with FormBrowser() as browser:
            form = await open_form(browser, gateway)
            await browser.press(form, key="alice-key-1")
            assert (await browser.press(form, key="bob-key-1")).status == 404
        assert await whoami(gateway, call_of()) == "alice"


async def test_a_form_of_another_page_enters_no_key(tmp_path: Path) -> None:
    async with laptop(tmp_path, key_catalog("http://127.0.0.1:9/mcp")) as gateway, FormBrowser() as browser:
        form = await open_form(browser, gateway)
        action, fields = form.form
        for changed, headers in (({"token": "x"}, {}), ({}, {"sec-fetch-site": "cross-site"})):
            page = await browser.post(action, {**fields, "key": "mallorys-key", **changed}, **headers)
            assert page.status == 403
        assert gateway.grants is not None
        assert await gateway.grants.read(GrantKey(LOCAL.person, str(KEYED))) is None


async def test_the_link_of_a_person_takes_no_key_of_another_browser(tmp_path: Path) -> None:
    async with shared_gateway(tmp_path, key_catalog("http://127.0.0.1:9/mcp")) as gateway, FormBrowser() as browser:
        page = await browser.get(await link_of(gateway, ALICE, KEYED), follow=False)
        assert "/console/consent/" in page.onward
        assert not page.has_form
        posted = await browser.post(await link_of(gateway, ALICE, KEYED), {"token": "", "key": "mallorys-key"})
        assert posted.status == 403
        assert gateway.grants is not None
        assert await gateway.grants.read(GrantKey(ALICE.person, str(KEYED))) is None


async def test_a_key_is_not_sent_to_another_address_or_a_new_server_of_the_name(tmp_path: Path) -> None:
    async with key_server(KEYS) as server, key_server(KEYS) as other:
        async with laptop(tmp_path, key_catalog(server.url)) as gateway:
            await enter_key(gateway, "alice-key-1")
            assert await whoami(gateway, call_of()) == "alice"
            publish(tmp_path / "documents", key_catalog(other.url))
            await eventually(lambda: gateway.sign_ins.address_of(KEYED) == other.url)
            text = await refusal_text(gateway)
            assert f"at {server.url}, but the server is at {other.url} now" in text
        assert not other.seen


@asynccontextmanager
async def two_gateways(folder: Path) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """Two gateways of one user, which share grants."""
    folders = [folder / name for name in ("first", "second")]
    for each in folders:
        each.mkdir()
    store = {"grants_directory": folder / "grants"}
    async with (
        key_server(KEYS) as server,
        laptop(folders[0], key_catalog(server.url), **store) as first,
        laptop(folders[1], key_catalog(server.url), **store) as second,
    ):
        yield first, second


async def test_a_logout_deletes_the_key_and_is_in_force_at_every_gateway(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as (first, second):
        await enter_key(first, "alice-key-1")
        assert await whoami(first, call_of()) == await whoami(second, call_of()) == "alice"
        ended = await ask(first, Ask(verb="DELETE", target="/v1/accounts/default/keyed"))
        assert ended.message["account"]["kind"] == "key"
        await refusal_text(first)

        async def is_refused() -> bool:
            return (await call_whoami(second, call_of())).message["result"].get("isError") is True

        await until_async("the other gateway refuses too", is_refused)


async def test_a_key_that_is_replaced_is_replaced_at_every_gateway(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as (first, second):
        await enter_key(first, "alice-key-1")
        assert await whoami(second, call_of()) == "alice"
        await enter_key(first, "alice-key-2")
        assert await whoami(first, call_of()) == "alice again"

        async def is_replaced() -> bool:
            return await whoami(second, call_of()) == "alice again"

        await until_async("the other gateway has the new key", is_replaced)


async def test_a_server_is_listed_with_the_key_of_the_first_person(tmp_path: Path) -> None:
    async with key_server(KEYS) as server:
        keyed = key_catalog(server.url, first_grant=True, listing_interval_s=600)
        async with laptop(tmp_path, keyed) as gateway:
            await enter_key(gateway, "alice-key-1")
            await eventually(lambda: any(request.method == "tools/list" for request in server.seen))
            listings = [request for request in server.seen if request.method == "tools/list"]
            assert listings[-1].headers[HEADER.lower()] == "alice-key-1"


async def test_a_person_signs_in_at_a_server_that_wants_no_key_by_a_link_alone(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway:
        answer = await enter_key(gateway, "key", server="linear")
        assert "users sign in at default/linear by a link, and enter no key: ask without a key" in json.dumps(answer)


async def test_a_person_whose_key_could_not_be_used_is_told_of_the_key_and_of_no_sign_in(tmp_path: Path) -> None:
    async with key_server(KEYS) as server, laptop(tmp_path, key_catalog(server.url)) as gateway:
        await enter_key(gateway, "alice-key-1")
        await link_of(gateway, LOCAL, KEYED)
        shown = (await get(gateway, "/v1/servers/default/keyed")).message
    assert shown["signIn"] == "the last call could not be made with the key that you entered for default/keyed"


# fairlead login


def at(gateway: Gateway) -> Destination:
    return Destination(f"http://127.0.0.1:{gateway.port}/mcp", {}, 10)


async def test_login_takes_the_key_from_a_variable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_ALICE", "alice-key-1")
    async with key_server(KEYS) as server, laptop(tmp_path, key_catalog(server.url)) as gateway:
        source = EnteredKeySource("OF_ALICE")
        await asyncio.to_thread(run_login, at(gateway), "keyed", Output.table, browser=False, key=source)
        assert capsys.readouterr().out == "Your key for default/keyed is stored.\n"
        assert await whoami(gateway, call_of()) == "alice"
        NAMED_URL.set("http://other/mcp")  # as of --url; in the context of this test alone
        await asyncio.to_thread(run_login, at(gateway), "keyed", Output.table, browser=False)
        told = capsys.readouterr().out
        assert (
            "You have entered a key for default/keyed; `fairlead logout --url http://other/mcp default/keyed`" in told
        )
        absent = EnteredKeySource("OF_NOBODY")
        with pytest.raises(Failure, match="OF_NOBODY is not set"):
            await asyncio.to_thread(run_login, at(gateway), "keyed", Output.table, browser=False, key=absent)


async def test_login_takes_the_key_from_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("bob-key-1\n"))
    async with key_server(KEYS) as server, laptop(tmp_path, key_catalog(server.url)) as gateway:
        source = EnteredKeySource(stdin=True)
        await asyncio.to_thread(run_login, at(gateway), "keyed", Output.json, browser=False, key=source)
        assert await whoami(gateway, call_of()) == "bob"


async def test_login_asks_at_a_terminal_without_echo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[str] = []

    def answer(question: str, stream: object) -> str:
        questions.append(question)
        return "alice-key-1"

    monkeypatch.setattr("getpass.getpass", answer)
    key = {"description": "a key to read", "help_url": "https://x.test/keys"}
    async with key_server(KEYS) as server, laptop(tmp_path, key_catalog(server.url, key=key)) as gateway:
        await asyncio.to_thread(run_login, at(gateway), "keyed", Output.table, browser=False, key=Terminal())
        assert questions == ["Key for default/keyed (a key to read), from https://x.test/keys: "]
        assert capsys.readouterr().out == "Your key for default/keyed is stored.\n"
        assert await whoami(gateway, call_of()) == "alice"


class Terminal(EnteredKeySource):
    """Source of keys that can ask a user."""

    @property
    def asks(self) -> bool:
        return True


# Processes


@asynccontextmanager
async def processes() -> AsyncIterator[ChildHost]:
    children = ChildHost()
    try:
        yield children
    finally:
        await children.aclose()


def of_clients(children: ChildHost) -> int:
    return len(children.children())


async def session_of(gateway: Gateway, person: str) -> str:
    """Id of a new client session of a user."""
    client = {"name": "client", "version": "1"}
    opening = legacy("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client})
    opened = await ask(gateway, opening.with_headers(authorization=f"Bearer {person}"))
    return opened.headers["mcp-session-id"]


async def process_answer(gateway: Gateway, person: str, session: str) -> list[str]:
    """Key and process id that the process of a client's session returns."""
    call = calling("keyed__whoami", era=LEGACY)
    return (await whoami(gateway, call.with_headers(authorization=f"Bearer {person}", mcp_session_id=session))).split()


async def test_a_process_has_the_key_of_its_person_in_its_environment(tmp_path: Path) -> None:
    async with (
        processes() as children,
        shared_gateway(tmp_path, process_catalog(tmp_path), children=children, shared_children=False) as gateway,
    ):
        text = await refusal_text(gateway, call_of("alice"))
        assert "You have not entered your key for default/keyed" in text
        assert not children.children(), "no process starts without a key"
        await enter_key(gateway, "alice-key-1", "alice")
        await enter_key(gateway, "bob-key-1", "bob")
        first, second = await asyncio.gather(whoami(gateway, call_of("alice")), whoami(gateway, call_of("bob")))
        assert first.split()[0] == "alice-key-1"
        assert second.split()[0] == "bob-key-1"
        assert first.split()[1] != second.split()[1]


REFUSING = """
import json, os, sys
for line in sys.stdin:
    error = {"code": -32000, "message": "refused key " + os.environ["OWNER"]}
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": error}), flush=True)
"""


async def test_a_key_of_words_is_masked_where_a_refused_handshake_quotes_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key, served = "correct-horse-battery", process_catalog(tmp_path, variable="OWNER")
    (tmp_path / "keyed_server.py").write_text(REFUSING)
    async with (
        processes() as children,
        shared_gateway(tmp_path, served, children=children, shared_children=False) as gateway,
    ):
        await enter_key(gateway, key, "alice")
        answer = json.dumps((await call_whoami(gateway, call_of("alice"))).message)
        assert "refused key [credential]" in answer
        assert key not in answer
    assert "refused key [credential]" in caplog.text
    assert key not in caplog.text


async def test_the_process_of_a_session_ends_with_its_key(tmp_path: Path) -> None:
    async with (
        processes() as children,
        shared_gateway(tmp_path, process_catalog(tmp_path), children=children, shared_children=False) as gateway,
    ):
        await enter_key(gateway, "alice-key-1", "alice")
        session = await session_of(gateway, "alice")
        before = await process_answer(gateway, "alice", session)
        assert await process_answer(gateway, "alice", session) == before, "one process for the session"
        await enter_key(gateway, "alice-key-2", "alice")
        await eventually(lambda: of_clients(children) == 0)
        assert (await process_answer(gateway, "alice", session))[0] == "alice-key-2"
        headers = {"authorization": "Bearer alice"}
        await ask(gateway, Ask(headers=headers, verb="DELETE", target="/v1/accounts/default/keyed"))
        await eventually(lambda: of_clients(children) == 0)
        await refusal_text(gateway, call_of("alice"))


async def test_a_call_with_the_session_of_another_person_reaches_no_process_of_that_person(tmp_path: Path) -> None:
    async with (
        processes() as children,
        shared_gateway(tmp_path, process_catalog(tmp_path), children=children, shared_children=False) as gateway,
    ):
        await enter_key(gateway, "alice-key-1", "alice")
        await enter_key(gateway, "bob-key-1", "bob")
        session = await session_of(gateway, "alice")
        assert (await process_answer(gateway, "alice", session))[0] == "alice-key-1"
        stolen = calling("keyed__whoami", era=LEGACY).with_headers(authorization="Bearer bob", mcp_session_id=session)
        assert "alice-key-1" not in json.dumps((await ask(gateway, stolen)).message)


def files_with(folder: Path, text: bytes) -> list[Path]:
    """Files of a folder that contain a text."""
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def environment_of(process: int) -> list[bytes]:
    """Variables of a process, as `NAME=VALUE`."""
    return Path(f"/proc/{process}/environ").read_bytes().split(b"\0")


async def test_a_process_in_a_pod_has_the_key_of_its_person_and_ends_with_it(tmp_path: Path) -> None:
    async with pod_catalog(tmp_path) as (pod, keyed), shared_gateway(tmp_path, keyed) as gateway:
        assert "You have not entered your key for default/keyed" in await refusal_text(gateway, call_of("alice"))
        assert pod.servers == [], "no process starts without a key"
        await enter_key(gateway, "alice-key-1", "alice")
        await enter_key(gateway, "bob-key-1", "bob")
        hers, his = await session_of(gateway, "alice"), await session_of(gateway, "bob")
        (her_key, her_process), (his_key, his_process) = (
            await process_answer(gateway, "alice", hers),
            await process_answer(gateway, "bob", his),
        )
        assert (her_key, his_key) == ("alice-key-1", "bob-key-1")
        assert her_process != his_process
        assert await process_answer(gateway, "alice", hers) == [her_key, her_process], "one process for the session"
        assert set(pod.servers) == {int(her_process), int(his_process)}
        await enter_key(gateway, "alice-key-2", "alice")
        await eventually(lambda: pod.servers == [int(his_process)])
        assert (await process_answer(gateway, "alice", hers))[0] == "alice-key-2"
        stolen = calling("keyed__whoami", era=LEGACY).with_headers(authorization="Bearer bob", mcp_session_id=hers)
        assert "alice-key" not in json.dumps((await ask(gateway, stolen)).message)
        assert not files_with(tmp_path, b"alice-key")


async def test_another_program_in_a_pod_of_the_name_gets_no_key_that_was_entered_before(tmp_path: Path) -> None:
    async with pod_catalog(tmp_path) as (pod, keyed), shared_gateway(tmp_path, keyed) as gateway:
        await enter_key(gateway, "alice-key-1", "alice")
        assert (await whoami(gateway, call_of("alice"))).startswith("alice-key-1 ")
        publish(tmp_path / "documents", keyed_pod(pod, program="2"))

        async def is_refused() -> bool:
            return (await call_whoami(gateway, call_of("alice"))).message["result"].get("isError") is True

        await until_async("the key is asked for again", is_refused)


async def test_a_key_reaches_no_other_program_in_a_pod_whose_catalog_is_not_published_yet(tmp_path: Path) -> None:
    async with pod_catalog(tmp_path) as (pod, _), shared_gateway(tmp_path, keyed_pod(pod, program="0")) as gateway:
        await enter_key(gateway, "alice-key-1", "alice")
        refusal = json.dumps((await call_whoami(gateway, call_of("alice"))).message)
        assert "program has changed" in refusal
        await eventually(lambda: pod.servers == [])


async def test_lists_of_a_server_with_keys_are_read_in_a_process_without_one(tmp_path: Path) -> None:
    async with pod_catalog(tmp_path) as (pod, keyed):
        access = NetworkAccess(Credential(token=TOKEN), resolve_by_dns, "test")
        async with network_session("keyed", keyed.endpoint, access) as session:
            assert [json.loads(bytes(tool))["name"] for tool in await session.list_all("tools/list")] == ["whoami"]
            [process] = pod.servers
            assert not [each for each in environment_of(process) if each.startswith((b"DEMO_KEY=", b"FAIRLEAD_KEY="))]


async def test_another_program_of_the_name_gets_no_key_that_was_entered_before(tmp_path: Path) -> None:
    async with (
        processes() as children,
        laptop(tmp_path, process_catalog(tmp_path), children=children, shared_children=False) as gateway,
    ):
        await enter_key(gateway, "alice-key-1")
        assert (await whoami(gateway, call_of())).startswith("alice-key-1 ")
        publish(tmp_path / "documents", process_catalog(tmp_path, "keyed", "--other"))

        async def is_refused() -> bool:
            return (await call_whoami(gateway, call_of())).message["result"].get("isError") is True

        await until_async("the key is asked for again", is_refused)


def written_files(folder: Path) -> dict[str, str]:
    """Content of all files that a gateway wrote, by file name, without the test's programs."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".py"]
    return {path.name: path.read_bytes().decode("latin-1") for path in files}


async def test_no_key_is_in_metrics_traces_calls_documents_or_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    persons, audit, told = dict(KEYS), tmp_path / "audit.log", dict[str, str]()
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        async with (
            key_server(persons) as server,
            processes() as children,
            laptop(
                tmp_path,
                key_catalog(server.url),
                process_catalog(tmp_path, "process", variable="DEMO_PLACE"),
                children=children,
                shared_children=False,
                audit="all",
                audit_otlp=True,
                audit_file=audit,
            ) as gateway,
            FormBrowser() as browser,
        ):
            told["page"] = (await browser.press(await open_form(browser, gateway), key="alice-key-1")).text
            assert await whoami(gateway, call_of()) == "alice"
            told["answer"] = json.dumps(await enter_key(gateway, "alice-key-2", server="process"))
            session = await session_of(gateway, "")
            own = calling("process__whoami", era=LEGACY).with_headers(mcp_session_id=session)
            assert (await whoami(gateway, own)).startswith("alice-key-2 ")
            [process] = children.children().values()
            await eventually(lambda: any("called with" in line for line in process.program.printed.stderr()))
            told["process"] = "\n".join(process.program.printed.stderr())
            del persons["alice-key-1"]
            told |= {"refusal": await refusal_text(gateway), "metrics": await scrape(gateway)}
            for target in ("/v1/accounts", "/v1/calls", "/v1/servers", SIGN_IN):
                told[target] = (await get(gateway, target)).body.decode()
    exported = {"spans": receiver.spans, "exported logs": receiver.logs, "exported metrics": receiver.metrics}
    assert all(exported.values())
    told |= {name: repr(items) for name, items in exported.items()} | {"log": caplog.text}
    told |= await asyncio.to_thread(written_files, tmp_path)
    assert "accounts/grant" in told[audit.name]
    keys = {"alice's key": "alice-key-1", "key of a process": "alice-key-2"}
    assert not [leak for name, text in told.items() for leak in leaks(keys, name, text)]
