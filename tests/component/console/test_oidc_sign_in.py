"""Signing in to the console by an OpenID provider, as it should go, and all that should not get anybody in."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from joserfc.jwk import OctKey, RSAKey

from fairlead_console.session_cookie import CookieSealer
from oidcprovider import CLIENT, BareBrowser, OidcProvider, Page, altered, parameters, providing, signing_in

SERVERS = "/console/servers"
KEY = "key of the sessions"


def has_session(browser: BareBrowser) -> bool:
    """Whether the browser keeps a session's cookie."""
    return any("_oidc_" not in name for name in browser.cookies)


def let_end(browser: BareBrowser) -> None:
    """Have the credential of the browser's session be over, of a gateway whose session key is KEY."""
    sealer = CookieSealer(KEY.encode())
    session = sealer.session(f"{sealer.name}={browser.cookies[sealer.name]}")
    assert session is not None
    assert session.expires_at <= time.time() + 330, "a session ends with its token"
    over = msgspec.structs.replace(session, expires_at=int(time.time()) - 1)
    browser.cookies[sealer.name] = sealer.seal(over, sealer.name)


async def nobody_is_in(browser: BareBrowser, answer: Page) -> bool:
    """Whether an answer said why, and left no session."""
    return 'role="alert"' in answer.text and not has_session(browser) and (await browser.get(SERVERS)).status == 303


