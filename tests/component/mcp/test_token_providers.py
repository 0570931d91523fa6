"""Tokens of real authorization servers: `oidc-provider`, Dex, and in nightly runs Keycloak."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest

import dexexchange
import keycloak
from dexexchange import dex_exchange
from exchangeworld import exchange_world
from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, TOKEN_EXCHANGE, OAuthSettings
from fairlead_mcp.http.dial import resolve_by_dns
from fairlead_mcp.oauth.errors import ACCESS_DENIED, INVALID_CLIENT, INVALID_REQUEST, INVALID_TARGET, GrantFailed
from fairlead_mcp.oauth.subject import GATEWAY, TokenSubject
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_source import TokenSource
from issuers import HERE
from tokenproviders import SECRET, TokenProvider, private_key

METHODS = ("client_secret_basic", "client_secret_post", "private_key_jwt")
SKEWS = (0, 120, -120)


def claims_of(token: str) -> dict[str, Any]:
    """Claims of a JWT, unverified."""
    part = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


def subject_of(person: str, token: str) -> TokenSubject:
    return TokenSubject(person.encode(), token, claims_of(token)["exp"])


def source_of(settings: OAuthSettings, url: str, secret: str = SECRET) -> TokenSource:
    by_key = settings.client_authentication == "private_key_jwt"
    credential = Credential(private_key=private_key()) if by_key else Credential(client_secret=secret)
    return TokenSource(settings, credential, TokenAccess(server_url=url, resolve=resolve_by_dns))


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("method", METHODS)
async def test_oidc_provider_gives_each_person_a_token_whatever_its_clock_says(
    method: str, skew: int, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with exchange_world(tmp_path, shared_provider, skew=skew) as world:
        source = source_of(world.oauth(client_authentication=method), world.server.url)
        subjects = [subject_of(person, await world.token(person)) for person in ("alice", "bob", "carol")]
        tokens = [await source.obtain(subject) for subject in subjects[:2]]
        with pytest.raises(GrantFailed) as failure:
            await source.obtain(subjects[2])
        own = source_of(world.oauth(CLIENT_CREDENTIALS, client_authentication=method), world.server.url)
        gateway = await own.obtain(GATEWAY)
        await source.aclose()
        await own.aclose()
    assert [claims_of(token.value)["sub"] for token in tokens] == ["alice", "bob"]
    assert {claims_of(token.value)["aud"] for token in (*tokens, gateway)} == {world.server.url}
    assert failure.value.cause == ACCESS_DENIED
    for token, subject in zip(tokens, subjects, strict=False):
        assert time.time() < token.expires_at <= subject.expires_at


async def test_oidc_provider_refuses_what_is_wrong_and_the_cause_says_what(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with exchange_world(tmp_path, shared_provider) as world:
        alice = subject_of("alice", await world.token("alice"))
        forged = TokenSubject(b"alice", alice.token[:-8] + "AAAAAAAA", alice.expires_at)
        wrong = [
            (source_of(world.oauth(), world.server.url, "another secret"), alice, INVALID_CLIENT),
            (source_of(world.oauth(resource="http://127.0.0.1:9/mcp"), world.server.url), alice, INVALID_TARGET),
            (source_of(world.oauth(), world.server.url), forged, INVALID_REQUEST),
        ]
        failures = []
        for source, subject, _ in wrong:
            with pytest.raises(GrantFailed) as failure:
                await source.obtain(subject)
            failures.append(failure.value)
            await source.aclose()
    assert [failure.cause for failure in failures] == [cause for _, _, cause in wrong]
    assert not [failure for failure in failures if alice.token in str(failure) or SECRET in str(failure)]


async def test_a_token_for_another_audience_is_exchanged_for_nothing(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    """The gateway's token for the server cannot be a subject token, because its audience is the server."""
    async with exchange_world(tmp_path, shared_provider) as world:
        source = source_of(world.oauth(), world.server.url)
        token = await source.obtain(subject_of("alice", await world.token("alice")))
        again = source_of(world.oauth(), world.server.url)
        with pytest.raises(GrantFailed) as failure:
            await again.obtain(TokenSubject(b"alice", token.value, token.expires_at))
        await source.aclose()
        await again.aclose()
    assert failure.value.cause == INVALID_REQUEST


async def test_a_token_lives_no_longer_than_the_token_it_was_exchanged_for(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with exchange_world(tmp_path, shared_provider, lifetime=3600, gateway_lifetime=60) as world:
        source = source_of(world.oauth(), world.server.url)
        subject = subject_of("alice", await world.token("alice"))
        token = await source.obtain(subject)
        await source.aclose()
    assert claims_of(token.value)["exp"] > subject.expires_at + 3000
    assert token.expires_at <= subject.expires_at


async def test_two_hundred_callers_of_a_person_wait_for_one_grant(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with exchange_world(tmp_path, shared_provider) as world:
        source = source_of(world.oauth(), world.server.url)
        subject = subject_of("alice", await world.token("alice"))
        tokens = await asyncio.gather(*(source.obtain(subject) for _ in range(200)))
        await source.aclose()
    assert len({token.value for token in tokens}) == 1
    assert world.exchanges("alice") == 1


async def test_dex_exchanges_id_tokens_and_gives_tokens_to_its_client(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/mcp"
    async with dex_exchange(tmp_path) as dexes:
        client: dict[str, Any] = {
            "client_id": dexexchange.CLIENT,
            "issuer": dexes.issuer,
            "scopes": dexexchange.SCOPES,
        }
        exchange = OAuthSettings(
            grant=TOKEN_EXCHANGE,
            subject_token_type=dexexchange.ID_TOKEN,
            parameters={"connector_id": dexexchange.CONNECTOR},
            **client,
        )
        source = source_of(exchange, url, dexexchange.SECRET)
        own = source_of(OAuthSettings(grant=CLIENT_CREDENTIALS, **client), url, dexexchange.SECRET)
        tokens = [await source.obtain(subject_of(each, await dexes.sign_in(each))) for each in ("alice", "bob")]
        gateway = await own.obtain(GATEWAY)
        await source.aclose()
        await own.aclose()
    claims = [claims_of(token.value) for token in (*tokens, gateway)]
    assert [each["preferred_username"] for each in claims] == ["alice", "bob", "Fairlead"]
    assert all(dexexchange.TOOLS in each["aud"] for each in claims)


@pytest.mark.nightly
@pytest.mark.heavy
@pytest.mark.timeout(900)
async def test_keycloak_exchanges_tokens_of_its_realm_and_gives_tokens_to_its_client(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/mcp"
    async with keycloak.keycloak(tmp_path, gateway=HERE) as provider:
        client: dict[str, Any] = {
            "client_id": keycloak.CLIENT,
            "issuer": provider.issuer,
            "audience": keycloak.TOOLS,
        }
        source = source_of(OAuthSettings(grant=TOKEN_EXCHANGE, **client), url, keycloak.SECRET)
        own = source_of(OAuthSettings(grant=CLIENT_CREDENTIALS, **client), url, keycloak.SECRET)
        tokens = [await source.obtain(subject_of(each, await provider.sign_in(each))) for each in ("alice", "bob")]
        gateway = await own.obtain(GATEWAY)
        await source.aclose()
        await own.aclose()
    claims = [claims_of(token.value) for token in (*tokens, gateway)]
    assert [each["preferred_username"] for each in claims] == ["alice", "bob", "service-account-fairlead"]
