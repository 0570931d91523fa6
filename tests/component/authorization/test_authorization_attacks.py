"""Attacks on sign-ins of clients: by other clients, web pages, providers, and programs on the user's machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from authorizationworld import (
    BACK,
    CLIENT_ID,
    LOCAL_ID,
    OTHER_BACK,
    OTHER_ID,
    SCOPES,
    SECRET_ID,
    Attempt,
    another_browser,
    authorization_world,
    hidden_fields,
    target_of,
    two_providers,
)
from fairlead_authorization.protocol.browser_state import MAX_OPEN
from oidcprovider import BareBrowser, alter_url, parameters

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


async def test_answer_of_another_provider_is_not_taken(tmp_path: Path) -> None:
    """Mix-up (RFC 9207, RFC 9700 section 4.4)."""
    async with authorization_world(tmp_path) as world:
        world.provider.redirect = {"iss": "https://evil.example"}
        page = await world.come_back(await world.authorize(Attempt()))
        assert page.status == 400
        assert not world.provider.exchanged


async def test_answer_of_one_provider_is_not_taken_at_the_address_for_another(tmp_path: Path) -> None:
    async with two_providers(tmp_path) as (world, corp, partner):
        begun = await world.authorize(Attempt(more={"fairlead_provider": "partner"}))
        back = await world.browser.come_back(begun.location)
        assert (await world.browser.get(back.replace("/callback/partner", "/callback/corp"))).status == 403
        assert not corp.exchanged
        assert not partner.exchanged


async def test_id_token_of_another_sign_in_is_not_taken(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        world.provider.id_claims = {"nonce": "of another sign-in"}
        page = await world.come_back(await world.authorize(Attempt()))
        assert page.status == 400
        assert "another sign-in" in page.text


async def test_answer_is_not_taken_in_another_browser(tmp_path: Path) -> None:
    """A victim completes the attacker's sign-in, or the attacker uses the victim's answer."""
    async with authorization_world(tmp_path) as world:
        back = await world.browser.come_back((await world.authorize(Attempt())).location)
        victim = another_browser(world)
        assert (await victim.get(back)).status == 403
        await world.authorize(Attempt(), victim)
        assert (await victim.get(back)).status == 403


async def test_cookie_of_one_sign_in_is_not_taken_for_another(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        first = await world.authorize(Attempt())
        (cookie,) = world.browser.cookies
        value = world.browser.cookies[cookie]
        second = await world.authorize(Attempt())
        (other,) = world.browser.cookies.keys() - {cookie}
        world.browser.cookies[other] = value
        assert (await world.come_back(second)).status == 403
        assert (await world.come_back(first)).status == 200


async def test_code_is_of_no_use_in_a_request_with_another_verifier(tmp_path: Path) -> None:
    """Code injection (RFC 9700 section 4.5)."""
    async with authorization_world(tmp_path) as world:
        stolen = (await world.complete_authorization(Attempt()))["code"]
        own = Attempt()
        status, refusal = await world.redeem(own, stolen)
        assert (status, refusal.get("error")) == (400, "invalid_grant")
        attempt = Attempt()
        code = (await world.complete_authorization(attempt))["code"]
        status, refusal = await world.redeem(attempt, code, code_verifier=None)
        assert (status, refusal.get("error")) == (400, "invalid_request")


async def test_session_whose_code_was_tried_with_another_verifier_has_ended(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        attempt = Attempt()
        code = (await world.complete_authorization(attempt))["code"]
        assert (await world.redeem(Attempt(), code))[0] == 400
        assert (await world.redeem(attempt, code))[1]["error"] == "invalid_grant"


@pytest.mark.parametrize(
    "more",
    [
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge": "short"},
    ],
)
async def test_request_without_pkce_by_s256_is_refused(tmp_path: Path, more: dict[str, str | None]) -> None:
    """PKCE downgrade (RFC 9700 section 4.8.2)."""
    async with authorization_world(tmp_path) as world:
        answer = await world.authorize(Attempt(more=more))
        assert parameters(answer.location).get("error") == "invalid_request"
        assert parameters(answer.location)["iss"] == world.base


@pytest.mark.parametrize(
    "uri",
    [
        "https://desk.example@evil.example/back",
        "https://desk.example.evil.example/back",
        "https://desk.example/back.evil",
        "https://desk.example/back/..",
        "https://desk.example/back#",
        "https://desk.example/back?x=1",
        "https://desk.example:8443/back",
        "https://desk.example/Back",
        "https://desk.example/back/",
        "https://desk.example/%62ack",
        "https://DESK.example/back",
        "http://desk.example/back",
        "https://desk.example\\@evil.example/back",
        OTHER_BACK,
        "",
    ],
)
async def test_answer_goes_to_no_other_redirect_uri(tmp_path: Path, uri: str) -> None:
    """Redirect confusion (RFC 9700 section 4.1): the answer is a page, never a redirect."""
    async with authorization_world(tmp_path) as world:
        page = await world.authorize(Attempt(redirect_uri=uri))
        assert (page.status, page.location) == (400, "")


async def test_loopback_redirect_has_any_port_and_nothing_else(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        assert (await world.authorize(Attempt(LOCAL_ID, "http://127.0.0.1:1234/back"))).status == 303
        for uri in ("http://127.0.0.1:1234/other", "http://localhost:1234/back", "http://127.0.0.1.evil.example/back"):
            assert (await world.authorize(Attempt(LOCAL_ID, uri))).status == 400


async def test_consent_to_one_client_is_none_to_another(tmp_path: Path) -> None:
    """Confused deputy: the provider knows only one client, the gateway, and does not ask the user again."""
    async with authorization_world(tmp_path) as world:
        await world.sign_in()
        page = await world.come_back(await world.authorize(Attempt(OTHER_ID, OTHER_BACK)))
        assert page.status == 200
        assert 'value="allow"' in page.text


async def test_consent_is_not_given_by_another_page_or_browser(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        page = await world.come_back(await world.authorize(Attempt()))
        assert (await world.decide(page, token="guessed")).status == 403
        assert (await world.decide(page, browser=another_browser(world))).status == 403
        elsewhere = BareBrowser("https://evil.example", dict(world.browser.cookies))
        fields = {**hidden_fields(page), "decision": "allow"}
        assert (await elsewhere.post(f"{world.base}/oauth/consent", **fields)).status == 403
        assert "code=" in target_of(await world.decide(page))
        assert (await world.decide(page)).status == 403


async def test_pages_cannot_be_framed(tmp_path: Path) -> None:
    """Protection against clickjacking."""
    async with authorization_world(tmp_path) as world:
        page = await world.come_back(await world.authorize(Attempt()))
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "name", ["scope", "state", "resource", "response_type", "code_challenge", "code_challenge_method"]
)
async def test_repeated_parameter_is_refused(tmp_path: Path, name: str) -> None:
    async with authorization_world(tmp_path) as world:
        attempt = Attempt(more={"scope": "a", "resource": world.base})
        answer = await world.browser.get(f"/oauth/authorize?{urlencode(attempt.query)}&{name}=other")
        wanted = "invalid_target" if name == "resource" else "invalid_request"
        assert parameters(answer.location).get("error") == wanted
        assert "state" not in parameters(answer.location) or name != "state"


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
async def test_repeated_client_or_redirect_uri_is_a_page(tmp_path: Path, name: str) -> None:
    async with authorization_world(tmp_path) as world:
        answer = await world.browser.get(f"/oauth/authorize?{urlencode(Attempt().query)}&{name}=other")
        assert (answer.status, answer.location) == (400, "")


async def test_repeated_parameter_of_a_token_request_is_refused(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        fields = {"grant_type": "refresh_token", "refresh_token": "a", "client_id": CLIENT_ID}
        sent = [*fields.items(), ("client_id", OTHER_ID)]
        status, refusal = await world.token(sent)
        assert (status, refusal["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "path", ["/../mcp", "/%2e%2e", "/mcp?x", "/mcp#x", "//mcp", "@evil.example", ".evil.example", "/mcp/./x"]
)
async def test_resource_is_the_gateway_or_below_it(tmp_path: Path, path: str) -> None:
    async with authorization_world(tmp_path) as world:
        for resource in (world.base + path, "https://evil.example/mcp", world.base.replace("http:", "https:")):
            answer = await world.authorize(Attempt(more={"resource": resource}))
            assert parameters(answer.location).get("error") == "invalid_target"


async def test_token_request_does_not_widen_the_resource(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        narrow = {"resource": f"{world.base}/servers/default/shop/mcp"}
        attempt = Attempt(more=narrow)
        code = (await world.complete_authorization(attempt))["code"]
        status, refusal = await world.redeem(attempt, code, resource=world.base)
        assert (status, refusal.get("error")) == (400, "invalid_target")
        tokens = await world.sign_in(Attempt(more=narrow))
        status, refusal = await world.refresh(tokens, resource=f"{world.base}/mcp")
        assert (status, refusal.get("error")) == (400, "invalid_target")
        status, renewed = await world.refresh(tokens, resource=narrow["resource"] + "/")
        assert status == 200
        for path in ("/v1/tools", "/mcp", "/servers/default/shop2/mcp"):
            assert await world.call(renewed["access_token"], path) == 401


async def test_scopes_are_those_that_the_person_allowed(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server={"scopes": SCOPES}) as world:
        tokens = await world.sign_in(Attempt(more={"scope": "mcp:tools root"}))
        assert tokens["scope"] == "mcp:tools"
        status, refusal = await world.refresh(tokens, scope="mcp:tools mcp:admin")
        assert (status, refusal.get("error")) == (400, "invalid_scope")
        assert (await world.refresh(tokens, scope="mcp:tools"))[1]["scope"] == "mcp:tools"


async def test_refresh_for_another_person_of_the_provider_ends_the_sign_in(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await world.sign_in()
        (grant,) = world.provider.refreshes.values()
        grant["person"] = "mallory"
        status, refusal = await world.refresh(tokens)
        assert (status, refusal.get("error")) == (400, "invalid_grant")


async def test_code_is_of_no_use_to_another_client_or_at_another_redirect_uri(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        attempt = Attempt()
        code = (await world.complete_authorization(attempt))["code"]
        assert (await world.redeem(attempt, code, client_id=OTHER_ID))[1]["error"] == "invalid_grant"
        attempt = Attempt()
        code = (await world.complete_authorization(attempt))["code"]
        status, refusal = await world.redeem(attempt, code, redirect_uri=OTHER_BACK)
        assert (status, refusal.get("error")) == (400, "invalid_grant")


async def test_public_client_that_sends_a_secret_is_told_to_send_none(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        attempt = Attempt()
        code = (await world.complete_authorization(attempt))["code"]
        status, refusal = await world.redeem(attempt, code, client_secret="any")
        assert (status, refusal["error"]) == (401, "invalid_client")
        assert "the client is public: send its client_id in the form" in refusal["error_description"]
        assert "access_token" in (await world.redeem(attempt, code))[1]


async def test_client_with_a_secret_is_not_public(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        attempt = Attempt(SECRET_ID)
        code = (await world.complete_authorization(attempt))["code"]
        for more in ({}, {"client_secret": "wrong"}):
            status, refusal = await world.redeem(attempt, code, **more)
            assert (status, refusal.get("error")) == (401, "invalid_client")
        status, refusal = await world.token({"client_id": SECRET_ID, "token": "any"}, "/oauth/revoke")
        assert (status, refusal["error"]) == (401, "invalid_client")


@pytest.mark.parametrize(
    "change",
    [
        {"aud": "https://evil.example"},
        {"aud": ["BASE", "https://evil.example"]},
        {"exp": -60},
        {"exp": 100_000},
        {"iss": CLIENT_ID},
        {"jti": None},
    ],
)
async def test_assertion_for_another_server_or_time_does_not_authenticate(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    key = ECKey.generate_key("P-256", {"kid": "one"})
    client = {"id": "signer", "redirectUris": [BACK], "keys": [key.as_dict(private=False)]}
    async with authorization_world(tmp_path, server={"more_clients": [client]}) as world:
        claims = _claims(world.base, world.provider.claims()["iat"], change)
        sent = {"client_assertion": jwt.encode({"alg": "ES256", "kid": "one"}, claims, key)}
        fields = {"client_id": "signer", "client_assertion_type": ASSERTION, "token": "any", **sent}
        status, refusal = await world.token(fields, "/oauth/revoke")
        assert (status, refusal.get("error")) == (401, "invalid_client")


async def test_assertion_is_good_once_and_by_the_clients_own_key(tmp_path: Path) -> None:
    key, foreign = (ECKey.generate_key("P-256", {"kid": "one"}) for _ in range(2))
    client = {"id": "signer", "redirectUris": [BACK], "keys": [key.as_dict(private=False)]}
    async with authorization_world(tmp_path, server={"more_clients": [client]}) as world:
        claims = _claims(world.base, world.provider.claims()["iat"], {})
        fields = {"client_id": "signer", "client_assertion_type": ASSERTION, "token": "any"}
        for signer, wanted in ((foreign, 401), (key, 200), (key, 401)):
            assertion = jwt.encode({"alg": "ES256", "kid": "one"}, claims, signer)
            status, _ = await world.token({**fields, "client_assertion": assertion}, "/oauth/revoke")
            assert status == wanted


async def test_browser_keeps_a_bounded_number_of_sign_ins(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        begun = [await world.authorize(Attempt()) for _ in range(MAX_OPEN + 3)]
        assert len(world.browser.cookies) <= MAX_OPEN + 1
        assert (await world.come_back(begun[-1])).status == 200


async def test_long_requests_are_refused(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        long = await world.authorize(Attempt(state="x" * 5_000))
        assert parameters(long.location)["error"] == "invalid_request"
        assert (await world.authorize(Attempt(state="x" * 9_000))).status == 400
        assert (await world.token({"client_id": CLIENT_ID, "code": "x" * 40_000}))[0] == 413


async def test_provider_gets_no_state_of_the_client_and_the_client_no_answer_of_the_provider(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        attempt = Attempt()
        begun = await world.authorize(attempt)
        assert attempt.state not in begun.location
        assert "desk.example" not in begun.location
        page = await world.browser.get(alter_url(await world.browser.come_back(begun.location), state=attempt.state))
        assert page.status == 403
        assert urlsplit(begun.location).netloc == urlsplit(world.provider.url).netloc


def _claims(base: str, now: float, change: dict[str, Any]) -> dict[str, Any]:
    claims = {"iss": "signer", "sub": "signer", "aud": base, "exp": 60, "jti": "1", **change}
    claims["exp"] += int(now)
    if isinstance(claims["aud"], list):
        claims["aud"] = [name.replace("BASE", base) for name in claims["aud"]]
    return {name: value for name, value in claims.items() if value is not None}
