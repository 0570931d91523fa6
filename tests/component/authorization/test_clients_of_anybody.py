"""Clients that anybody could create: self-registered clients, and clients with a document at any host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp

from authorizationworld import CLIENT_ID, Attempt, AuthorizationWorld, authorization_world, target_of
from fairlead_authorization.clients.client_ids import DocumentAddress
from fairlead_authorization.clients.fetching import FetchedMetadata
from oidcprovider import parameters

REGISTRATION = {"registration": {"redirectHosts": ["localhost"]}}
EVERYBODYS = "/v1/sign-ins?everybody=true"


async def register(world: AuthorizationWorld) -> Attempt:
    """Register a client. Returns its authorization request."""
    body = {"redirect_uris": ["http://localhost/back"], "client_name": "Desk"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{world.base}/oauth/register", json=body) as registered,
    ):
        assert registered.status == 201
        return Attempt((await registered.json())["client_id"], "http://localhost:7000/back")


async def of_any_host(address: DocumentAddress, max_bytes: int) -> FetchedMetadata:
    """The client document at a URL, with a redirect URI at the same host."""
    document = {"client_id": address.url, "redirect_uris": [f"https://{address.host}/back"]}
    return FetchedMetadata(json.dumps(document).encode(), 600.0)


def document_client(host: str) -> Attempt:
    return Attempt(f"https://{host}/client.json", f"https://{host}/back")


async def test_no_link_leads_a_browser_on_to_a_client_of_anybody(tmp_path: Path) -> None:
    """Open redirector (RFC 9700 section 4.11.2): at this point, the user has neither signed in nor consented."""
    server = {
        **REGISTRATION,
        "clientHosts": ["*", "named.example"],
        "agents": {"mine": "https://mine.example/client.json"},
    }
    async with authorization_world(tmp_path, server=server, client_documents=of_any_host) as world:
        for attempt in (document_client("evil.example"), await register(world)):
            attempt.more = {"response_type": None}
            page = await world.authorize(attempt)
            assert (page.status, page.location) == (400, "")
            assert 'http-equiv="refresh"' not in page.text
            assert f'<a href="{attempt.redirect_uri}?error=invalid_request&amp;' in page.text
        for attempt in (document_client("named.example"), document_client("mine.example"), Attempt()):
            attempt.more = {"response_type": None}
            answer = await world.authorize(attempt)
            assert answer.status == 303
            assert parameters(answer.location)["error"] == "invalid_request"
            assert parameters(answer.location)["error_description"] == "response_type must be code"
            attempt.more = {"response_type": "token"}
            assert parameters((await world.authorize(attempt)).location)["error"] == "unsupported_response_type"


async def test_person_who_declines_at_the_provider_is_not_led_on_to_a_client_of_anybody(tmp_path: Path) -> None:
    server = {"clientHosts": ["*", "named.example"]}
    async with authorization_world(tmp_path, server=server, client_documents=of_any_host) as world:
        world.provider.redirect = {"code": None, "error": "access_denied"}
        for host, status in (("evil.example", 400), ("named.example", 303)):
            attempt = document_client(host)
            page = await world.come_back(await world.authorize(attempt))
            assert page.status == status
            where = page.location if status == 303 else page.text
            assert f"{attempt.redirect_uri}?error=access_denied" in where
            assert "Max-Age=0" in page.headers["set-cookie"]


async def test_person_is_told_that_the_provider_of_a_client_of_anybody_is_away(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=REGISTRATION) as world:
        attempt = await register(world)
        world.provider.away = True
        page = await world.authorize(attempt)
        assert (page.status, page.location) == (503, "")
        assert "error=temporarily_unavailable" in page.text


async def test_a_second_click_alone_does_not_consent_to_a_client_of_any_host(tmp_path: Path) -> None:
    server = {"clientHosts": ["*", "named.example"]}
    async with authorization_world(tmp_path, server=server, client_documents=of_any_host) as world:
        for host, asks in (("evil.example", True), ("named.example", False)):
            page = await world.come_back(await world.authorize(document_client(host)))
            assert ('<input type="checkbox" required>' in page.text) is asks
            assert "formnovalidate>Deny" in page.text
            assert page.headers["cross-origin-opener-policy"] == "unsafe-none"


async def test_client_that_registered_itself_does_not_administer_for_an_administrator(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=REGISTRATION, admin_groups=("staff",)) as world:
        world.provider.id_claims = {"groups": ["staff"]}
        named = await world.sign_in()
        assert await world.call(named["access_token"], EVERYBODYS) == 200
        attempt = await register(world)
        page = await world.come_back(await world.authorize(attempt))
        code = parameters(target_of(await world.decide(page)))["code"]
        status, tokens = await world.redeem(attempt, code)
        assert status == 200
        assert await world.call(tokens["access_token"]) == 200
        assert await world.call(tokens["access_token"], EVERYBODYS) == 403
        direct = world.provider.token(sub="alice", aud=world.base, groups=["staff"])
        assert await world.call(direct, EVERYBODYS) == 200


async def test_client_of_any_host_does_not_administer_for_an_administrator(tmp_path: Path) -> None:
    server = {"clientHosts": ["*", "named.example"]}
    async with authorization_world(
        tmp_path, server=server, client_documents=of_any_host, admin_groups=("staff",)
    ) as world:
        world.provider.id_claims = {"groups": ["staff"]}
        for host, status in (("evil.example", 403), ("named.example", 200)):
            attempt = document_client(host)
            page = await world.come_back(await world.authorize(attempt))
            _, tokens = await world.redeem(attempt, parameters(target_of(await world.decide(page)))["code"])
            _, refreshed = await world.token(
                {
                    "grant_type": "refresh_token",
                    "refresh_token": tokens["refresh_token"],
                    "client_id": attempt.client_id,
                }
            )
            for token in (tokens["access_token"], refreshed["access_token"]):
                assert await world.call(token) == 200
                assert await world.call(token, EVERYBODYS) == status


async def has_ended(world: AuthorizationWorld, tokens: dict[str, Any]) -> bool:
    """Whether the sign-in that these tokens of the client `desk` belong to has ended."""
    status, _ = await world.refresh(tokens)
    return status == 400


async def test_access_token_ends_its_sign_in_at_the_revocation_endpoint(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await world.sign_in()
        revoked = {"token": tokens["access_token"], "client_id": CLIENT_ID}
        header, claims, signature = tokens["access_token"].split(".")
        for token in (f"{header}.{claims}.{'A' * len(signature)}", world.provider.token(sub="alice", aud=world.base)):
            assert (await world.token({**revoked, "token": token}, "/oauth/revoke"))[0] == 200
        assert await world.call(tokens["access_token"]) == 200
        assert (await world.token(revoked, "/oauth/revoke"))[0] == 200
        assert await has_ended(world, tokens)


async def test_access_token_of_another_client_ends_nothing(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await world.sign_in()
        revoked = {"token": tokens["access_token"], "client_id": "other"}
        assert (await world.token(revoked, "/oauth/revoke"))[0] == 200
        assert not await has_ended(world, tokens)
