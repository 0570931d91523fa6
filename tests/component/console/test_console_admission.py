"""Access to the console, and the protection of its sessions and forms."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from consoleworld import BROKEN, cookie_of, csrf_of, post_form, visit
from fairlead_app.authentication import Trust
from fairlead_console.session_cookie import ConsoleSession, CookieSealer
from fairlead_console.sign_in_form import safe_return_path
from fixed_authenticator import Names
from gatewayworld import Ask, ask, catalog, running

SHOP = catalog("shop", "http://127.0.0.1:9/mcp", ["buy"])
KEYS = Trust((Names("npc"),))


async def test_a_browser_at_the_root_is_sent_to_the_console_and_a_program_is_not(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP) as gateway:
        browser = await visit(gateway, "/")
        program = await visit(gateway, "/", accept="application/json")

    assert (browser.status, browser.headers["location"]) == (303, "/console/")
    assert program.status == 404


async def test_every_answer_forbids_scripts_frames_and_types_of_others(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, BROKEN) as gateway:
        page = await visit(gateway, "/console/servers")
        missing = await visit(gateway, "/console/nothing")
        sign_in = await visit(gateway, "/console/sign-in")

    for answer in (page, missing, sign_in):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
    assert (page.status, missing.status) == (200, 404)


async def test_static_files_are_kept_for_good_and_named_by_their_content(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP) as gateway:
        page = await visit(gateway, "/console/servers")
        urls = sorted(set(re.findall(r'"(/console/static/[^"]+)"', page.body.decode())))
        files = [await visit(gateway, url, **{"accept-encoding": "gzip"}) for url in urls]
        other = await visit(gateway, "/console/static/console.0000.js")

    assert sorted(url.rpartition(".")[2] for url in urls) == ["css", "js", "svg"]
    assert {file.headers["cache-control"] for file in files} == {"public, max-age=31536000, immutable"}
    assert {file.headers["content-encoding"] for file in files} == {"gzip"}
    assert other.status == 404


async def test_a_page_that_a_browser_opens_has_its_style_and_one_that_refreshes_itself_has_not(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP) as gateway:
        opens = await visit(gateway, "/console/servers", **{"sec-fetch-dest": "document"})
        refreshes = await visit(gateway, "/console/servers", **{"sec-fetch-dest": "empty"})
        (style,) = re.findall(r"<style>(.*?)</style>", opens.body.decode(), re.DOTALL)
        (url,) = re.findall(r'"(/console/static/[^"]+\.css)"', refreshes.body.decode())
        sheet = await visit(gateway, url)

    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert style == sheet.body.decode()
    assert f"style-src 'self' 'sha256-{digest}';" in opens.headers["content-security-policy"]
    assert ".css" not in opens.body.decode().replace(style, "")
    assert "<style" not in refreshes.body.decode()


async def test_the_console_is_off_by_one_setting(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, console=False) as gateway:
        answers = [await visit(gateway, path) for path in ("/", "/console/", "/console/servers")]

    assert [answer.status for answer in answers] == [404, 404, 404]


async def test_without_a_session_one_is_asked_to_sign_in(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, trust=KEYS) as gateway:
        answer = await visit(gateway, "/console/servers")
        stream = await visit(gateway, "/console/events")
        form = await visit(gateway, answer.headers["location"])

    assert (answer.status, answer.headers["location"]) == (303, "/console/sign-in?next=%2Fconsole%2Fservers")
    assert stream.status == 303
    assert 'name="next" value="/console/servers"' in form.body.decode()


async def test_a_key_becomes_a_session_that_no_script_can_read(tmp_path: Path) -> None:
    key = "non-player-character"  # a short one is in the cookie by chance, once in thousands of runs
    async with running(tmp_path, SHOP, trust=Trust((Names(key),))) as gateway:
        answer = await post_form(gateway, "/console/sign-in", key=key, next="/console/servers")
        page = await visit(gateway, "/console/servers", cookie=cookie_of(answer))

    assert (answer.status, answer.headers["location"]) == (303, "/console/servers")
    attributes = set(answer.headers["set-cookie"].split("; ")[1:])
    assert attributes == {"Path=/console", "Max-Age=28800", "HttpOnly", "SameSite=Strict"}
    assert key not in answer.headers["set-cookie"]
    assert page.status == 200
    assert f">{key}<" in page.body.decode()


async def test_a_printed_token_does_not_stand_for_the_key_that_a_gateway_asks_for(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, trust=KEYS, console_token="s3cret") as gateway:
        opened = await visit(gateway, "/console/?token=s3cret")
        form = await visit(gateway, opened.headers["location"])
        entered = await post_form(gateway, "/console/sign-in", key="npc", next="/console/servers")
        page = await visit(gateway, "/console/servers", cookie=cookie_of(entered))

    assert (opened.status, opened.headers["location"]) == (303, "/console/sign-in")
    assert "set-cookie" not in opened.headers
    assert "fairlead up" not in form.body.decode(), "it would lead back to the address that led here"
    assert page.status == 200


async def test_the_console_opens_without_a_key_where_anonymous_callers_are_served(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, trust=KEYS, anonymous="allow") as gateway:
        form = await visit(gateway, "/console/sign-in?next=/console/tools")
        entered = await post_form(gateway, "/console/sign-in", next="/console/tools", anonymous="yes")
        page = await visit(gateway, entered.headers["location"], cookie=cookie_of(entered))

    assert "Continue without signing in" in form.body.decode()
    assert (entered.status, entered.headers["location"]) == (303, "/console/tools")
    assert page.status == 200
    assert 'href="/console/sign-in?next=/console/tools"' in page.body.decode()


async def test_the_console_needs_a_key_where_anonymous_callers_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, trust=KEYS, anonymous="deny") as gateway:
        form = await visit(gateway, "/console/sign-in")
        entered = await post_form(gateway, "/console/sign-in", anonymous="yes")

    assert "Continue without" not in form.body.decode()
    assert entered.status == 400
    assert "set-cookie" not in entered.headers


async def test_a_wrong_key_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, trust=KEYS) as gateway:
        wrong, none = [await post_form(gateway, "/console/sign-in", key=key) for key in ("bad-key", " ")]

    assert (wrong.status, none.status) == (401, 400)
    assert 'role="alert"' in wrong.body.decode()
    assert "bad-key" not in wrong.body.decode()
    assert "set-cookie" not in wrong.headers


async def test_a_session_ends_with_its_key(tmp_path: Path) -> None:
    keys = Names("npc")
    async with running(tmp_path, SHOP, trust=Trust((keys,))) as gateway:
        cookie = cookie_of(await post_form(gateway, "/console/sign-in", key="npc"))
        before = await visit(gateway, "/console/servers", cookie=cookie)
        keys.revoke("npc")
        after = await visit(gateway, "/console/servers", cookie=cookie)

    assert (before.status, after.status) == (200, 303)


async def test_a_form_without_the_token_of_its_session_changes_nothing(tmp_path: Path) -> None:
    target = "/console/servers/default/shop/refresh"
    async with running(tmp_path, SHOP, trust=KEYS) as gateway:
        cookie = cookie_of(await post_form(gateway, "/console/sign-in", key="npc"))
        page = await visit(gateway, "/console/servers/default/shop", cookie=cookie)
        forged = [await post_form(gateway, target, cookie, csrf=token) for token in ("", "x", "é")]
        own = await post_form(gateway, target, cookie, csrf=csrf_of(page))

    assert [answer.status for answer in forged] == [403, 403, 403]
    assert (own.status, own.headers["location"]) == (303, "/console/servers/default/shop?asked=1")


async def test_forms_of_other_origins_are_refused_and_those_of_its_own_host_are_not(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, trust=KEYS, allowed_hosts=("tools.example",)) as gateway:

        async def sign_in_status(origin: str) -> int:
            fields = urlencode({"key": "npc"}).encode()
            headers = {"host": "tools.example", "origin": origin, "content-type": "application/x-www-form-urlencoded"}
            return (await ask(gateway, Ask(target="/console/sign-in", body=fields, headers=headers))).status

        assert await sign_in_status("https://tools.example") == 303
        assert await sign_in_status("https://evil.example") == 403
        assert await sign_in_status("null") == 403


async def test_the_printed_token_opens_the_console_on_this_machine_and_leaves_the_address(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, console_token="s3cret") as gateway:
        shut = await visit(gateway, "/console/servers")
        wrong = await visit(gateway, "/console/?token=guess")
        answer = await visit(gateway, "/console/?token=s3cret")
        page = await visit(gateway, "/console/servers", cookie=cookie_of(answer))
        proxied = await visit(gateway, "/console/servers", cookie=cookie_of(answer), **{"x-forwarded-for": "192.0.2.7"})

    assert (shut.status, wrong.status) == (303, 303)
    assert wrong.headers["location"] == "/console/sign-in"
    assert "set-cookie" not in wrong.headers
    assert (answer.status, answer.headers["location"]) == (303, "/console/")
    assert page.status == 200
    assert proxied.status == 403


async def test_signing_out_ends_the_session_in_the_browser(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, trust=KEYS) as gateway:
        cookie = cookie_of(await post_form(gateway, "/console/sign-in", key="npc"))
        page = await visit(gateway, "/console/servers", cookie=cookie)
        answer = await post_form(gateway, "/console/sign-out", cookie, csrf=csrf_of(page))

    assert answer.headers["location"] == "/console/sign-in"
    assert "Max-Age=0" in answer.headers["set-cookie"]


def test_replicas_with_one_key_open_each_others_sessions_and_no_others() -> None:
    ours = CookieSealer(b"key")
    same = CookieSealer(b"key")
    other = CookieSealer(b"another")
    session = ours.begin("token")
    cookie = ours.header(session, secure=True).partition(";")[0]

    assert same.session(cookie) == session
    assert other.session(cookie.replace(ours.name, other.name)) is None
    assert ours.header(session, secure=True).endswith("; Secure")


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value[:-2],
        lambda value: ("B" if value[0] == "A" else "A") + value[1:],
        lambda _: "!",
        lambda _: "",
    ],
)
def test_a_changed_cookie_opens_no_session(change: object) -> None:
    sealer = CookieSealer(b"key")
    value = sealer.seal(sealer.begin(), sealer.name)

    assert callable(change)
    assert sealer.session(f"{sealer.name}={change(value)}") is None


def test_a_session_ends_by_itself() -> None:
    now = [1000.0]
    sealer = CookieSealer(b"key", lambda: now[0])
    cookie = sealer.header(sealer.begin(), secure=False).partition(";")[0]
    now[0] += 8 * 3600 - 1
    assert isinstance(sealer.session(cookie), ConsoleSession)
    now[0] += 1
    assert sealer.session(cookie) is None


@pytest.mark.parametrize(
    "target", ["https://evil.example/console/", "//evil.example/console/", "/console/../v1", "/v1/tools", "\\\\evil"]
)
def test_signing_in_leads_nowhere_but_into_the_console(target: str) -> None:
    assert safe_return_path(target) == "/console/"
