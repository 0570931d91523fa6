"""Accounts of users at servers: `/v1/accounts`, `fairlead accounts` and `fairlead logout`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from commands import fairlead
from consoleworld import csrf_of, post_form, sign_in, visit
from fairlead_app.authentication import build_trust
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from fairlead_gateway.grants.machine_keys import KEY_FILE
from fairlead_gateway.identity.key_format import encode_keys, new_key
from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant
from gatewayworld import Answer, Ask, ask, catalog, running
from restworld import get, problem

NOW = datetime.now(UTC)
ANN, ANN_RECORD = new_key("ann", ["admins"], now=NOW)
BEN, BEN_RECORD = new_key("ben", ["guests"], now=NOW)
LINEAR, SENTRY = "default/linear", "default/sentry"
DOCUMENT = catalog("linear", "http://127.0.0.1:9/mcp", ["search"])
PAGE = "/console/accounts"


def grant_of(holder: str, **changes: Any) -> StoredGrant:
    return StoredGrant(
        issuer="https://as.example.com",
        client_id="c",
        refresh_token="secret-refresh",
        scopes=("write", "read"),
        granted_at=1_795_000_000,
        holder=holder,
        **changes,
    )


@contextlib.asynccontextmanager
async def gateway_with_keys(folder: Path, **changes: Any) -> AsyncIterator[Gateway]:
    """A gateway with keys and accounts of Ann, an administrator, and Ben."""
    (folder / "keys.json").write_bytes(encode_keys([ANN_RECORD, BEN_RECORD]))
    settings: dict[str, Any] = {"api_keys": folder / "keys.json", "admin_groups": ("admins",)}
    settings |= {"grants_directory": folder / "grants", **changes}
    async with running(folder, DOCUMENT, trust=build_trust(Settings.of(**settings)), **settings) as gateway:
        if gateway.grants is not None:
            await gateway.grants.write(GrantKey(b"key:ann", LINEAR), grant_of("ann"))
            await gateway.grants.write(GrantKey(b"key:ben", LINEAR), grant_of("ben", expires_at=1_799_000_000))
            await gateway.grants.write(GrantKey(b"key:ben", SENTRY), grant_of("ben"))
            await gateway.grants.write(GrantKey(b"", "registration:https://as.example.com"), grant_of(""))
        yield gateway


@contextlib.asynccontextmanager
async def laptop(folder: Path, **changes: Any) -> AsyncIterator[Gateway]:
    """A gateway that serves its own machine without authentication, like `fairlead up`."""
    settings: dict[str, Any] = {"environment": "local", "grants_directory": folder / "grants", **changes}
    async with running(folder, DOCUMENT, **settings) as gateway:
        assert gateway.grants is not None
        for server in (LINEAR, SENTRY):
            await gateway.grants.write(GrantKey(b"local", server), grant_of("local"))
        yield gateway


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def end_account(gateway: Gateway, server: str, key: str = "", person: str = "") -> Answer:
    target = f"/v1/accounts/{server}" + (f"?person={quote(person)}" if person else "")
    return await ask(gateway, Ask(verb="DELETE", target=target, body=b"", headers=bearer(key) if key else {}))


def account_pairs(answer: Answer) -> list[tuple[str, str]]:
    assert answer.status == 200, answer.body
    assert b"secret-refresh" not in answer.body
    return [(account["server"], account["person"]) for account in answer.message["accounts"]]


async def test_each_person_sees_and_ends_their_own_accounts_alone(tmp_path: Path) -> None:
    async with gateway_with_keys(tmp_path) as gateway:
        before = await get(gateway, "/v1/accounts", **bearer(BEN))
        refused = [
            await get(gateway, "/v1/accounts?everybody=true", **bearer(BEN)),
            await end_account(gateway, LINEAR, BEN, person="key:ann"),
        ]
        first = await end_account(gateway, LINEAR, BEN)
        again = await end_account(gateway, LINEAR, BEN)
        after = await get(gateway, "/v1/accounts", **bearer(BEN))
        others = await get(gateway, "/v1/accounts", **bearer(ANN))

    assert account_pairs(before) == [(LINEAR, "key:ben"), (SENTRY, "key:ben")]
    assert before.message["accounts"][0] == {
        "server": LINEAR,
        "person": "key:ben",
        "holder": "ben",
        "kind": "grant",
        "issuer": "https://as.example.com",
        "scopes": ["read", "write"],
        "since": "2026-11-18T11:06:40Z",
        "renewed": None,
        "until": "2027-01-03T18:13:20Z",
        "unusedUntil": "2027-05-17T11:06:40Z",
    }
    assert [problem(answer) for answer in refused] == [(403, "FORBIDDEN")] * 2
    assert (first.status, first.message["account"]["server"], first.message["revoked"]) == (200, LINEAR, False)
    assert problem(again) == (404, "UNKNOWN_ACCOUNT")
    assert account_pairs(after) == [(SENTRY, "key:ben")]
    assert account_pairs(others) == [(LINEAR, "key:ann")]


async def test_administrators_see_and_end_the_accounts_of_all_persons(tmp_path: Path) -> None:
    async with gateway_with_keys(tmp_path) as gateway:
        everybody = await get(gateway, "/v1/accounts?everybody=true", **bearer(ANN))
        gone = await end_account(gateway, SENTRY, ANN, person="key:ben")
        unknown = await end_account(gateway, SENTRY, ANN, person="key:nobody")
        left = await get(gateway, "/v1/accounts?everybody=true", **bearer(ANN))

    assert account_pairs(everybody) == [(LINEAR, "key:ann"), (LINEAR, "key:ben"), (SENTRY, "key:ben")]
    assert gone.status == 200
    assert problem(unknown) == (404, "UNKNOWN_ACCOUNT")
    assert account_pairs(left) == [(LINEAR, "key:ann"), (LINEAR, "key:ben")]


async def test_an_ended_account_is_in_the_audit_log_with_who_ended_it(tmp_path: Path) -> None:
    async with gateway_with_keys(tmp_path, audit_file=tmp_path / "audit.jsonl") as gateway:
        await end_account(gateway, SENTRY, ANN, person="key:ben")
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    (line,) = [line for line in lines if line.get("method") == "accounts/revoke"]
    assert (line["principal"], line["server"], line["reason"]) == ("key:ann", SENTRY, "of key:ben")


async def test_an_account_whose_grant_is_lost_can_be_ended(tmp_path: Path) -> None:
    async with gateway_with_keys(tmp_path):
        pass
    (tmp_path / "grants" / KEY_FILE).unlink()
    settings: dict[str, Any] = {"api_keys": tmp_path / "keys.json", "grants_directory": tmp_path / "grants"}
    async with running(tmp_path, DOCUMENT, trust=build_trust(Settings.of(**settings)), **settings) as gateway:
        gone = await end_account(gateway, LINEAR, BEN)
        again = await end_account(gateway, LINEAR, BEN)
    assert (gone.status, gone.message["account"]["issuer"], gone.message["revoked"]) == (200, "", False)
    assert problem(again) == (404, "UNKNOWN_ACCOUNT")


async def test_a_store_that_fails_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    async with running(
        tmp_path, DOCUMENT, environment="local", grants_directory=tmp_path / "taken" / "grants"
    ) as gateway:
        answer = await end_account(gateway, LINEAR)
    assert problem(answer) == (503, "UNREADABLE")
    assert "FAIRLEAD_GRANTS_DIRECTORY" in answer.message["detail"]


async def test_a_gateway_without_a_store_says_so(tmp_path: Path) -> None:
    async with gateway_with_keys(tmp_path, grants_directory=None) as gateway:
        answers = [await get(gateway, "/v1/accounts", **bearer(BEN)), await end_account(gateway, LINEAR, BEN)]
        page = await visit(gateway, PAGE, cookie=await sign_in(gateway, BEN))
    assert [problem(answer) for answer in answers] == [(409, "NOT_KEPT")] * 2
    assert "stores no grants of users" in page.body.decode()


@pytest.mark.parametrize("changes", [{"environment": "cluster"}, {"trusted_proxies": ("10.0.0.0/8",)}])
async def test_only_a_gateway_of_its_own_machine_takes_anonymous_callers_for_its_owner(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    async with laptop(tmp_path, **changes) as gateway:
        answer = await get(gateway, "/v1/accounts")
        gone = await end_account(gateway, LINEAR)
    assert problem(answer) == (403, "FORBIDDEN")
    assert problem(gone) == (403, "FORBIDDEN")


async def test_the_commands_show_and_end_the_accounts_of_a_laptops_owner(tmp_path: Path) -> None:
    async with laptop(tmp_path) as gateway:
        url = ("--url", f"http://127.0.0.1:{gateway.port}/mcp")
        shown = await fairlead("accounts", *url)
        unknown = await fairlead("logout", "nothing", *url)
        of_linear = await fairlead("logout", "linear", *url)
        rest = await fairlead("logout", "--json", *url)
        nothing = [await fairlead(command, *url) for command in ("accounts", "logout")]

    heading, *rows = shown[1].splitlines()
    assert heading.split() == ["SERVER", "PROVIDER", "SINCE", "UNTIL", "SCOPES"]
    assert [row.split()[:6] for row in rows] == [
        [server, "https://as.example.com", "2026-11-18T11:06:40Z", "2027-05-17T11:06:40Z", "if", "unused"]
        for server in (LINEAR, SENTRY)
    ]
    assert unknown[0] == 2
    assert "you have no account at nothing: you have accounts at default/linear, default/sentry" in unknown[2]
    assert of_linear[0] == 0
    assert of_linear[1].startswith(
        "default/linear: signed out; https://as.example.com did not revoke the grant: end it"
    )
    assert [account["account"]["server"] for account in json.loads(rest[1])] == [SENTRY]
    assert [each[:2] for each in nothing] == [(0, "you have not signed in at a server\n")] * 2


async def test_the_page_of_accounts_says_which_account_is_a_key(tmp_path: Path) -> None:
    async with gateway_with_keys(tmp_path) as gateway:
        assert gateway.grants is not None
        key = StoredGrant(issuer="", client_id="", refresh_token="", holder="ben", user_key="secret-key")
        await gateway.grants.write(GrantKey(b"key:ben", SENTRY), key)
        page = await visit(gateway, PAGE, cookie=await sign_in(gateway, BEN))
    assert page.body.decode().count('data-label="Provider">(a key)</td>') == 1
    assert page.body.decode().count('data-label="Provider">https://as.example.com</td>') == 1


async def test_the_page_of_accounts_ends_an_account(tmp_path: Path) -> None:
    async with gateway_with_keys(tmp_path) as gateway:
        cookie = await sign_in(gateway, ANN)
        page = await visit(gateway, PAGE, cookie=cookie)
        form = {"csrf": csrf_of(page), "server": SENTRY, "person": "key:ben"}
        stolen = await post_form(gateway, f"{PAGE}/end", cookie, **{**form, "csrf": "another"})
        done = await post_form(gateway, f"{PAGE}/end", cookie, **form)
        after = await visit(gateway, done.headers["location"], cookie=cookie)
        of_ben = await visit(gateway, PAGE, cookie=await sign_in(gateway, BEN))

    text = page.body.decode()
    assert "Who signed in at which server" in text
    assert "End the account at default/sentry of ben" in text
    assert "secret-refresh" not in text
    assert stolen.status == 403
    assert (done.status, done.headers["location"]) == (303, f"{PAGE}?ended=forgotten")
    assert "The provider did not confirm" in after.body.decode()
    assert "End the account at default/sentry" not in after.body.decode()
    assert "End the account at default/linear" in of_ben.body.decode()
    assert "ann" not in of_ben.body.decode().partition("<main")[2]
