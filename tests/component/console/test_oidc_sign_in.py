"""Signing in to the console through an OpenID provider, the duration of the session, and signing out."""

from __future__ import annotations

import base64
import hashlib
import time
from pathlib import Path

import msgspec
import pytest

from fairlead_console.session_cookie import CookieSealer
from oidcprovider import CLIENT, BareBrowser, is_turned_away, parameters, providing, signing_in

SERVERS = "/console/servers"
KEY = "key of the sessions"


def let_end(browser: BareBrowser) -> None:
    """Make the credential of the browser's session expire. The gateway's session key has to be KEY."""
    sealer = CookieSealer(KEY.encode())
    session = sealer.session(f"{sealer.name}={browser.cookies[sealer.name]}")
    assert session is not None
    assert session.expires_at <= time.time() + 330, "a session ends with its token"
    over = msgspec.structs.replace(session, expires_at=int(time.time()) - 1)
    browser.cookies[sealer.name] = sealer.seal(over, sealer.name)


async def test_the_whole_way_in(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        first = await browser.get(SERVERS)
        form = await browser.get(first.location)
        begun = await browser.begin()
        back = await browser.come_back(begun)
        leads_on = await browser.get(back)
        page = await browser.get(SERVERS)

    host = provider.url.removeprefix("http://")
    assert f"Sign in with {host}" in form.text
    assert "/console/sign-in/oidc?next=/console/servers" in form.text
    told = parameters(begun)
    fields = provider.exchanged[0]
    assert {name: told[name] for name in ("client_id", "scope", "response_type", "code_challenge_method")} == {
        "client_id": CLIENT,
        "scope": "openid",
        "response_type": "code",
        "code_challenge_method": "S256",
    }
    assert told["resource"] == browser.base
    digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
    assert told["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert told["redirect_uri"] == fields["redirect_uri"] == f"{browser.base}/console/sign-in/oidc/callback"
    assert leads_on.status == 200
    assert 'content="0; url=/console/servers"' in leads_on.text
    assert leads_on.headers["referrer-policy"] == "no-referrer"
    assert (page.status, ">alice<" in page.text) == (200, True)


async def test_the_cookie_of_the_way_is_lax_and_short_and_that_of_the_session_is_strict(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        begun = await browser.get("/console/sign-in/oidc")
        done = await browser.get(await browser.come_back(begun.location))

    (way,) = begun.cookies
    ended, session = done.cookies
    assert set(way.split("; ")[1:]) == {"Path=/console/sign-in/oidc", "Max-Age=600", "HttpOnly", "SameSite=Lax"}
    assert "Max-Age=0" in ended
    assert {"Path=/console", "HttpOnly", "SameSite=Strict"} < set(session.split("; ")[1:])
    assert parameters(begun.location)["state"] not in way


async def test_cookies_are_for_https_alone_where_the_console_is_reached_by_it(tmp_path: Path) -> None:
    async with (
        providing() as provider,
        signing_in(tmp_path, provider, console_url="https://tools.example.com") as browser,
    ):
        begun = await browser.get("/console/sign-in/oidc")

    assert parameters(begun.location)["redirect_uri"] == "https://tools.example.com/console/sign-in/oidc/callback"
    assert begun.cookies[0].endswith("; Secure")


@pytest.mark.parametrize("methods", [None, ["client_secret_basic"], ["client_secret_post"]])
async def test_the_client_proves_itself_as_the_provider_wants_it(tmp_path: Path, methods: list[str] | None) -> None:
    async with providing() as provider:
        provider.metadata["token_endpoint_auth_methods_supported"] = methods
        async with signing_in(tmp_path, provider) as browser:
            assert (await browser.sign_in()).status == 200
    assert ("client_secret" in provider.exchanged[0]) is (methods == ["client_secret_post"])


async def test_a_public_client_has_no_secret(tmp_path: Path) -> None:
    async with providing() as provider:
        provider.secret = ""
        async with signing_in(tmp_path, provider) as browser:
            assert (await browser.sign_in()).status == 200


async def test_scopes_that_every_token_must_have_are_asked_for(tmp_path: Path) -> None:
    async with providing() as provider:
        provider.access_claims["scope"] = "openid mcp:tools"
        async with signing_in(tmp_path, provider, scopes=("mcp:tools",), console_scopes=("groups",)) as browser:
            assert (await browser.sign_in()).status == 200
    assert provider.asked_for[0]["scope"] == "openid mcp:tools groups"


async def test_the_id_token_is_the_credential_where_the_access_token_is_opaque(tmp_path: Path) -> None:
    async with providing() as provider:
        provider.access = "opaque"
        async with signing_in(tmp_path, provider, audiences=(CLIENT,)) as browser:
            assert (await browser.sign_in()).status == 200
            assert (await browser.get(SERVERS)).status == 200
    assert "resource" not in provider.asked_for[0]


async def test_tokens_for_somebody_else_are_explained(tmp_path: Path) -> None:
    async with providing() as provider:
        provider.access_claims["aud"] = "account"
        async with signing_in(tmp_path, provider) as browser:
            answer = await browser.sign_in()
            assert await is_turned_away(browser, answer)
    assert answer.status == 403
    assert (
        "access token: the token is for another audience (claim aud); ID token: the token is for another "
        "audience (claim aud)" in answer.text
    )
    assert "`aud` of access tokens of console" in answer.text


async def test_a_session_ends_with_its_token_and_is_renewed_without_a_word(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider, session_key=KEY) as browser:
        await browser.sign_in()
        let_end(browser)
        page = await browser.get(SERVERS)
        fetched = await browser.get(page.location, **{"sec-fetch-mode": "cors"})
        opened = await browser.get(page.location, **{"sec-fetch-mode": "navigate"})
        renewed = await browser.get(await browser.come_back(opened.location))
        again = await browser.get(SERVERS)

    assert (page.status, page.location) == (303, "/console/sign-in?next=%2Fconsole%2Fservers")
    assert (fetched.status, "Sign in with" in fetched.text) == (200, True)
    assert parameters(opened.location)["prompt"] == "none"
    assert (renewed.status, again.status) == (200, 200)
    assert "url=/console/servers" in renewed.text


@pytest.mark.parametrize("change", ["gone", "another"])
async def test_a_session_is_not_renewed_for_somebody_else_or_nobody(tmp_path: Path, change: str) -> None:
    async with providing() as provider, signing_in(tmp_path, provider, session_key=KEY) as browser:
        await browser.sign_in()
        let_end(browser)
        page = await browser.get(SERVERS)
        provider.asks = change == "gone"
        provider.person = "mallory"
        opened = await browser.get(page.location, **{"sec-fetch-mode": "navigate"})
        answer = await browser.get(await browser.come_back(opened.location))
        once_more = await browser.get(page.location, **{"sec-fetch-mode": "navigate"})

        assert answer.status == 401
        assert await is_turned_away(browser, answer)
        assert once_more.status == 200, "a second try by itself would go round in circles"


async def test_a_session_that_has_ended_can_be_signed_out_of(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider, session_key=KEY) as browser:
        await browser.sign_in()
        csrf = (await browser.get(SERVERS)).text.partition('name="csrf" value="')[2].partition('"')[0]
        let_end(browser)
        answer = await browser.post("/console/sign-out", csrf=csrf)

        assert answer.status == 200
        assert not browser.has_session


async def test_signing_out_leads_to_the_provider(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        await browser.sign_in()
        page = await browser.get(SERVERS)
        csrf = page.text.partition('name="csrf" value="')[2].partition('"')[0]
        forged = await browser.post("/console/sign-out", csrf="guess")
        answer = await browser.post("/console/sign-out", csrf=csrf)

    assert forged.status == 403
    assert answer.status == 200
    assert f"0; url={provider.url}/logout?client_id=console&amp;post_logout_redirect_uri=" in answer.text
    assert not browser.has_session


async def test_the_provider_is_told_whose_session_ends_where_the_session_held_its_id_token(tmp_path: Path) -> None:
    hints = []
    async with providing() as provider:
        for provider.access, audiences in (("opaque", (CLIENT,)), (None, ())):
            async with signing_in(tmp_path, provider, audiences=audiences) as browser:
                await browser.sign_in()
                csrf = (await browser.get(SERVERS)).text.partition('name="csrf" value="')[2].partition('"')[0]
                answer = await browser.post("/console/sign-out", csrf=csrf)
                hints.append(parameters(answer.text.partition("0; url=")[2].partition('"')[0].replace("&amp;", "&")))

    assert hints[0]["id_token_hint"].count(".") == 2
    assert "id_token_hint" not in hints[1], "an access token is none"


async def test_signing_out_stays_here_where_the_provider_has_no_place_for_it(tmp_path: Path) -> None:
    async with providing() as provider:
        provider.metadata["end_session_endpoint"] = None
        async with signing_in(tmp_path, provider) as browser:
            await browser.sign_in()
            csrf = (await browser.get(SERVERS)).text.partition('name="csrf" value="')[2].partition('"')[0]
            answer = await browser.post("/console/sign-out", csrf=csrf)
    assert (answer.status, answer.location) == (303, "/console/sign-in")


async def test_several_tabs_sign_in_at_once_and_a_browser_keeps_few_ways(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        first = await browser.begin("/console/tools")
        second = await browser.begin("/console/tiers")
        later = await browser.get(await browser.come_back(second))
        earlier = await browser.get(await browser.come_back(first))
        ways = [await browser.begin() for _ in range(12)]
        pending = [name for name in browser.cookies if "_oidc_" in name]
        cancelled_sign_in = await browser.get(await browser.come_back(ways[0]))
        last = await browser.get(await browser.come_back(ways[-1]))

    assert "url=/console/tools" in earlier.text
    assert "url=/console/tiers" in later.text
    assert len(pending) == 5
    assert (cancelled_sign_in.status, last.status) == (400, 200)


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/console/",
        "/console/../x",
        "/console/\\evil",
        "javascript:alert(1)",
        "/console/sign-in/oidc",
        "/console/sign-out",
        "/console/☃",
        "/console/" + "x" * 600,
        "/other",
    ],
)
async def test_the_way_leads_to_no_other_place(tmp_path: Path, target: str) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        assert 'content="0; url=/console/"' in (await browser.sign_in(target)).text


async def test_a_token_too_long_for_a_cookie_is_explained(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        provider.access_claims["groups"] = [f"group-{number:04}" for number in range(250)]
        answer = await browser.sign_in()

        assert answer.status == 400
        assert "does not fit into a cookie" in answer.text
        assert "sign in with an API key" in answer.text
        assert not browser.has_session
