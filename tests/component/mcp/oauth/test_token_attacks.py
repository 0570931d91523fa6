"""Malicious servers, issuers and token endpoints that try to get secrets, tokens or other hosts' answers, or to fill
memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, TOKEN_EXCHANGE
from fairlead_mcp.egress import Egress
from fairlead_mcp.errors import HttpRefused
from fairlead_mcp.http.dial import Address
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.http.reading import refusal
from fairlead_mcp.http.target import Target, with_body
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.errors import (
    BAD_ANSWER,
    DISCOVERY,
    HOST_NOT_ALLOWED,
    ISSUER_MISMATCH,
    PROVIDER_ERROR,
    TIMEOUT,
    UNREACHABLE,
    GrantFailed,
)
from fairlead_mcp.oauth.subject import GATEWAY, TokenSubject
from fairlead_mcp.oauth.token_endpoint import DISCOVERY_SECONDS
from fairlead_mcp.oauth.token_grants import DirectGrants
from fairlead_mcp.oauth.token_http import CONNECTIONS, MAX_BODY_BYTES
from fairlead_mcp.oauth.token_source import GRANT_SECONDS, TokenSource
from ports import free_port
from rawserver import RawServer, Reply, Request, raw_server
from tokenendpoint import SECRET, TokenAnswer, TokenEndpoint, token_access, token_endpoint
from virtualtime import HandClock
from waiting import soon

METADATA = "/.well-known/oauth-protected-resource"


@contextlib.asynccontextmanager
async def source_of_tokens(
    provider: TokenEndpoint, grant: str = CLIENT_CREDENTIALS, **members: Any
) -> AsyncIterator[TokenSource]:
    """A token source. `access`: members of its TokenAccess. Other keywords: members of its settings."""
    access = token_access(**members.pop("access", {}))
    source = TokenSource(provider.settings(grant, **members), provider.credential(), access)
    try:
        yield source
    finally:
        await source.aclose()


async def failure(source: TokenSource, subject: TokenSubject = GATEWAY, **options: Any) -> GrantFailed:
    with pytest.raises(GrantFailed) as failed:
        await source.obtain(subject, **options)
    return failed.value


@contextlib.asynccontextmanager
async def resource_server(**members: Any) -> AsyncIterator[RawServer]:
    """An MCP server that publishes protected resource metadata at the root, with the members `members`."""

    async def handle(request: Request, reply: Reply) -> None:
        if request.path == METADATA:
            url = server.url.removesuffix("/mcp")
            reply.send(200, json.dumps({"resource": url, **members}).encode())
        else:
            reply.send(404)

    async with raw_server(handle) as server:
        yield server


# The client's secret and its issuer


async def test_issuer_of_the_settings_is_discovered_at_each_of_its_places() -> None:
    inserted = ("/.well-known/oauth-authorization-server/realms/a", "/.well-known/openid-configuration/realms/a")
    for path in (*inserted, "/realms/a/.well-known/openid-configuration"):
        async with token_endpoint() as provider:
            provider.url += "/realms/a"
            provider.metadata_paths = (path,)
            async with source_of_tokens(provider, issuer=provider.url) as source:
                await source.obtain(GATEWAY)
                await source.obtain(GATEWAY, refused_token=source.find_cached(GATEWAY))
            paths = [request.path for request in provider.received]
            assert paths.count(path) == 1
            assert paths[-2:] == ["/realms/a/token"] * 2


@pytest.mark.parametrize("other", ["https://evil.example.com", "http://127.0.0.1", None])
async def test_metadata_of_another_issuer_gets_neither_secret_nor_token_request(other: str | None) -> None:
    async with token_endpoint() as provider, source_of_tokens(provider, issuer=provider.url) as source:
        provider.metadata = {"issuer": other}
        error = await failure(source)
        assert error.cause == (BAD_ANSWER if other is None else ISSUER_MISMATCH)
        assert provider.url in str(error)
        assert (other or "metadata") in str(error)
        assert provider.requests == []


async def test_server_that_names_another_issuer_never_sees_the_secret_and_both_names_are_told() -> None:
    async with token_endpoint() as evil, token_endpoint() as provider:
        async with (
            resource_server(authorization_servers=[evil.url]) as server,
            source_of_tokens(provider, issuer=provider.url, access={"server_url": server.url}) as source,
        ):
            challenge = Challenge("invalid_token", (), f"http://127.0.0.1:{server.port}{METADATA}")
            for given in (None, challenge):
                error = await failure(source, challenge=given)
                assert error.cause == ISSUER_MISMATCH
                assert evil.url in str(error)
                assert provider.url in str(error)
        assert (evil.received, provider.requests) == ([], [])


async def test_server_that_names_the_issuer_or_publishes_nothing_gets_a_token() -> None:
    async with token_endpoint() as provider:
        async with (
            resource_server(authorization_servers=["https://b", provider.url]) as server,
            source_of_tokens(provider, issuer=provider.url, access={"server_url": server.url}) as source,
        ):
            await source.obtain(GATEWAY)
            assert [request.path for request in server.seen] == [METADATA + "/mcp", METADATA]
        async with source_of_tokens(provider, issuer=provider.url) as source:
            await source.obtain(GATEWAY)


async def test_challenge_is_compared_with_the_issuer_though_a_discovery_without_one_runs() -> None:
    async with token_endpoint() as provider:

        async def handle(request: Request, reply: Reply) -> None:
            if request.path == "/of-the-challenge":
                named = {"resource": server.url, "authorization_servers": ["https://evil.example.com"]}
                reply.send(200, json.dumps(named).encode())
            else:
                reply.send(404)

        async with (
            raw_server(handle) as server,
            source_of_tokens(
                provider, TOKEN_EXCHANGE, issuer=provider.url, access={"server_url": server.url}
            ) as source,
        ):
            alice, bob = (TokenSubject(name.encode(), provider.subject_token(name)) for name in ("alice", "bob"))
            challenge = Challenge("invalid_token", (), f"http://127.0.0.1:{server.port}/of-the-challenge")
            token, error = await asyncio.gather(source.obtain(alice), failure(source, bob, challenge=challenge))
        assert provider.verify(token.value)["sub"] == "alice"
        assert error.cause == ISSUER_MISMATCH
        assert provider.tokens_by_person == {"alice": 1}


async def test_connections_to_endpoints_that_were_replaced_do_not_pile_up() -> None:
    clock = HandClock(time.monotonic())
    named: list[str] = []

    async def handle(request: Request, reply: Reply) -> None:
        if request.path.startswith(METADATA):
            reply.send(200, json.dumps({"resource": server.url, "authorization_servers": named}).encode())
        else:
            reply.send(404)

    async with token_endpoint() as provider, token_endpoint() as second, token_endpoint() as third:
        named.append(provider.url)
        access = {"monotonic": clock}
        async with (
            raw_server(handle) as server,
            source_of_tokens(provider, issuer=provider.url, access={**access, "server_url": server.url}) as source,
        ):
            token = await source.obtain(GATEWAY)
            assert isinstance(source._grants, DirectGrants)
            endpoint = source._grants._client._endpoint
            first = await endpoint.find()
            provider.metadata = {"token_endpoint": second.token_url}
            named[:] = ["https://evil.example.com"]
            for _ in range(5):
                clock.now += DISCOVERY_SECONDS
                assert (await failure(source, refused_token=token)).cause == ISSUER_MISMATCH
            assert endpoint._previous_http is None
            named[:] = [provider.url]
            for other in (second, third):
                provider.metadata = {"token_endpoint": other.token_url}
                clock.now += DISCOVERY_SECONDS
                token = await source.obtain(GATEWAY, refused_token=token)
                assert other.tokens_by_person == {"": 1}
            assert "closed" in repr(first.http._pool)


async def test_metadata_of_a_server_is_not_read_where_the_settings_have_the_token_endpoint() -> None:
    async with token_endpoint() as provider, resource_server(authorization_servers=["https://b"]) as server:
        where = {"issuer": provider.url, "token_url": provider.token_url}
        async with source_of_tokens(provider, access={"server_url": server.url}, **where) as source:
            await source.obtain(GATEWAY)
        assert server.seen == []


@pytest.mark.parametrize("resource", ["https://other.example.com/mcp", "http://127.0.0.1:1/mcp", "/mcp", ""])
async def test_metadata_about_another_resource_is_not_believed(resource: str) -> None:
    async with token_endpoint() as provider:
        async with (
            resource_server(resource=resource, authorization_servers=["https://evil.example.com"]) as server,
            source_of_tokens(provider, issuer=provider.url, access={"server_url": server.url}) as source,
        ):
            challenge = Challenge("invalid_token", (), f"http://127.0.0.1:{server.port}{METADATA}")
            error = await failure(source, challenge=challenge)
            assert error.cause == DISCOVERY
            assert "another resource" in str(error)
        async with (
            resource_server(resource=resource, authorization_servers=["https://evil.example.com"]) as server,
            source_of_tokens(provider, issuer=provider.url, access={"server_url": server.url}) as source,
        ):
            await source.obtain(GATEWAY)


async def test_token_endpoint_must_be_on_a_host_that_the_clients_secret_may_be_sent_to() -> None:
    async with token_endpoint() as provider:
        for members in ({}, {"issuer": provider.url}):
            async with source_of_tokens(provider, token_hosts="login.example.com", **members) as source:
                error = await failure(source)
                assert error.cause == HOST_NOT_ALLOWED
                assert "fairlead.dev/hosts" in str(error)
            allowed = f"login.example.com, 127.0.0.1:{provider.url.rpartition(':')[2]}"
            async with source_of_tokens(provider, token_hosts=allowed, **members) as source:
                await source.obtain(GATEWAY)


async def test_token_endpoint_in_clear_outside_of_machine_and_cluster_is_refused() -> None:
    async with token_endpoint() as provider:
        provider.metadata = {"token_endpoint": "http://login.example.com/token"}
        async with source_of_tokens(provider, issuer=provider.url) as source:
            error = await failure(source)
            assert (error.cause, "https" in str(error)) == (DISCOVERY, True)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_of_a_token_request_is_not_followed(status: int) -> None:
    async with token_endpoint() as evil, token_endpoint() as provider, source_of_tokens(provider) as source:
        location = f"{evil.token_url}?code=hidden"

        def redirect(answer: TokenAnswer) -> None:
            answer.status, answer.headers = status, {"location": location}

        provider.answer = redirect
        error = await failure(source)
        assert error.cause == BAD_ANSWER
        assert evil.token_url in str(error)
        assert "hidden" not in str(error)
        assert evil.received == []


async def test_redirect_of_metadata_is_not_followed() -> None:
    async with token_endpoint() as evil, token_endpoint() as provider:

        async def handle(request: Request, reply: Reply) -> None:
            reply.send(302, location=f"{evil.url}{request.path}")

        provider.handle = handle  # type: ignore[method-assign]  # the whole provider redirects
        async with raw_server(handle) as server:
            evil_issuer = f"http://127.0.0.1:{server.port}"
            async with source_of_tokens(provider, issuer=evil_issuer, access={"server_url": server.url}) as source:
                assert (await failure(source)).cause == DISCOVERY
        assert evil.received == []


# Addresses


class Rebinding:
    """Resolver that returns one address first and another address later, and counts its lookups."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.names: list[str] = []

    async def __call__(self, host: str, port: int) -> list[Address]:
        self.names.append(host)
        address = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
        return [(address, port)]


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/latest/meta-data/", "http://rebind.example.com/", "http://[::ffff:169.254.169.254]/"],
)
async def test_resource_metadata_at_a_foreign_address_is_not_even_looked_up(url: str) -> None:
    resolver = Rebinding("127.0.0.1")
    async with token_endpoint() as provider:
        access = {"resolve": Egress().guard(resolver, "default"), "server_url": "http://127.0.0.1:9/mcp"}
        async with source_of_tokens(provider, issuer=provider.url, access=access) as source:
            error = await failure(source, challenge=Challenge("invalid_token", (), url))
            assert (error.cause, "own origin" in str(error)) == (DISCOVERY, True)
            assert set(resolver.names) == {"127.0.0.1"}
            assert provider.requests == []


