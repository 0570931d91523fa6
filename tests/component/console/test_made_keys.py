"""Keys that users create for themselves on the page Connect: shown once, with the rights of their creator, and
revoked."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.async_api import Browser

from consoleworld import (
    beside_the_browser,
    complaints,
    csrf_of,
    emptied,
    open_page,
    post_form,
    sign_in,
    too_wide,
    violations,
    visit,
)
from fairlead_app.authentication import build_trust
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from fairlead_gateway.identity.key_format import encode_keys, new_key
from gatewayworld import Ask, ask, catalog, running
from restworld import get, post, problem
from waiting import until_async

PAGE = "/console/connect"
SHOP = catalog("shop", "http://127.0.0.1:9/mcp", ["buy"])
NOW = datetime.now(UTC)
ANN, ANN_RECORD = new_key("ann", ["staff", "admins"], now=NOW, expires=NOW + timedelta(days=400))
BEN, BEN_RECORD = new_key("ben", ["guests"], now=NOW)
HOSTILE = '"><img src=x onerror=alert(1)>'


@contextlib.asynccontextmanager
async def gateway_with(folder: Path, **changes: Any) -> AsyncIterator[Gateway]:
    """A gateway with a key of Ann, an administrator who may create keys, and a key of Ben, who may not."""
    (folder / "keys.json").write_bytes(encode_keys([ANN_RECORD, BEN_RECORD]))
    settings: dict[str, Any] = {"api_keys": folder / "keys.json", "made_keys": folder / "made.json"}
    settings |= {"key_makers": ("staff",), "admin_groups": ("admins",), **changes}
    async with running(folder, SHOP, trust=build_trust(Settings.of(**settings)), **settings) as gateway:
        yield gateway


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def make_key(gateway: Gateway, name: str = "editor", **more: Any) -> Any:
    """Create a key as Ann, and wait until the gateway accepts it. Returns the answer."""
    answer = await post(gateway, "/v1/keys", {"name": name, **more}, **bearer(ANN))
    assert (answer.status, answer.headers["cache-control"]) == (201, "no-store")
    key = json.loads(answer.body)
    await until_async("the key", lambda: is_taken(gateway, key["key"]))
    return key


async def is_taken(gateway: Gateway, key: str) -> bool:
    return (await get(gateway, "/v1/tools", **bearer(key))).status == 200


async def is_refused(gateway: Gateway, key: str) -> bool:
    return (await get(gateway, "/v1/tools", **bearer(key))).status == 401


async def revoke(gateway: Gateway, ident: str, key: str) -> int:
    answer = await ask(gateway, Ask(verb="DELETE", target=f"/v1/keys/{ident}", body=b"", headers=bearer(key)))
    return answer.status


@beside_the_browser
async def test_a_key_is_made_shown_once_listed_and_revoked(tmp_path: Path, chromium: Browser) -> None:
    async with gateway_with(tmp_path) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, PAGE, width=375)
        problems = complaints(page)
        await page.get_by_label("API key or bearer token").fill(ANN)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_label("Name").fill("editor on my laptop")
        await page.get_by_role("button", name="Make a key").click()
        key = await page.get_by_label("The key").inner_text()
        wide = await too_wide(page)
        broken = await violations(page)
        await until_async("the key", lambda: is_taken(gateway, key))
        await page.goto(f"http://127.0.0.1:{gateway.port}{PAGE}")
        text = await page.locator("main").inner_text()
        await page.get_by_role("button", name="Revoke editor on my laptop").click()
        await page.get_by_text("The key is revoked: within a second").wait_for()
        await until_async("the end", lambda: is_refused(gateway, key))

    stored = (tmp_path / "made.json").read_text()
    assert re.fullmatch(r"flk_[0-9a-f]{12}_[\w-]{43}", key)
    assert key not in text
    assert key[:17] in text
    assert (wide, broken, problems) == (False, [], [])
    assert key not in stored
    assert (tmp_path / "made.json").stat().st_mode & 0o077 == 0


async def test_a_made_key_is_its_maker_but_administers_nothing_and_makes_no_keys(tmp_path: Path) -> None:
    async with gateway_with(tmp_path) as gateway:
        key = (await make_key(gateway))["key"]
        seen = gateway.endpoint.identities.recall(f"Bearer {key}".encode())
        ann = gateway.endpoint.identities.recall(f"Bearer {ANN}".encode())
        logs = await get(gateway, "/v1/access?agent=ben&tool=shop__buy", **bearer(key))
        again = await post(gateway, "/v1/keys", {"name": "more"}, **bearer(key))
        listed = await get(gateway, "/v1/keys", **bearer(key))

    for name in ("principal", "agent", "groups", "issuers", "claims", "scopes", "doubtful"):
        assert getattr(seen, name) == getattr(ann, name)
    assert problem(logs) == (403, "FORBIDDEN")
    assert problem(again) == (403, "FORBIDDEN")
    assert problem(listed) == (403, "FORBIDDEN")


async def test_a_made_key_ends_with_the_key_that_made_it(tmp_path: Path) -> None:
    async with gateway_with(tmp_path) as gateway:
        key = (await make_key(gateway))["key"]
        (tmp_path / "keys.json").write_bytes(encode_keys([BEN_RECORD]))
        await until_async("the end", lambda: is_refused(gateway, key))


async def test_principals_without_the_right_make_no_keys(tmp_path: Path) -> None:
    async with gateway_with(tmp_path) as gateway:
        answer = await post(gateway, "/v1/keys", {"name": "mine"}, **bearer(BEN))
        page = await visit(gateway, PAGE, cookie=await sign_in(gateway, BEN))

    assert problem(answer) == (403, "FORBIDDEN")
    assert "Make a key" not in page.body.decode()


async def test_keys_cannot_be_made_where_no_key_makers_are_set(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, key_makers=()) as gateway:
        answer = await post(gateway, "/v1/keys", {"name": "mine"}, **bearer(ANN))
        page = await visit(gateway, PAGE, cookie=await sign_in(gateway, ANN))

    assert problem(answer) == (403, "FORBIDDEN")
    assert "Make a key" not in page.body.decode()
    assert not (tmp_path / "made.json").exists()


async def test_keys_have_bounds(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, made_keys_each=2, made_key_days=30) as gateway:
        wrong = [
            await post(gateway, "/v1/keys", body, **bearer(ANN))
            for body in (
                {"name": ""},
                {"name": "x" * 65},
                {"name": "a\nb"},
                {"name": "long", "days": 31},
                {"name": "none", "days": 0},
            )
        ]
        for name in ("one", "two"):
            await make_key(gateway, name)
        third = await post(gateway, "/v1/keys", {"name": "three"}, **bearer(ANN))

    assert {problem(answer) for answer in [*wrong, third]} == {(409, "REFUSED")}


async def test_keys_of_other_principals_are_for_administrators_alone(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    settings = {"key_makers": ("*",), "audit": "denials", "audit_file": audit}
    async with gateway_with(tmp_path, **settings) as gateway:
        anns = (await make_key(gateway))["facts"]["id"]
        bens = json.loads((await post(gateway, "/v1/keys", {"name": "b"}, **bearer(BEN))).body)["facts"]["id"]
        ben = json.loads((await get(gateway, "/v1/keys", **bearer(BEN))).body)
        all_by_ben = await get(gateway, "/v1/keys?everybody=true", **bearer(BEN))
        all_by_ann = json.loads((await get(gateway, "/v1/keys?everybody=true", **bearer(ANN))).body)
        outcomes = [await revoke(gateway, anns, BEN), await revoke(gateway, bens, ANN)]

    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [key["id"] for key in ben["keys"]] == [bens]
    assert problem(all_by_ben) == (403, "FORBIDDEN")
    assert [key["id"] for key in all_by_ann["keys"]] == [anns, bens]
    assert outcomes == [404, 200]
    changes = [(line["agent"], line["method"], line["name"]) for line in lines if line["event"] == "admin"]
    assert changes == [("ann", "keys/create", anns), ("ben", "keys/create", bens), ("ann", "keys/revoke", bens)]


async def test_forms_without_the_token_of_the_session_make_and_revoke_nothing(tmp_path: Path) -> None:
    async with gateway_with(tmp_path) as gateway:
        cookie = await sign_in(gateway, ANN)
        page = await visit(gateway, PAGE, cookie=cookie)
        forged = await post_form(gateway, f"{PAGE}/keys", cookie, csrf="x", name="n", days="1")
        hostile = await post_form(gateway, f"{PAGE}/keys", cookie, csrf=csrf_of(page), name=HOSTILE, days="1")
        ident = re.search(r"flk_([0-9a-f]{12})_", hostile.body.decode())
        assert ident is not None
        gone = await post_form(gateway, f"{PAGE}/keys/revoke", cookie, csrf="x", id=ident[1])
        left = json.loads((await get(gateway, "/v1/keys", **bearer(ANN))).body)

    assert (forged.status, hostile.status, gone.status) == (403, 200, 403)
    assert HOSTILE not in hostile.body.decode()
    assert [key["name"] for key in left["keys"]] == [HOSTILE]
