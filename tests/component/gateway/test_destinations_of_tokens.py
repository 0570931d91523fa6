"""Servers whose authors try to obtain callers' tokens, in order to call the gateway with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_app.authentication import build_trust
from fairlead_app.settings import Settings
from gatewayworld import ask, calling, scrape
from issuers import HERE
from oauthworld import exchanging, oauth_catalog, of, text_of
from protectedservers import protected_server
from tokenendpoint import TokenAnswer, TokenEndpoint, token_endpoint

NOTHING: dict[str, Any] = {"token_exchange_allowed": ()}


def settings_of_issuers(folder: Path, *providers: TokenEndpoint) -> dict[str, Any]:
    """Settings of a gateway that accepts the tokens of several issuers."""
    file = folder / "issuers.yaml"
    file.write_text(json.dumps({"issuers": [{"issuer": each.url, "algorithms": ["ES256"]} for each in providers]}))
    settings: dict[str, Any] = {"identity": file, "public_url": HERE}
    return {**settings, "trust": build_trust(Settings.of(**settings))}


@pytest.mark.parametrize("settings", ["tokenURL", "issuer", "both"])
async def test_an_authorization_server_of_a_tenants_own_gets_no_token(tmp_path: Path, settings: str) -> None:
    """The tenant does not even need a Secret, because its client has no authentication."""
    async with token_endpoint() as evil, token_endpoint() as provider, protected_server(evil) as (protected, server):
        named = {
            "tokenURL": {"token_url": evil.token_url},
            "issuer": {"issuer": evil.url},
            "both": {"issuer": provider.url, "token_url": evil.token_url},
        }
        box = oauth_catalog(
            provider, "box", server.url, oauth={"client_authentication": "none", "token_url": "", **named[settings]}
        )
        async with exchanging(tmp_path, provider, box, **NOTHING) as gateway:
            answers = [await ask(gateway, of(provider, "alice", calling("box__whoami"))) for _ in range(2)]
        assert evil.received == []
    assert provider.requests == []
    assert protected.messages == []
    for answer in answers:
        assert answer.refusal == "CREDENTIAL_UNAVAILABLE"
        sentence = text_of(answer)
        destination = evil.url if settings == "issuer" else evil.token_url
        assert "default/box" in sentence
        assert f"the caller's token of {provider.url} may not be sent to {destination}" in sentence
        assert f"add {destination} to FAIRLEAD_TOKEN_EXCHANGE_ALLOWED" in sentence
        assert "gateway.settings.tokenExchangeAllowed" in sentence


async def test_a_token_goes_to_its_own_issuer_without_any_setting(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (_, server):
        box = oauth_catalog(provider, "box", server.url, oauth={"issuer": provider.url})
        async with exchanging(tmp_path, provider, box, **NOTHING) as gateway:
            assert text_of(await ask(gateway, of(provider, "alice", calling("box__whoami")))) == "alice"


@pytest.mark.parametrize("entry", ["issuer", "tokenURL", "*"])
async def test_a_token_goes_where_the_installation_allows_it(tmp_path: Path, entry: str) -> None:
    async with token_endpoint() as provider, token_endpoint() as other, protected_server(other) as (_, server):
        other.keys = provider.keys  # so that it accepts the first provider's tokens
        where = {"token_url": other.token_url} if entry == "tokenURL" else {"issuer": other.url}
        box = oauth_catalog(other, "box", server.url, oauth=where)
        allowed = {"issuer": f"{other.url}/", "tokenURL": other.token_url}.get(entry, entry)
        async with exchanging(tmp_path, provider, box, token_exchange_allowed=(allowed,)) as gateway:
            assert text_of(await ask(gateway, of(provider, "alice", calling("box__whoami")))) == "alice"
    assert other.tokens_by_person == {"alice": 1}


async def test_callers_of_two_issuers_reach_the_servers_of_their_own(tmp_path: Path) -> None:
    async with (
        token_endpoint() as first,
        token_endpoint() as second,
        protected_server(first) as (_, of_first),
        protected_server(second) as (_, of_second),
    ):
        catalogs = [
            oauth_catalog(provider, name, server.url, oauth={"issuer": provider.url})
            for name, provider, server in (("one", first, of_first), ("two", second, of_second))
        ]
        settings = {**NOTHING, **settings_of_issuers(tmp_path, first, second)}
        async with exchanging(tmp_path, first, *catalogs, **settings) as gateway:
            for provider, own, others in ((first, "one", "two"), (second, "two", "one")):
                assert text_of(await ask(gateway, of(provider, "alice", calling(f"{own}__whoami")))) == "alice"
                refused = await ask(gateway, of(provider, "alice", calling(f"{others}__whoami")))
                assert refused.refusal == "CREDENTIAL_UNAVAILABLE"
    assert (len(first.requests), len(second.requests)) == (1, 1)


@pytest.mark.parametrize("audience", [HERE, f"{HERE}/mcp"])
async def test_no_server_gets_a_token_that_the_gateway_takes(tmp_path: Path, audience: str) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        provider.audiences.add(audience)
        oauth = {"issuer": provider.url, "resource": server.url, "audience": audience}
        box = oauth_catalog(provider, "box", server.url, oauth=oauth)
        async with exchanging(tmp_path, provider, box, **NOTHING) as gateway:
            answer = await ask(gateway, of(provider, "alice", calling("box__whoami")))
            assert answer.refusal == "CREDENTIAL_UNAVAILABLE"
            assert "whose audience (aud) is this gateway" in text_of(answer)
            metrics = await scrape(gateway)
    assert provider.tokens_by_person == {"alice": 1}
    assert protected.messages == []
    assert 'fairlead_server_grants_total{fairlead_server="default/box",outcome="bad_answer"} 1.0' in metrics


async def test_no_server_gets_the_token_of_its_caller(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url, oauth={"issuer": provider.url})
        async with exchanging(tmp_path, provider, box, **NOTHING) as gateway:

            def give_back(answer: TokenAnswer) -> None:
                answer.members["access_token"] = dict(provider.requests[-1])["subject_token"]

            provider.answer = give_back
            answer = await ask(gateway, of(provider, "alice", calling("box__whoami")))
    assert answer.refusal == "CREDENTIAL_UNAVAILABLE"
    assert "returned the caller's own token" in text_of(answer)
    assert protected.messages == []