async def test_name_of_the_server_that_is_rebound_to_metadata_of_the_cloud_is_refused_at_connect() -> None:
    async with token_endpoint() as provider, resource_server(authorization_servers=[provider.url]) as server:
        resolver = Rebinding("169.254.169.254")

        async def resolve(host: str, port: int) -> list[Address]:
            return await resolver(host, port) if host == "rebind.example.com" else [(host, port)]

        url = f"http://rebind.example.com:{server.port}/mcp"
        access = {"resolve": Egress().guard(resolve, "default"), "server_url": url}
        challenge = Challenge("invalid_token", (), f"http://rebind.example.com:{server.port}{METADATA}")
        async with source_of_tokens(provider, issuer=provider.url, access=access) as source:
            error = await failure(source, challenge=challenge)
            assert error.cause == HOST_NOT_ALLOWED
            assert "rebind.example.com leads to a link-local address" in str(error)
            assert (resolver.names, provider.requests) == (["rebind.example.com"], [])


async def test_metadata_is_read_at_the_address_that_was_looked_at_wherever_the_name_leads_next() -> None:
    async with token_endpoint() as provider, resource_server(authorization_servers=[provider.url]) as server:
        resolver = Rebinding("127.0.0.1", "127.0.0.3")  # the second address stands for one that was not checked

        async def resolve(host: str, port: int) -> list[Address]:
            return await resolver(host, port) if host == "rebind.example.com" else [(host, port)]

        url = f"http://rebind.example.com:{server.port}/mcp"
        access = {"resolve": Egress().guard(resolve, "default"), "server_url": url}
        async with source_of_tokens(provider, issuer=provider.url, access=access) as source:
            await source.obtain(GATEWAY)
        assert [request.path for request in server.seen] == [METADATA + "/mcp", METADATA]
        assert resolver.names == ["rebind.example.com"]


