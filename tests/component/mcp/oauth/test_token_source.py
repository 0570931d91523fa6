"""Tokens for a server, from a strict token endpoint over real HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from certificates import Authority
from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, ENTRA_ON_BEHALF_OF, TOKEN_EXCHANGE
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.errors import (
    ACCESS_DENIED,
    BAD_ANSWER,
    CLOSED,
    CONFIGURATION,
    INSUFFICIENT_SCOPE,
    INTERACTION_REQUIRED,
    INVALID_CLIENT,
    INVALID_GRANT,
    INVALID_REQUEST,
    INVALID_SCOPE,
    NO_SUBJECT_TOKEN,
    SUBJECT_TOKEN_EXPIRED,
    TOKEN_REFUSED,
    UNREACHABLE,
    GrantFailed,
)
from fairlead_mcp.oauth.scopes import fit_one_token
from fairlead_mcp.oauth.subject import GATEWAY, TokenSubject
from fairlead_mcp.oauth.token_endpoint import DISCOVERY_SECONDS, RETRY_SECONDS
from fairlead_mcp.oauth.token_source import TokenSource
from tokenendpoint import CLIENT, SECRET, Client, TokenAnswer, token_access, token_endpoint
from tokenworld import world

UNAUTHORIZED = Challenge("invalid_token")


def running_grants() -> list[str]:
    """Names of the running asyncio tasks of grants and their connections."""
    names = [task.get_name() for task in asyncio.all_tasks()]
    return [name for name in names if name.startswith(("grant", "dial"))]


# Grants


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
@pytest.mark.parametrize("grant", [CLIENT_CREDENTIALS, TOKEN_EXCHANGE])
async def test_grants_succeed_with_each_client_authentication(grant: str, method: str) -> None:
    async with world(grant, client=Client(method), scopes=("read", "write"), audience="tools") as tools:
        token = await tools.source.obtain(tools.person("alice"))
        claims = tools.provider.verify(token.value, "tools")
        assert claims["sub"] == ("alice" if grant == TOKEN_EXCHANGE else CLIENT)
        assert (claims["client_id"], claims["scope"]) == (CLIENT, "read write")
        assert token.scopes == {"read", "write"}
        assert token.header_line == f"Authorization: Bearer {token.value}\r\n".encode()
        assert tools.source.find_cached(tools.person("alice")) is token


@pytest.mark.parametrize(
    "key",
    [RSAKey.generate_key(2048), ECKey.generate_key("P-256"), OKPKey.generate_key("Ed25519")],
    ids=["RSA", "EC", "Ed25519"],
)
async def test_grants_succeed_with_a_private_key_and_the_issuer_as_its_audience(key: Key) -> None:
    algorithm = {"alg": "Ed25519"} if isinstance(key, OKPKey) else {}  # joserfc warns of the older name EdDSA
    secret = Credential(private_key=json.dumps({**key.as_dict(private=True), **algorithm}))
    async with token_endpoint() as provider:
        provider.clients[CLIENT] = Client("private_key_jwt", key=key)
        source = TokenSource(provider.settings(issuer=provider.url), secret, token_access())
        first = await source.obtain(GATEWAY)
        second = await source.obtain(GATEWAY, refused_token=first)
        assert first.value != second.value
        await source.aclose()


async def test_token_exchange_at_entra_is_on_behalf_of_and_passes_its_claims_on() -> None:
    scopes = ("api://tools/.default",)
    async with world(entra=True, profile=ENTRA_ON_BEHALF_OF, scopes=scopes) as tools:
        assert tools.provider.verify((await tools.source.obtain(tools.person("alice"))).value)["sub"] == "alice"
        tools.provider.strangers.add("bob")
        error = await tools.failure(tools.person("bob"))
        assert error.cause == INTERACTION_REQUIRED
        assert "polids" in error.claims
        assert "consent" in str(error)


async def test_token_exchange_sends_resource_extra_parameters_and_dexs_connector() -> None:
    resource = "https://tools.example.com/mcp"
    async with world(resource=resource, parameters={"connector_id": "ldap"}) as tools:
        tools.provider.connector, tools.provider.resources = "ldap", {resource}
        token = await tools.source.obtain(tools.person("alice"))
        assert tools.provider.verify(token.value, resource)["sub"] == "alice"


async def test_caller_without_a_token_or_with_an_expired_one_asks_nobody() -> None:
    async with world() as tools:
        assert (await tools.failure(TokenSubject(b"key"))).cause == NO_SUBJECT_TOKEN
        assert (await tools.failure(tools.person("alice", -1))).cause == SUBJECT_TOKEN_EXPIRED
        assert tools.request_count == 0


async def test_subject_token_for_another_audience_gets_no_token() -> None:
    async with world() as tools:
        error = await tools.failure(tools.person("alice", aud="https://other.example.com"))
        assert (error.cause, tools.provider.grants) == (INVALID_REQUEST, [])
        assert "sign in" in str(error)


async def test_client_credentials_are_one_token_for_all_persons() -> None:
    async with world(CLIENT_CREDENTIALS) as tools:
        token = await tools.source.obtain(tools.person("alice"))
        assert tools.source.find_cached(tools.person("bob")) is token
        assert tools.source.find_cached(GATEWAY) is token
        assert (tools.request_count, tools.provider.tokens_by_person[""]) == (1, 1)


# Lifetimes


async def test_token_never_outlives_the_subject_token() -> None:
    async with world() as tools:
        tools.provider.lifetime = 3_600
        alice = tools.person("alice", 100)
        token = await tools.source.obtain(alice)
        assert token.expires_at == alice.expires_at
        tools.later(91)
        assert tools.source.find_cached(alice) is None
        tools.later(10)
        assert (await tools.failure(alice)).cause == SUBJECT_TOKEN_EXPIRED


async def test_newer_subject_token_of_a_person_keeps_the_cached_token_while_both_are_valid() -> None:
    async with world() as tools:
        token = await tools.source.obtain(tools.person("alice", 600))
        assert tools.source.find_cached(tools.person("alice", 5_000)) is token
        shorter = tools.person("alice", 50)
        assert tools.source.find_cached(shorter) is token
        tools.later(51)
        assert tools.source.find_cached(shorter) is None
        assert tools.source.find_cached(tools.person("alice", 600)) is token


@pytest.mark.parametrize("offset", [120, -120])
async def test_two_minutes_between_the_clocks_do_not_matter(offset: float) -> None:
    async with world() as tools:
        tools.provider.offset = offset
        token = await tools.source.obtain(tools.person("alice"))
        assert token.expires_at == pytest.approx(tools.clock.now + 300, abs=1)


@pytest.mark.parametrize("offset", [120, -120])
async def test_two_minutes_between_the_clocks_cost_an_assertion_one_more_request_once(offset: float) -> None:
    key = ECKey.generate_key("P-256")
    client = Client("private_key_jwt", key=key)
    secret = Credential(private_key=json.dumps(key.as_dict(private=True)))
    async with world(client=client, credential=secret) as tools:
        tools.provider.assertion_audiences = (tools.provider.token_url,)
        tools.provider.offset = offset
        for name in ("alice", "bob"):
            await tools.source.obtain(tools.person(name))
        assert tools.request_count == 3
        tools.provider.offset = 3_600
        assert (await tools.failure(tools.person("carol", 9_000))).cause == INVALID_CLIENT


# One grant for many callers


async def test_200_calls_of_a_person_after_expiry_are_one_grant() -> None:
    async with world() as tools:
        await tools.source.obtain(tools.person("alice", 5_000))
        tools.later(290)
        assert tools.source.find_cached(tools.person("alice", 5_000)) is None
        tokens = await asyncio.gather(*(tools.source.obtain(tools.person("alice", 5_000 + n)) for n in range(200)))
        assert len({token.value for token in tokens}) == 1
        assert tools.provider.tokens_by_person["alice"] == 2


async def test_person_whose_grant_is_slow_delays_nobody_else() -> None:
    async with world() as tools:
        tools.provider.hold["alice"] = asyncio.Event()
        slow = [asyncio.ensure_future(tools.source.obtain(tools.person("alice"))) for _ in range(50)]
        await tools.provider.arrived.wait()
        others = await asyncio.gather(*(tools.source.obtain(tools.person(f"p{n}")) for n in range(40)))
        assert [tools.provider.verify(token.value)["sub"] for token in others] == [f"p{n}" for n in range(40)]
        assert not any(task.done() for task in slow)
        tools.provider.hold["alice"].set()
        assert len({token.value for token in await asyncio.gather(*slow)}) == 1


async def test_cancelled_caller_leaves_the_grant_to_others_and_the_last_one_ends_it() -> None:
    async with world() as tools:
        tools.provider.hold["alice"] = asyncio.Event()
        first, second = (asyncio.ensure_future(tools.source.obtain(tools.person("alice"))) for _ in range(2))
        await tools.provider.arrived.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert not second.done()
        assert tools.provider.server is not None
        assert not tools.provider.server.broken_off.is_set()
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not running_grants(), "no time limit has to end it"
        async with asyncio.timeout(30):
            await tools.provider.server.broken_off.wait()
        tools.provider.hold.clear()
        await tools.source.obtain(tools.person("alice"))
        assert (tools.request_count, tools.provider.tokens_by_person["alice"]) == (2, 1)


async def test_caller_with_a_good_token_does_not_share_the_failure_of_an_older_one() -> None:
    async with world() as tools:
        stale = tools.person("alice", aud="https://other.example.com")
        results = await asyncio.gather(
            tools.source.obtain(stale), tools.source.obtain(tools.person("alice")), return_exceptions=True
        )
        assert isinstance(results[0], GrantFailed)
        assert not isinstance(results[1], BaseException)
        assert tools.request_count == 2


# Failures


async def test_failed_grant_is_not_repeated_by_a_burst_but_by_a_newer_token_or_after_a_pause() -> None:
    async with world() as tools:
        tools.provider.strangers.add("alice")
        alice = tools.person("alice")
        for _ in range(20):
            assert (await tools.failure(alice)).cause == ACCESS_DENIED
        assert tools.request_count == 1
        await tools.source.obtain(tools.person("bob"))
        await tools.failure(tools.person("alice", 601))
        assert tools.request_count == 3
        tools.provider.strangers.clear()
        tools.later(1.1)
        await tools.source.obtain(alice)


async def test_wrong_secret_pauses_the_grants_of_all_persons_until_the_credential_changes() -> None:
    async with world(credential=Credential(client_secret="wrong-secret")) as tools:
        for name in ("alice", "bob", "carol"):
            error = await tools.failure(tools.person(name))
            assert error.cause == INVALID_CLIENT
            assert "secretRef" in str(error)
        assert tools.request_count == 1
        renewed = TokenSource(tools.provider.settings(TOKEN_EXCHANGE), tools.provider.credential(), token_access())
        await renewed.obtain(tools.person("alice"))
        await renewed.aclose()


async def test_client_credentials_that_are_refused_ask_nobody_to_sign_in() -> None:
    async with world(CLIENT_CREDENTIALS) as tools:

        def refuse(answer: TokenAnswer) -> None:
            answer.status, answer.members = 400, {"error": "invalid_grant"}

        tools.provider.answer = refuse
        error = await tools.failure(GATEWAY)
        assert (error.cause, "sign in" in str(error)) == (INVALID_GRANT, False)


async def test_grants_that_gave_a_token_are_observed_once() -> None:
    observed: list[bytes] = []

    def observe(subject: TokenSubject, seconds: float) -> None:
        observed.append(subject.person)
        assert seconds >= 0

    async with world(options={"observe": observe}) as tools:
        tools.provider.strangers.add("bob")
        await asyncio.gather(*(tools.source.obtain(tools.person("alice")) for _ in range(5)))
        assert (await tools.failure(tools.person("bob"))).cause == ACCESS_DENIED
        assert observed == [b"alice"]


# Answers of the server


async def test_refused_token_is_replaced_once_for_all_its_calls() -> None:
    async with world() as tools:
        alice = tools.person("alice")
        old = await tools.source.obtain(alice)
        new = await asyncio.gather(
            *(tools.source.obtain(alice, refused_token=old, challenge=UNAUTHORIZED) for _ in range(20))
        )
        late = await tools.source.obtain(alice, refused_token=old, challenge=UNAUTHORIZED)
        assert {token.value for token in new} == {late.value}
        assert late.value != old.value
        assert tools.request_count == 2


async def test_server_that_refuses_each_token_does_not_cause_a_grant_per_call() -> None:
    async with world() as tools:
        alice = tools.person("alice")
        token = await tools.source.obtain(alice)
        token = await tools.source.obtain(alice, refused_token=token, challenge=UNAUTHORIZED)
        error = await tools.failure(alice, refused_token=token, challenge=UNAUTHORIZED)
        assert error.cause == TOKEN_REFUSED
        assert "trusts this issuer" in str(error)
        assert (await tools.failure(alice)).cause == TOKEN_REFUSED
        assert tools.request_count == 2
        tools.later(1.1)
        await tools.source.obtain(alice)
        assert tools.request_count == 3


async def test_demand_for_more_scopes_gets_their_union_which_is_remembered_for_the_person() -> None:
    async with world(scopes=("read",)) as tools:
        alice = tools.person("alice", 5_000)
        narrow = await tools.source.obtain(alice)
        demand = Challenge("insufficient_scope", ("write",))
        wide = await asyncio.gather(
            *(tools.source.obtain(alice, refused_token=narrow, challenge=demand) for _ in range(9))
        )
        assert wide[0].scopes == {"read", "write"}
        assert tools.source.find_cached(alice) is wide[0]
        assert tools.request_count == 2
        tools.later(299)
        assert (await tools.source.obtain(alice)).scopes == {"read", "write"}
        assert (await tools.source.obtain(tools.person("bob"))).scopes == {"read"}


async def test_demand_that_a_new_token_would_not_satisfy_is_an_error_and_no_grant() -> None:
    async with world(scopes=("read",)) as tools:
        alice = tools.person("alice")
        token = await tools.source.obtain(alice)
        for scopes in ((), ("read",)):
            error = await tools.failure(alice, refused_token=token, challenge=Challenge("insufficient_scope", scopes))
            assert error.cause == INSUFFICIENT_SCOPE
        assert tools.request_count == 1


async def test_demanded_scopes_that_the_person_does_not_get_leave_the_token_as_it_was() -> None:
    async with world(scopes=("read",)) as tools:
        alice = tools.person("alice", 5_000)
        token = await tools.source.obtain(alice)
        demand = Challenge("insufficient_scope", ("root",))
        assert (await tools.failure(alice, refused_token=token, challenge=demand)).cause == INVALID_SCOPE
        assert tools.source.find_cached(alice) is token
        tools.later(299)
        assert (await tools.source.obtain(alice)).scopes == {"read"}


async def test_scopes_that_a_person_has_lost_are_given_up() -> None:
    async with world(scopes=("read",)) as tools:
        alice = tools.person("alice", 5_000)
        token = await tools.source.obtain(alice)
        await tools.source.obtain(alice, refused_token=token, challenge=Challenge("insufficient_scope", ("write",)))
        tools.provider.scopes = {"read"}
        tools.later(299)
        assert (await tools.source.obtain(alice)).scopes == {"read"}


async def test_demand_for_more_scopes_than_a_token_may_have_is_refused() -> None:
    async with world(scopes=tuple(f"own{n}" for n in range(10))) as tools:
        demand = Challenge("insufficient_scope", tuple(f"s{n}" for n in range(60)))
        error = await tools.failure(tools.person("alice"), challenge=demand)
        assert (error.cause, "cannot have so many" in str(error)) == (INSUFFICIENT_SCOPE, True)


@pytest.mark.parametrize("width", [8, 250])
async def test_server_that_demands_other_scopes_each_time_is_refused_at_the_limit_of_one_token(width: int) -> None:
    demands = [f"s{number}".ljust(width, "x") for number in range(100)]

    def ignore_scopes(answer: TokenAnswer) -> None:
        answer.members["scope"] = "read"

    async with world(scopes=("read",)) as tools:
        alice = tools.person("alice")
        tools.provider.scopes |= set(demands)
        tools.provider.answer = ignore_scopes

        async def demand_each() -> None:
            token = await tools.source.obtain(alice)
            for scope in demands:
                challenge = Challenge("insufficient_scope", (scope,))
                token = await tools.source.obtain(alice, refused_token=token, challenge=challenge)

        with pytest.raises(GrantFailed, match="cannot have so many") as failed:
            await demand_each()
        assert failed.value.cause == INSUFFICIENT_SCOPE
        requested = [dict(request)["scope"].split() for request in tools.provider.requests]
        assert all(fit_one_token(scopes) for scopes in requested)
        assert len(requested) > 30


async def test_settings_without_their_secret_are_an_error_of_each_call_and_not_of_the_start() -> None:
    async with world(credential=Credential()) as tools:
        assert tools.source.find_cached(tools.person("alice")) is None
        for _ in range(2):
            error = await tools.failure(tools.person("alice"))
            assert (error.cause, "secretRef" in str(error)) == (CONFIGURATION, True)
        assert tools.request_count == 0


# Discovery


async def test_discovered_endpoint_stays_in_use_while_the_issuers_metadata_is_away() -> None:
    async with world() as tools:
        provider = tools.provider
        source = TokenSource(
            provider.settings(TOKEN_EXCHANGE, issuer=provider.url),
            provider.credential(),
            token_access(clock=tools.clock, monotonic=tools.monotonic),
        )
        await source.obtain(tools.person("alice"))
        provider.metadata_paths = ()
        tools.later(DISCOVERY_SECONDS - 1)
        await source.obtain(tools.person("bob"))
        tools.later(1)
        with pytest.raises(GrantFailed, match="publishes no metadata"):
            await source.obtain(tools.person("carol"))
        provider.metadata_status = 500
        tools.later(5)
        before = len(provider.received)
        await source.obtain(tools.person("carol"))
        await source.obtain(tools.person("dave"))
        metadata = [request for request in provider.received[before:] if request.verb == "GET"]
        assert len(metadata) == 2, "places of one failed discovery, after which there is a pause"
        await source.aclose()


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "405 Method Not Allowed", "410 Gone"])
async def test_endpoint_that_moved_is_discovered_within_a_minute(status: str) -> None:
    async with world() as tools, token_endpoint() as other:
        other.keys = tools.provider.keys
        source = TokenSource(
            tools.provider.settings(TOKEN_EXCHANGE, issuer=tools.provider.url),
            tools.provider.credential(),
            token_access(clock=tools.clock, monotonic=tools.monotonic),
        )
        await source.obtain(tools.person("alice"))
        tools.later(RETRY_SECONDS)
        tools.provider.metadata = {"token_endpoint": other.token_url}

        def answer_gone(answer: TokenAnswer) -> None:
            answer.raw = f"HTTP/1.1 {status}\r\ncontent-length: 4\r\n\r\ngone".encode()

        tools.provider.answer = answer_gone
        with pytest.raises(GrantFailed) as failed:
            await source.obtain(tools.person("bob"))
        assert failed.value.cause == BAD_ANSWER
        await source.obtain(tools.person("carol"))
        assert (other.tokens_by_person, tools.provider.tokens_by_person) == ({"carol": 1}, {"alice": 1, "bob": 1})
        await source.aclose()


async def test_token_endpoint_is_verified_by_its_own_certificates(tmp_path: Path) -> None:
    authority = Authority()
    async with token_endpoint(tls=authority.server_context(tmp_path)) as provider:
        bundles = {authority.bundle: "", Authority().bundle: UNREACHABLE, "nonsense": CONFIGURATION}
        causes = []
        for bundle in bundles:
            source = TokenSource(
                provider.settings(issuer=provider.url, ca_bundle=bundle), provider.credential(), token_access()
            )
            try:
                await source.obtain(GATEWAY)
                causes.append("")
            except GrantFailed as error:
                causes.append(error.cause)
            await source.aclose()
        assert causes == list(bundles.values())
        assert len(provider.requests) == 1


# Ends


async def test_forgotten_person_gets_a_new_token_even_from_a_grant_in_progress() -> None:
    async with world() as tools:
        tools.provider.hold["alice"] = asyncio.Event()
        running = asyncio.ensure_future(tools.source.obtain(tools.person("alice")))
        await tools.provider.arrived.wait()
        tools.source.forget(b"alice")
        tools.provider.hold["alice"].set()
        await running
        assert tools.source.find_cached(tools.person("alice")) is None
        await tools.source.obtain(tools.person("alice"))
        tools.source.forget(b"alice")
        assert tools.source.find_cached(tools.person("alice")) is None


async def test_closed_source_fails_its_callers_and_leaves_no_task() -> None:
    async with world() as tools:
        tools.provider.hold["alice"] = asyncio.Event()
        running = asyncio.ensure_future(tools.source.obtain(tools.person("alice")))
        await tools.provider.arrived.wait()
        await tools.source.aclose()
        with pytest.raises(GrantFailed) as failed:
            await running
        assert failed.value.cause == CLOSED
        assert (await tools.failure(tools.person("bob"))).cause == CLOSED
        assert running_grants() == []


async def test_connections_to_the_token_endpoint_are_kept_and_limited() -> None:
    async with world() as tools:
        everybody = [tools.person(f"p{n}") for n in range(100)]
        await asyncio.gather(*(tools.source.obtain(person) for person in everybody))
        assert tools.provider.server is not None
        assert tools.provider.server.opened <= 16
        assert sum(tools.provider.tokens_by_person.values()) == 100


async def test_no_message_or_text_has_a_secret_or_token() -> None:
    texts: list[str] = []

    def quote(answer: TokenAnswer) -> None:
        request = tools.provider.received[-1]
        words = f"{request.headers.get('authorization')} {request.body.decode()}"
        answer.status, answer.members = 400, {"error": "invalid_grant", "error_description": words[:90] + words[-500:]}

    for method in ("client_secret_basic", "client_secret_post"):
        async with world(client=Client(method)) as tools:
            alice = tools.person("alice")
            token = await tools.source.obtain(alice)
            tools.provider.answer = quote
            error = await tools.failure(alice, refused_token=token)
            texts += [str(error), repr(error), repr(token), repr(alice), repr(tools.source), str(error.__cause__)]
            for secret in (SECRET, token.value, alice.token, *alice.token.split("."), "s3cr3t"):
                assert not [text for text in texts if secret in text]
