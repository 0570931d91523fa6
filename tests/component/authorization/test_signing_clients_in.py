"""Clients that know only the gateway's URL sign in users of the gateway's provider."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import aiohttp
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from authorizationworld import (
    BACK,
    CLIENT_ID,
    LOCAL_ID,
    OTHER_BACK,
    OTHER_ID,
    SCOPES,
    SECRET,
    SECRET_ID,
    Attempt,
    AuthorizationWorld,
    another_browser,
    authorization_world,
    hidden_fields,
    target_of,
    two_providers,
)
from fairlead_gateway.core.identity import Identity
from oidcprovider import parameters


async def identity_of(world: AuthorizationWorld, token: str) -> Identity:
    """Identity of an access token at the gateway."""
    identity = await world.gateway.endpoint.identities.identify(f"Bearer {token}".encode())
    assert isinstance(identity, Identity), identity
    return identity


async def fetch(url: str, **headers: str) -> tuple[int, Any, dict[str, str]]:
    """Status, JSON and headers at a URL."""
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.json(), {name.lower(): value for name, value in answer.headers.items()}


async def test_client_signs_a_person_in_who_is_the_same_as_by_a_direct_login(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        world.provider.id_claims = {"groups": ["staff"], "preferred_username": "Alice"}
        tokens = await world.sign_in()
        assert await world.call(tokens["access_token"]) == 200
        identity = await identity_of(world, tokens["access_token"])
        assert identity.principal == f"jwt:{world.provider.url}#alice/{CLIENT_ID}"
        assert identity.agent == CLIENT_ID
        assert identity.groups == {"staff"}
        assert identity.claims["preferred_username"] == "Alice"
        direct = await identity_of(world, world.provider.token(sub="alice", aud=world.base, groups=["staff"]))
        assert direct.person == identity.person
        assert tokens["token_type"] == "Bearer"
        assert 0 < tokens["expires_in"] <= 600


async def test_access_token_is_verified_by_the_published_keys(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await world.sign_in(Attempt(more={"resource": f"{world.base}/mcp"}))
        _, keys, _ = await fetch(f"{world.base}/oauth/jwks", origin="https://inspector.example")
        assert all("d" not in key for key in keys["keys"])
        token = jwt.decode(tokens["access_token"], KeySet.import_key_set(keys), algorithms=["ES256"])
        assert token.header["typ"] == "at+jwt"
        assert token.claims["iss"] == world.base
        assert token.claims["aud"] == f"{world.base}/mcp"
        assert token.claims["client_id"] == CLIENT_ID


async def test_metadata_is_at_all_places_and_readable_by_pages(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server={"registration": {"redirectHosts": ["localhost"]}}) as world:
        for path in ("oauth-authorization-server", "openid-configuration"):
            url = f"{world.base}/.well-known/{path}"
            status, document, headers = await fetch(url, origin="https://inspector.example")
            assert status == 200
            assert headers["access-control-allow-origin"] == "*"
            assert document["issuer"] == world.base
            assert document["code_challenge_methods_supported"] == ["S256"]
            assert document["authorization_response_iss_parameter_supported"] is True
            assert document["client_id_metadata_document_supported"] is False
            assert document["registration_endpoint"] == f"{world.base}/oauth/register"
        _, resource, _ = await fetch(f"{world.base}/.well-known/oauth-protected-resource/mcp")
        assert resource["authorization_servers"] == [world.base]


async def test_pages_of_any_origin_may_send_token_requests(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world, aiohttp.ClientSession() as session:
        preflight = {"origin": "https://inspector.example", "access-control-request-method": "POST"}
        async with session.options(f"{world.base}/oauth/token", headers=preflight) as answer:
            assert answer.status == 204
            assert answer.headers["access-control-allow-origin"] == "*"
            assert "content-type" in answer.headers["access-control-allow-headers"]
        status, refusal = await world.token({"client_id": CLIENT_ID}, origin="https://inspector.example")
        assert (status, refusal["error"]) == (400, "unsupported_grant_type")


async def test_refresh_token_gives_a_successor_and_the_groups_of_now(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await world.sign_in()
        world.provider.id_claims = {"groups": ["board"]}
        status, renewed = await world.refresh(tokens)
        assert status == 200
        assert renewed["refresh_token"] != tokens["refresh_token"]
        assert (await identity_of(world, renewed["access_token"])).groups == {"board"}
        assert (await world.refresh(tokens))[1]["refresh_token"] == renewed["refresh_token"]


async def test_person_removed_at_the_provider_is_out_at_the_next_refresh(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await world.sign_in()
        world.provider.refreshes.clear()
        assert (await world.refresh(tokens))[1]["error"] == "invalid_grant"
        assert (await world.refresh(tokens))[1]["error"] == "invalid_grant"


async def test_refresh_loses_nothing_while_the_provider_is_away(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await world.sign_in()
        world.provider.away = True
        status, refusal = await world.refresh(tokens)
        assert (status, refusal["error"]) == (503, "temporarily_unavailable")
        world.provider.away = False
        assert (await world.refresh(tokens))[0] == 200


async def test_sign_in_at_a_provider_that_is_away_is_told_to_the_client(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        world.provider.away = True
        begun = await world.authorize(Attempt())
        assert parameters(begun.location)["error"] == "temporarily_unavailable"
        world.provider.away = False
        assert "error" not in parameters((await world.authorize(Attempt())).location)


async def test_revoked_refresh_token_ends_the_sign_in(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await world.sign_in()
        revoked = {"token": tokens["refresh_token"], "client_id": CLIENT_ID}
        assert (await world.token(revoked, "/oauth/revoke"))[0] == 200
        assert (await world.refresh(tokens))[1]["error"] == "invalid_grant"
        assert (await world.token({**revoked, "token": "unknown"}, "/oauth/revoke"))[0] == 200


async def test_declined_consent_and_login_are_told_to_the_client(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        attempt = Attempt()
        page = await world.come_back(await world.authorize(attempt))
        answer = parameters(target_of(await world.decide(page, "deny")))
        assert answer["error"] == "access_denied"
        assert (answer["state"], answer["iss"]) == (attempt.state, world.base)
        assert (await world.decide(page)).status == 403
        world.provider.redirect = {"code": None, "error": "access_denied"}
        back = await world.come_back(await world.authorize(attempt))
        assert parameters(back.location)["error"] == "access_denied"
        assert parameters(back.location)["iss"] == world.base


async def test_consent_is_asked_once_and_names_who_gets_what(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server={"scopes": SCOPES}) as world:
        world.provider.id_claims = {"email": "alice@corp.example"}
        attempt = Attempt(more={"scope": "mcp:tools", "resource": f"{world.base}/mcp"})
        page = await world.come_back(await world.authorize(attempt))
        for text in ("Desk", "alice@corp.example", "desk.example", f"{world.base}/mcp", "mcp:tools"):
            assert text in page.text
        assert "code=" in target_of(await world.decide(page))
        again = Attempt(more={"scope": "mcp:tools", "resource": f"{world.base}/mcp"})
        assert (await world.come_back(await world.authorize(again))).status == 303
        for wider in ({"resource": f"{world.base}/mcp"}, {"scope": "mcp:tools"}):
            assert (await world.come_back(await world.authorize(Attempt(more=wider)))).status == 200


async def test_consent_page_warns_of_programs_on_the_machine_and_of_self_registered_ones(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server={"registration": {"redirectHosts": ["localhost"]}}) as world:
        here = Attempt(LOCAL_ID, "http://127.0.0.1:50123/back")
        page = await world.come_back(await world.authorize(here))
        assert "any program there can say that it is this one" in page.text
        answer = parameters(target_of(await world.decide(page)))
        assert (await world.redeem(here, answer["code"]))[0] == 200
        body = {"redirect_uris": ["http://localhost/back"], "client_name": "Nobody <b>special</b>"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{world.base}/oauth/register", json=body) as registered,
        ):
            assert registered.status == 201
            client = await registered.json()
        attempt = Attempt(client["client_id"], "http://localhost:7000/back")
        page = await world.come_back(await world.authorize(attempt))
        assert "has registered itself" in page.text
        assert "<b>special" not in page.text
        answer = parameters(target_of(await world.decide(page)))
        status, tokens = await world.redeem(attempt, answer["code"])
        assert status == 200
        assert (await identity_of(world, tokens["access_token"])).agent is None


async def test_registration_refuses_what_the_settings_do_not_allow(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server={"registration": {"redirectHosts": ["localhost"]}}) as world:
        url = f"{world.base}/oauth/register"
        async with aiohttp.ClientSession() as session:
            async with session.post(url, json={"redirect_uris": ["https://evil.example/back"]}) as answer:
                assert (answer.status, (await answer.json())["error"]) == (400, "invalid_redirect_uri")
            async with session.post(url, data=b"no JSON") as answer:
                assert (answer.status, (await answer.json())["error"]) == (400, "invalid_client_metadata")
    async with authorization_world(tmp_path) as world:
        assert (await world.token({}, "/oauth/register"))[0] in (401, 404)


@pytest.mark.parametrize("encoding", [quote_plus, quote, str, None])
async def test_client_with_a_secret_authenticates_by_form_or_by_header_in_any_encoding(
    tmp_path: Path, encoding: Callable[[str], str] | None
) -> None:
    async with authorization_world(tmp_path) as world:
        attempt = Attempt(SECRET_ID)
        code = (await world.complete_authorization(attempt))["code"]
        fields = {"grant_type": "authorization_code", "code": code, "code_verifier": attempt.verifier}
        fields["redirect_uri"] = BACK
        if encoding is not None:
            pair = base64.b64encode(f"{SECRET_ID}:{encoding(SECRET)}".encode()).decode()
            status, tokens = await world.token(fields, authorization=f"Basic {pair}")
        else:
            status, tokens = await world.token({**fields, "client_id": SECRET_ID, "client_secret": SECRET})
        assert status == 200, tokens


async def test_person_chooses_the_provider_where_there_are_several(tmp_path: Path) -> None:
    async with two_providers(tmp_path) as (world, _, partner):
        attempt = Attempt()
        page = await world.authorize(attempt)
        assert page.status == 200
        assert "fairlead_provider=corp" in page.text
        chosen = Attempt(verifier=attempt.verifier, more={"fairlead_provider": "partner"})
        answer = await world.complete_authorization(chosen)
        status, tokens = await world.redeem(chosen, answer["code"])
        assert status == 200
        assert partner.url in (await identity_of(world, tokens["access_token"])).principal


async def test_access_token_of_the_provider_counts_where_the_gateway_accepts_it(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        world.provider.id_claims = {"groups": ["of the ID token"]}
        world.provider.access_claims = {"aud": world.base, "groups": ["of the access token"]}
        tokens = await world.sign_in()
        assert (await identity_of(world, tokens["access_token"])).groups == {"of the access token"}


async def test_client_signs_its_requests_with_its_key(tmp_path: Path) -> None:
    key = ECKey.generate_key("P-256", {"kid": "one"})
    client = {"id": "signer", "redirectUris": [OTHER_BACK], "keys": [key.as_dict(private=False)]}
    async with authorization_world(tmp_path, server={"more_clients": [client]}) as world:
        attempt = Attempt("signer", OTHER_BACK)
        code = (await world.complete_authorization(attempt))["code"]
        now = world.provider.claims()["iat"]
        claims = {"iss": "signer", "sub": "signer", "aud": world.base, "exp": now + 60, "jti": "1"}
        assertion = jwt.encode({"alg": "ES256", "kid": "one"}, claims, key)
        sent = {
            "client_assertion": assertion,
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        }
        status, tokens = await world.redeem(attempt, code, **sent)
        assert status == 200, tokens


async def test_sign_ins_are_counted_and_in_the_audit_log(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with authorization_world(tmp_path, audit_file=log) as world:
        tokens = await world.sign_in()
        await world.refresh(tokens)
        assert (await another_browser(world).get("/oauth/callback/corp?state=unknown")).status == 403
        counts = world.gateway.authorization
        assert counts is not None
        assert counts.parts.counts.sign_ins == {"begun": 1, "signed_in": 1, "refused": 1}
        assert world.gateway.metrics.get_sample_value("fairlead_sign_ins_total", {"outcome": "signed_in"}) == 1
        issued = {"grant": "refresh_token", "outcome": "issued"}
        assert world.gateway.metrics.get_sample_value("fairlead_token_requests_total", issued) == 1
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (granted,) = [line for line in lines if "sign-ins/grant" in json.dumps(line)]
    assert "alice" in json.dumps(granted)
    text = log.read_text()
    for secret in (tokens["access_token"], tokens["refresh_token"]):
        assert secret not in text


async def test_two_sign_ins_of_one_browser_do_not_disturb_each_other(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        first, second = Attempt(), Attempt(OTHER_ID, OTHER_BACK)
        begun = [await world.authorize(first), await world.authorize(second)]
        pages = [await world.come_back(page) for page in begun]
        assert hidden_fields(pages[0])["id"] != hidden_fields(pages[1])["id"]
        for attempt, page in zip((first, second), pages, strict=True):
            answer = parameters(target_of(await world.decide(page)))
            assert answer["state"] == attempt.state
            assert (await world.redeem(attempt, answer["code"]))[0] == 200