async def test_the_whole_way_in(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        first = await browser.get(SERVERS)
        form = await browser.get(first.location)
        asked = await browser.begin()
        back = await browser.come_back(asked)
        leads_on = await browser.get(back)
        page = await browser.get(SERVERS)

    host = provider.url.removeprefix("http://")
    assert f"Sign in with {host}" in form.text
    assert "/console/sign-in/oidc?next=/console/servers" in form.text
    told, fields = parameters(asked), provider.exchanged[0]
    assert {name: told[name] for name in ("client_id", "scope", "response_type", "code_challenge_method")} == {
        "client_id": CLIENT, "scope": "openid", "response_type": "code", "code_challenge_method": "S256",
    }  # fmt: skip
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

    (way,), (ended, session) = begun.cookies, done.cookies
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
            assert await nobody_is_in(browser, answer)
    assert answer.status == 403
    assert "access token: the token is for another audience; ID token: the token is for another audience" in answer.text
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
        provider.asks, provider.person = change == "gone", "mallory"
        opened = await browser.get(page.location, **{"sec-fetch-mode": "navigate"})
        answer = await browser.get(await browser.come_back(opened.location))
        once_more = await browser.get(page.location, **{"sec-fetch-mode": "navigate"})

        assert answer.status == 401
        assert await nobody_is_in(browser, answer)
        assert once_more.status == 200, "a second try by itself would go round in circles"


async def test_a_session_that_has_ended_can_be_signed_out_of(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider, session_key=KEY) as browser:
        await browser.sign_in()
        csrf = (await browser.get(SERVERS)).text.partition('name="csrf" value="')[2].partition('"')[0]
        let_end(browser)
        answer = await browser.post("/console/sign-out", csrf=csrf)

        assert answer.status == 200
        assert not has_session(browser)


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
    assert not has_session(browser)


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
        first, second = await browser.begin("/console/tools"), await browser.begin("/console/tiers")
        later = await browser.get(await browser.come_back(second))
        earlier = await browser.get(await browser.come_back(first))
        ways = [await browser.begin() for _ in range(12)]
        kept = [name for name in browser.cookies if "_oidc_" in name]
        given_up = await browser.get(await browser.come_back(ways[0]))
        last = await browser.get(await browser.come_back(ways[-1]))

    assert "url=/console/tools" in earlier.text
    assert "url=/console/tiers" in later.text
    assert len(kept) == 5
    assert (given_up.status, last.status) == (400, 200)


@pytest.mark.parametrize(
    "place",
    ["https://evil.example/", "//evil.example/console/", "/console/../x", "/console/\\evil", "javascript:alert(1)",
     "/console/sign-in/oidc", "/console/sign-out", "/console/☃", "/console/" + "x" * 600, "/other"],
)  # fmt: skip
async def test_the_way_leads_to_no_other_place(tmp_path: Path, place: str) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        assert 'content="0; url=/console/"' in (await browser.sign_in(place)).text


REDIRECTS: dict[str, dict[str, str | None]] = {
    "another state": {"state": "guessed"},
    "no state": {"state": None},
    "another issuer": {"iss": "https://evil.example"},
    "no issuer from one that names itself": {"iss": None},
    "no code": {"code": None},
    "another code": {"code": "guessed"},
    "a code without end": {"code": "x" * 5000},
}


@pytest.mark.parametrize("change", REDIRECTS)
async def test_redirects_that_do_not_fit_are_refused(tmp_path: Path, change: str) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        back = await browser.come_back(await browser.begin())
        answer = await browser.get(altered(back, **REDIRECTS[change]))

        assert answer.status in (400, 502)
        assert await nobody_is_in(browser, answer)
    assert len(provider.exchanged) == (change == "another code")


async def test_a_parameter_that_comes_twice_is_refused(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        back = await browser.come_back(await browser.begin())
        answer = await browser.get(f"{back}&code=another")

        assert answer.status == 400
        assert await nobody_is_in(browser, answer)


async def test_a_redirect_is_taken_once(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        back = await browser.come_back(await browser.begin())
        stolen = dict(browser.cookies)
        await browser.get(back)
        again = await browser.get(back)
        thief = BareBrowser(browser.base, stolen)
        answer = await thief.get(back)

        assert again.status == 400
        assert "was used already" in again.text
        assert await nobody_is_in(thief, answer), "the provider takes a code once"


async def test_a_redirect_is_of_no_use_in_another_browser(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        back = await browser.come_back(await browser.begin())
        victim = BareBrowser(browser.base)
        answer = await victim.get(back)
        await victim.begin()
        mixed = await victim.get(back)

        assert await nobody_is_in(victim, answer)
        assert await nobody_is_in(victim, mixed)
    assert provider.exchanged == []


async def test_a_cookie_sealed_by_another_key_or_for_another_purpose_is_none(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with (
        providing() as provider,
        signing_in(tmp_path, provider, session_key="ours") as browser,
        signing_in(tmp_path / "other", provider, session_key="another") as other,
    ):
        back = await browser.come_back(await browser.begin())
        (ours,) = browser.cookies
        await other.begin()
        (theirs,) = other.cookies.values()
        answers = []
        for value in (theirs, "A" + browser.cookies[ours][1:], "", "!"):
            thief = BareBrowser(browser.base, {ours: value})
            answers.append((await thief.get(back)).status)
        as_session = BareBrowser(browser.base, {ours.partition("_oidc_")[0]: browser.cookies[ours]})
        shut = await as_session.get(SERVERS)

    assert answers == [400] * 4
    assert shut.status == 303


def signed_by_secret(provider: OidcProvider) -> Callable[[dict[str, Any]], str]:
    """HS256 with what everybody knows: the provider's public key."""
    public = json.dumps(provider.keys[0].as_dict(private=False)).encode()
    return lambda claims: provider.token(key=OctKey.import_key(public), **claims)


def unsigned(claims: dict[str, Any]) -> str:
    """By `alg: none`."""
    parts = [json.dumps(part).encode() for part in ({"alg": "none", "typ": "JWT"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def signed_by_another(provider: OidcProvider) -> Callable[[dict[str, Any]], str]:
    """By a key that only claims to be the provider's."""
    key = RSAKey.generate_key(2048, {"kid": "first"})
    return lambda claims: provider.token(key=key, **claims)


CLAIMS: dict[str, dict[str, Any]] = {
    "another nonce": {"nonce": "guessed"},
    "no nonce": {"nonce": None},
    "a nonce that is no text": {"nonce": ["x"]},
    "another client": {"aud": "other"},
    "no audience": {"aud": None},
    "issued to another of its audiences": {"aud": [CLIENT, "other"], "azp": "other"},
    "several audiences and no party": {"aud": [CLIENT, "other"], "azp": None},
    "another issuer": {"iss": "https://evil.example"},
    "expired": {"exp": int(time.time()) - 120},
    "no end": {"exp": None},
    "issued in the future": {"iat": int(time.time()) + 600},
    "nobody's": {"sub": None},
}


@pytest.mark.parametrize("deceit", [*CLAIMS, "alg none", "HS256", "another key", "no token"])
async def test_id_tokens_that_do_not_fit_are_refused(tmp_path: Path, deceit: str) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        provider.id_claims = CLAIMS.get(deceit, {})
        provider.sign_id = {
            "alg none": unsigned,
            "HS256": signed_by_secret(provider),
            "another key": signed_by_another(provider),
            "no token": lambda _: "nothing",
        }.get(deceit)
        answer = await browser.sign_in()

        assert answer.status == 400
        assert await nobody_is_in(browser, answer)
    assert len(provider.exchanged) == 1


async def test_a_code_is_of_no_use_without_its_verifier(tmp_path: Path) -> None:
    """Somebody who got hold of a code, with a way of their own begun in their own browser."""
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        stolen = parameters(await browser.come_back(await browser.begin()))["code"]
        thief = BareBrowser(browser.base)
        own = await thief.come_back(await thief.begin())
        answer = await thief.get(altered(own, code=stolen))

        assert answer.status == 502
        assert "did not sign you in: invalid_grant" in answer.text
        assert await nobody_is_in(thief, answer)


async def test_words_of_the_provider_are_text_and_few(tmp_path: Path) -> None:
    hostile = '<img src=x onerror="alert(1)">' + "\x00\u202e" + "long " * 500
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        provider.redirect = {"error": "access_denied", "error_description": hostile, "code": None}
        answer = await browser.sign_in()
        provider.redirect["error"] = hostile
        other = await browser.sign_in()
        unasked = await browser.get("/console/sign-in/oidc/callback?error=access_denied&error_description=send+money")

        assert await nobody_is_in(browser, answer)
    assert "ask its administrator" in answer.text
    assert "&lt;img src=x" in answer.text
    for page in (answer, other):
        assert "<img src=x" not in page.text
        assert "\u202e" not in page.text
        assert page.text.count("long") < 60
    assert "send money" not in unasked.text


async def test_a_provider_that_is_down_is_said_to_be(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        provider.away = True
        answer = await browser.get("/console/sign-in/oidc")
        again = await browser.get("/console/sign-in/oidc")

    assert (answer.status, again.status) == (503, 503)
    assert "does not answer as it should" in answer.text
    assert 'name="key"' in answer.text


async def test_a_provider_that_fails_on_the_way_back_is_said_to_have(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        back = await browser.come_back(await browser.begin())
        provider.away = True
        answer = await browser.get(back)

        assert answer.status == 503
        assert await nobody_is_in(browser, answer)


METADATA: dict[str, dict[str, Any]] = {
    "another issuer": {"issuer": "https://evil.example"},
    "an authorization endpoint without TLS": {"authorization_endpoint": "http://192.0.2.1/authorize"},
    "a token endpoint without TLS": {"token_endpoint": "http://192.0.2.1/token"},
    "an end without TLS": {"end_session_endpoint": "http://192.0.2.1/logout"},
    "two lines": {"authorization_endpoint": "https://login.example.com/\r\nx: y"},
    "a script": {"authorization_endpoint": "javascript:alert(1)"},
    "no PKCE by S256": {"code_challenge_methods_supported": ["plain"]},
    "no token endpoint": {"token_endpoint": None},
}


@pytest.mark.parametrize("deceit", METADATA)
async def test_metadata_that_leads_elsewhere_is_not_followed(tmp_path: Path, deceit: str) -> None:
    async with providing() as provider, signing_in(tmp_path, provider, jwks_uri=True) as browser:
        provider.metadata |= METADATA[deceit]
        answer = await browser.get("/console/sign-in/oidc")

    assert (answer.status, answer.location) == (503, "")


@pytest.mark.parametrize("where", ["metadata", "tokens"])
async def test_answers_without_end_are_not_read(tmp_path: Path, where: str) -> None:
    async with providing() as provider, signing_in(tmp_path, provider, jwks_uri=True) as browser:
        back = "/console/sign-in/oidc" if where == "metadata" else await browser.come_back(await browser.begin())
        provider.padding = 4 << 20
        answer = await browser.get(back)

        assert answer.status == 503
        assert not has_session(browser)


async def test_a_token_too_long_for_a_cookie_is_explained(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        provider.access_claims["groups"] = [f"group-{number:04}" for number in range(250)]
        answer = await browser.sign_in()

        assert answer.status == 400
        assert "does not fit into a cookie" in answer.text
        assert "sign in with an API key" in answer.text
        assert not has_session(browser)
