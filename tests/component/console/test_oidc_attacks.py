"""Attacks on the sign-in by an OpenID provider: attacks by a browser, a thief and a provider fail."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from joserfc.jwk import OctKey, RSAKey

from oidcprovider import (
    CLIENT,
    SECRET,
    BareBrowser,
    OidcProvider,
    alter_url,
    is_turned_away,
    parameters,
    providing,
    signing_in,
)

SERVERS = "/console/servers"

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
        answer = await browser.get(alter_url(back, **REDIRECTS[change]))

        assert answer.status in (400, 502)
        assert await is_turned_away(browser, answer)
    assert len(provider.exchanged) == (change == "another code")


async def test_a_parameter_that_comes_twice_is_refused(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        back = await browser.come_back(await browser.begin())
        answer = await browser.get(f"{back}&code=another")

        assert answer.status == 400
        assert await is_turned_away(browser, answer)


async def test_a_redirect_is_taken_once(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        back = await browser.come_back(await browser.begin())
        stolen = dict(browser.cookies)
        await browser.get(back)
        again = await browser.get(back)
        thief = BareBrowser(browser.base, stolen)
        answer = await thief.get(back)

        assert again.status == 400
        assert "was completed already" in again.text
        assert await is_turned_away(thief, answer), "the provider takes a code once"


async def test_a_redirect_is_of_no_use_in_another_browser(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        back = await browser.come_back(await browser.begin())
        victim = BareBrowser(browser.base)
        answer = await victim.get(back)
        await victim.begin()
        mixed = await victim.get(back)

        assert await is_turned_away(victim, answer)
        assert await is_turned_away(victim, mixed)
    assert provider.exchanged == []


async def test_a_cookie_sealed_by_another_key_or_for_another_purpose_is_refused(tmp_path: Path) -> None:
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
        sealed = browser.cookies[ours]
        altered = ("B" if sealed[0] == "A" else "A") + sealed[1:]
        answers = []
        for value in (theirs, altered, "", "!"):
            thief = BareBrowser(browser.base, {ours: value})
            answers.append((await thief.get(back)).status)
        as_session = BareBrowser(browser.base, {ours.partition("_oidc_")[0]: sealed})
        shut = await as_session.get(SERVERS)

    assert answers == [400] * 4
    assert shut.status == 303


def sign_with_public_key(provider: OidcProvider) -> Callable[[dict[str, Any]], str]:
    """Token signed by HS256 with the provider's public key, which everybody knows."""
    public = json.dumps(provider.keys[0].as_dict(private=False)).encode()
    return lambda claims: provider.token(key=OctKey.import_key(public), **claims)


def unsigned_token(claims: dict[str, Any]) -> str:
    """Token with `alg: none`."""
    parts = [json.dumps(part).encode() for part in ({"alg": "none", "typ": "JWT"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def sign_with_other_key(provider: OidcProvider) -> Callable[[dict[str, Any]], str]:
    """Token signed with another key under the provider's key id."""
    key = RSAKey.generate_key(2048, {"kid": "first"})
    return lambda claims: provider.token(key=key, **claims)


CLAIMS: dict[str, dict[str, Any]] = {
    "another nonce": {"nonce": "guessed"},
    "no nonce": {"nonce": None},
    "a nonce that is not a text": {"nonce": ["x"]},
    "another client": {"aud": "other"},
    "no audience": {"aud": None},
    "issued to another of its audiences": {"aud": [CLIENT, "other"], "azp": "other"},
    "several audiences and no party": {"aud": [CLIENT, "other"], "azp": None},
    "another issuer": {"iss": "https://evil.example"},
    "expired": {"exp": int(time.time()) - 120},
    "no end": {"exp": None},
    "issued in the future": {"iat": int(time.time()) + 86_400},
    "nobody's": {"sub": None},
}


@pytest.mark.parametrize("deceit", [*CLAIMS, "alg none", "HS256", "another key", "no token"])
async def test_id_tokens_that_do_not_fit_are_refused(tmp_path: Path, deceit: str) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        provider.id_claims = CLAIMS.get(deceit, {})
        provider.sign_id = {
            "alg none": unsigned_token,
            "HS256": sign_with_public_key(provider),
            "another key": sign_with_other_key(provider),
            "no token": lambda _: "nothing",
        }.get(deceit)
        answer = await browser.sign_in()

        assert answer.status == 400
        assert await is_turned_away(browser, answer)
    assert len(provider.exchanged) == 1


async def test_a_code_is_of_no_use_without_its_verifier(tmp_path: Path) -> None:
    """A thief with a stolen code uses it in a sign-in that began in the thief's own browser."""
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        stolen = parameters(await browser.come_back(await browser.begin()))["code"]
        thief = BareBrowser(browser.base)
        own = await thief.come_back(await thief.begin())
        answer = await thief.get(alter_url(own, code=stolen))

        assert answer.status == 502
        assert "did not sign you in: invalid_grant" in answer.text
        assert await is_turned_away(thief, answer)


async def test_words_of_the_provider_are_text_and_few(tmp_path: Path) -> None:
    hostile = '<img src=x onerror="alert(1)">' + "\x00\u202e" + "long " * 500
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        provider.redirect = {"error": "access_denied", "error_description": hostile, "code": None}
        answer = await browser.sign_in()
        provider.redirect["error"] = hostile
        other = await browser.sign_in()
        unasked = await browser.get("/console/sign-in/oidc/callback?error=access_denied&error_description=send+money")

        assert await is_turned_away(browser, answer)
    assert "ask its administrator" in answer.text
    assert "&lt;img src=x" in answer.text
    for page in (answer, other):
        assert "<img src=x" not in page.text
        assert "\u202e" not in page.text
        assert page.text.count("long") < 60
    assert "send money" not in unasked.text


async def test_a_provider_that_quotes_the_request_tells_nobody_the_clients_secret(tmp_path: Path) -> None:
    async with providing() as provider:
        provider.quotes = 1
        async with signing_in(tmp_path, provider) as browser:
            answer = await browser.sign_in()
            assert await is_turned_away(browser, answer)

    pair = base64.b64encode(f"{CLIENT}:{quote_plus(SECRET)}".encode()).decode()
    assert "[credential]" in answer.text
    assert not [written for written in (SECRET, quote_plus(SECRET), pair) if written in unescape(answer.text)]


async def test_a_provider_that_is_down_is_said_to_be(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        provider.away = True
        answer = await browser.get("/console/sign-in/oidc")
        again = await browser.get("/console/sign-in/oidc")

    assert (answer.status, again.status) == (503, 503)
    assert "sends no valid answers" in answer.text
    assert 'name="key"' in answer.text


async def test_a_provider_that_fails_on_the_way_back_is_said_to_have(tmp_path: Path) -> None:
    async with providing() as provider, signing_in(tmp_path, provider) as browser:
        back = await browser.come_back(await browser.begin())
        provider.away = True
        answer = await browser.get(back)

        assert answer.status == 503
        assert await is_turned_away(browser, answer)


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
        assert not browser.has_session