async def test_token_endpoint_at_an_address_that_servers_may_not_have_is_refused_at_connect() -> None:
    async with token_endpoint() as provider:
        rules = Egress.of([], ["127.0.0.0/8"], confined=True, environ={})
        resolver = Rebinding("127.0.0.1")
        for members in ({}, {"issuer": provider.url}):
            access = {"resolve": rules.guard(resolver, "team", lambda address: asyncio.sleep(0, ""))}
            async with source_of_tokens(provider, access=access, **members) as source:
                error = await failure(source)
                assert error.cause == HOST_NOT_ALLOWED
                assert "not allowed for servers" in str(error)
        assert provider.received == []


# Answers


Answering = Callable[[Reply], Any]


async def dribble_body(reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        reply.chunk(b" ")
        await asyncio.sleep(1)


async def dribble_head(reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        reply.raw(b"x: y\r\n")
        await asyncio.sleep(1)


async def say_nothing(reply: Reply) -> None:
    await asyncio.Event().wait()


async def huge_body(reply: Reply) -> None:
    reply.send(200, b'{"access_token":"a"' + b" " * MAX_BODY_BYTES + b"}")


async def endless_body(reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(64):
        reply.chunk(b" " * 4096)
        await reply.flush()
    reply.close()


async def endless_head(reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\n")
    for number in range(2_000):
        reply.raw(b"x-%d: %b\r\n" % (number, b"y" * 100))
    await reply.flush()
    reply.close()


async def event_stream(reply: Reply) -> None:
    reply.open_stream()
    reply.event({"jsonrpc": "2.0", "id": 1, "result": {}})
    reply.end_stream()


async def reply_compressed(reply: Reply) -> None:
    reply.send(200, b"\x1f\x8b", content_encoding="gzip")


async def another_protocol(reply: Reply) -> None:
    reply.raw(b"SSH-2.0-OpenSSH_9\r\n\r\n")
    reply.close()


async def page(reply: Reply) -> None:
    reply.send(200, b"<html>Sign in", kind="text/html")


@contextlib.asynccontextmanager
async def odd_endpoint(answer: Answering, **access: Any) -> AsyncIterator[TokenSource]:
    async def handle(request: Request, reply: Reply) -> None:
        await answer(reply)

    async with raw_server(handle) as server, token_endpoint() as provider:
        provider.url = f"http://127.0.0.1:{server.port}"
        async with source_of_tokens(provider, access=access) as source:
            yield source


@pytest.mark.parametrize(
    "answer", [huge_body, endless_body, endless_head, event_stream, reply_compressed, another_protocol, page]
)
async def test_answer_that_is_not_small_json_is_refused(answer: Answering) -> None:
    async with odd_endpoint(answer) as source:
        error = await failure(source)
        assert error.cause == BAD_ANSWER
        assert "127.0.0.1" in str(error)


async def literal(host: str, port: int) -> list[Address]:
    return [(host, port)]


@pytest.mark.looptime(start=0)
@pytest.mark.parametrize("answer", [dribble_body, dribble_head, say_nothing])
async def test_slow_answer_ends_with_its_time_limit(answer: Answering) -> None:
    loop = asyncio.get_running_loop()
    async with odd_endpoint(answer, resolve=Egress().guard(literal, "default"), monotonic=loop.time) as source:
        error = await failure(source)
        assert error.cause == TIMEOUT
        assert loop.time() <= GRANT_SECONDS


@pytest.mark.looptime(start=0)
async def test_slow_grants_that_take_all_connections_do_not_count_as_a_provider_that_is_away() -> None:
    loop = asyncio.get_running_loop()
    names = [f"p{number}" for number in range(CONNECTIONS + 2)]
    async with token_endpoint() as provider:
        provider.hold = {name: asyncio.Event() for name in names}
        access = {"resolve": Egress().guard(literal, "default"), "monotonic": loop.time}
        async with source_of_tokens(provider, TOKEN_EXCHANGE, access=access) as source:
            persons = [TokenSubject(name.encode(), provider.subject_token(name)) for name in names]
            errors = await asyncio.gather(*(failure(source, person) for person in persons))
    assert {(error.cause, error.for_everybody) for error in errors} == {(TIMEOUT, False)}
    assert len([error for error in errors if f"is busy with {CONNECTIONS} other requests" in str(error)]) == 2


@pytest.mark.looptime(start=0)
async def test_slow_discovery_and_token_request_share_one_time_limit() -> None:
    loop = asyncio.get_running_loop()
    async with token_endpoint() as provider:

        async def slow(request: Request, reply: Reply) -> None:
            await asyncio.sleep(4)
            reply.send(404)

        async with raw_server(slow) as server:
            issuer = f"http://127.0.0.1:{server.port}/path"
            access = {"resolve": Egress().guard(literal, "default"), "monotonic": loop.time}
            async with source_of_tokens(provider, issuer=issuer, access=access) as source:
                assert (await failure(source)).cause == TIMEOUT
                assert loop.time() == pytest.approx(GRANT_SECONDS, abs=0.5)


async def test_provider_that_is_away_or_refuses_connections_is_named() -> None:
    async with token_endpoint() as provider, source_of_tokens(provider) as source:
        provider.away = True
        error = await failure(source)
        assert (error.cause, error.for_everybody) == (PROVIDER_ERROR, False)
        assert "try again" in str(error)
        closed = f"http://127.0.0.1:{free_port()}/token"
        unreachable = TokenSource(
            provider.settings(TOKEN_EXCHANGE, token_url=closed), provider.credential(), token_access()
        )
        for name in (b"alice", b"bob"):
            error = await failure(unreachable, TokenSubject(name, "token"))
            assert (error.cause, error.for_everybody) == (UNREACHABLE, True)
            assert "refused the connection" in str(error)
        await unreachable.aclose()


@pytest.mark.parametrize("lifetime", [-1, 0, "NaN", [], True, -1e300])
async def test_lifetime_that_is_not_positive_gives_no_token_and_no_grant_per_call(lifetime: Any) -> None:
    async with token_endpoint() as provider, source_of_tokens(provider) as source:
        provider.lifetime = lifetime
        for _ in range(5):
            assert (await failure(source)).cause == BAD_ANSWER
        assert len(provider.requests) == 1


async def test_kept_connection_that_the_provider_has_closed_costs_no_grant() -> None:
    async with token_endpoint() as provider, source_of_tokens(provider) as source:
        token = await source.obtain(GATEWAY)
        assert provider.server is not None
        provider.server.cut()
        await source.obtain(GATEWAY, refused_token=token)


@pytest.mark.parametrize(("closing", "cause"), [(1, ""), (2, PROVIDER_ERROR)])
async def test_connection_that_is_closed_by_a_request_is_replaced_once(closing: int, cause: str) -> None:
    async with token_endpoint() as provider:
        answered = 0

        async def handle(request: Request, reply: Reply) -> None:
            nonlocal answered
            answered += 1
            if 1 < answered <= 1 + closing:
                reply.close()
            else:
                await provider.handle(request, reply)

        async with raw_server(handle) as server:
            url = f"http://127.0.0.1:{server.port}/token"
            async with source_of_tokens(provider, token_url=url) as source:
                token = await source.obtain(GATEWAY)
                if cause:
                    assert (await failure(source, refused_token=token)).cause == cause
                else:
                    await source.obtain(GATEWAY, refused_token=token)


# Challenges over the wire


async def test_challenges_in_several_lines_reach_their_reader() -> None:
    async def refuse(request: Request, reply: Reply) -> None:
        lines = ("Basic realm=x", 'Bearer error="insufficient_scope", scope="a b"', "NTLM")
        fields = "".join(f"WWW-Authenticate: {line}\r\n" for line in lines)
        reply.raw(f"HTTP/1.1 403 Forbidden\r\n{fields}content-length: 0\r\n\r\n".encode())

    async with raw_server(refuse) as server:
        pool = Pool("127.0.0.1", server.port)
        request = with_body(Target.from_url(server.url).head(), b"{}")
        error = refusal(await pool.exchange(request, deadline=soon()))
        assert isinstance(error, HttpRefused)
        assert Challenge.parse(error.challenge) == Challenge("insufficient_scope", ("a", "b"))
        await pool.aclose()


async def test_secret_is_sent_to_the_token_endpoint_alone() -> None:
    async with token_endpoint() as provider:
        async with (
            resource_server(authorization_servers=[provider.url]) as server,
            source_of_tokens(provider, issuer=provider.url, access={"server_url": server.url}) as source,
        ):
            await source.obtain(GATEWAY)
        others = [*server.seen, *(each for each in provider.received if each.path != "/token")]
        assert len(others) == 3
        assert not [each for each in others if "authorization" in each.headers or SECRET[:6] in str(each)]
