"""Access tokens that a server refuses during a call: the gateway sends its own messages with a new token."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from askers import PICKED, LegacyAsker, conversation, session_of, text_result
from gatewayworld import LEGACY, Ask, Wire, ask, calling, catalog, legacy, running
from oauthworld import exchanging, oauth_catalog, of, text_of
from rawserver import Handler, Reply, Request, raw_server
from tokenendpoint import TokenEndpoint, token_endpoint
from waiting import eventually

ELICITATION: dict[str, Any] = {"elicitation": {}}
CALL = {"name": "box__x", "arguments": {}}


class Strict:
    """Server that answers 401 for the tokens in `refused`, and passes all other requests to another server."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self.refused: set[str] = set()
        self.refuses_after_call = False
        """Whether a call's token is refused after the call was handled."""
        self.refuses_rests = False
        """Whether every GET for the rest of an answer is refused."""
        self.refusals: list[str] = []
        """Verb of each refused request."""
        self.authorizations: list[str] = []

    async def handle(self, request: Request, reply: Reply) -> None:
        self.authorizations.append(request.headers["authorization"])
        token = request.headers["authorization"].partition(" ")[2]
        if token in self.refused or (self.refuses_rests and "last-event-id" in request.headers):
            self.refusals.append(request.verb)
            reply.send(401, www_authenticate='Bearer error="invalid_token"')
            return
        if self.refuses_after_call and request.method == "tools/call":
            self.refused.add(token)
        await self._handle(request, reply)


class Interrupted:
    """A legacy server that ends the stream of each call early, and sends the answer to a GET for the rest."""

    def __init__(self, error: str = "") -> None:
        self.calls: list[Request] = []
        self._error = error
        """Message of the error that is the answer, to which the `Authorization` of the GET is added; empty: the answer
        is a result."""

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.verb == "GET" and "last-event-id" not in request.headers:
            reply.send(405)
        elif request.verb == "GET":
            outcome = (
                {"error": {"code": -32000, "message": f"{self._error} {request.headers['authorization']}"}}
                if self._error
                else {"result": text_result("late")}
            )
            reply.open_stream()
            reply.event({"jsonrpc": "2.0", "id": self.calls[-1].message["id"], **outcome})
            reply.end_stream()
        elif request.method == "initialize":
            hello = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            reply.result(request, hello, mcp_session_id="s1")
        elif request.method == "tools/call":
            self.calls.append(request)
            reply.open_stream()
            reply.chunk(b"id: e0\nretry: 30\ndata: \n\n")
            await reply.flush()
            reply.end_stream()
        else:
            reply.send(202)


class Standing:
    """A legacy server with log messages, whose GET streams the test ends."""

    def __init__(self) -> None:
        self.streams: list[tuple[str, str]] = []
        """`Authorization` and `Last-Event-ID` of each GET stream."""
        self.levels: list[str] = []
        """`Authorization` of each request that sets the log level."""
        self.deletes: list[str] = []
        """`Authorization` of each request that ends a session."""
        self.ends_stream = asyncio.Event()
        self.busy: list[int] = []
        """Statuses of the next GETs, which open no stream."""

    async def handle(self, request: Request, reply: Reply) -> None:
        authorization = request.headers.get("authorization", "")
        if request.verb == "GET" and self.busy:
            reply.send(self.busy.pop(0))
        elif request.verb == "GET":
            self.streams.append((authorization, request.headers.get("last-event-id", "")))
            reply.open_stream()
            reply.chunk(b"id: e%d\ndata: \n\n" % len(self.streams))
            await reply.flush()
            await self.ends_stream.wait()
            self.ends_stream.clear()
            reply.end_stream()
        elif request.verb == "DELETE":
            self.deletes.append(authorization)
            reply.send(200)
        elif request.method == "initialize":
            capabilities: dict[str, Any] = {"logging": {}}
            hello = {
                "protocolVersion": LEGACY,
                "capabilities": capabilities,
                "serverInfo": {"name": "s", "version": "1"},
            }
            reply.result(request, hello, mcp_session_id="s1")
        elif request.method == "logging/setLevel":
            self.levels.append(authorization)
            reply.result(request, {})
        elif request.method == "tools/call":
            reply.result(request, text_result("done"))
        else:
            reply.send(202)


def bearer(provider: TokenEndpoint) -> str:
    return f"Bearer {provider.subject_token('alice')}"


@pytest.mark.parametrize("expired", [False, True], ids=["refused", "expired"])
async def test_the_answer_to_a_question_reaches_the_server_with_a_valid_token(tmp_path: Path, expired: bool) -> None:
    asker = LegacyAsker()
    strict = Strict(asker.handle)
    async with token_endpoint() as provider, raw_server(strict.handle) as server:
        provider.lifetime = 1 if expired else 300
        box = oauth_catalog(provider, "box", server.url, ["x"], version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            authorization = bearer(provider)
            session = await session_of(gateway, ELICITATION, authorization=authorization)

            async def think() -> None:
                identity = gateway.endpoint.identities.recall(authorization.encode())
                credentials = gateway.registry.credentials(box.key)
                assert identity is not None
                assert credentials is not None
                if expired:
                    await eventually(lambda: credentials.find_cached(identity) is None)
                strict.refused.update(grant.token for grant in provider.grants)

            _, message = await conversation(
                gateway, session, {"result": PICKED}, think, CALL, authorization=authorization
            )
            assert "this" in message["result"]["content"][0]["text"]
            assert strict.refusals == ([] if expired else ["POST"])


async def test_a_cancellation_reaches_the_server_with_a_valid_token(tmp_path: Path) -> None:
    asker = LegacyAsker()
    strict = Strict(asker.handle)
    async with token_endpoint() as provider, raw_server(strict.handle) as server:
        box = oauth_catalog(provider, "box", server.url, ["x"], version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            authorization = bearer(provider)
            session = await session_of(gateway, ELICITATION, authorization=authorization)
            async with await Wire.connect(gateway) as wire:
                call = legacy("tools/call", CALL, number=7, session=session)
                wire.send(call.with_headers(authorization=authorization))
                await eventually(lambda: asker.answers)
                strict.refused.update(grant.token for grant in provider.grants)
                note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
                headers = {**legacy("x").headers, "mcp-session-id": session, "authorization": authorization}
                await ask(gateway, Ask(note, headers))
                await eventually(lambda: asker.cancelled)
    assert provider.tokens_by_person == {"alice": 2}


async def test_the_rest_of_an_answer_is_fetched_with_another_token_after_a_401(tmp_path: Path) -> None:
    interrupted = Interrupted()
    strict = Strict(interrupted.handle)
    strict.refuses_after_call = True
    async with token_endpoint() as provider, raw_server(strict.handle) as server:
        box = oauth_catalog(provider, "box", server.url, ["x"], version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            assert text_of(await ask(gateway, of(provider, "alice", calling("box__x")))) == "late"
    assert strict.refusals[0] == "GET"
    assert len(interrupted.calls) == 1
    assert provider.tokens_by_person == {"alice": 2}


async def test_a_call_is_not_repeated_when_the_get_for_the_rest_of_its_answer_is_refused(tmp_path: Path) -> None:
    """The server has executed the call; only the GET got the 401."""
    interrupted = Interrupted()
    strict = Strict(interrupted.handle)
    strict.refuses_rests = True
    async with token_endpoint() as provider, raw_server(strict.handle) as server:
        box = oauth_catalog(provider, "box", server.url, ["x"], version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            answer = await ask(gateway, of(provider, "alice", calling("box__x")))
            assert answer.refusal == "UPSTREAM_ERROR"
            assert strict.refusals == ["GET", "GET"], "with two tokens"
            assert len(interrupted.calls) == 1
    assert provider.tokens_by_person == {"alice": 2}


async def test_no_token_of_a_resumed_call_is_shown_to_the_client(tmp_path: Path) -> None:
    strict = Strict(Interrupted("you sent").handle)
    strict.refuses_after_call = True
    async with token_endpoint() as provider, raw_server(strict.handle) as server:
        box = oauth_catalog(provider, "box", server.url, ["x"], version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            answer = await ask(gateway, of(provider, "alice", calling("box__x")))
    assert "you sent" in str(answer.message)
    assert len(provider.grants) == 2
    assert not any(grant.token in str(answer.message) for grant in provider.grants)


async def test_a_clients_own_stream_is_opened_again_with_another_token_when_the_server_ends_it(tmp_path: Path) -> None:
    standing = Standing()
    strict = Strict(standing.handle)
    async with token_endpoint() as provider, raw_server(strict.handle) as server:
        box = oauth_catalog(provider, "box", server.url, ["x"], version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            authorization = bearer(provider)
            session = await session_of(gateway, ELICITATION, authorization=authorization)
            call = legacy("tools/call", CALL, session=session).with_headers(authorization=authorization)
            assert text_of(await ask(gateway, call)) == "done"
            strict.refused.update(grant.token for grant in provider.grants)
            standing.ends_stream.set()
            await eventually(lambda: len(standing.streams) == 2)
    (first, _), (second, after) = standing.streams
    assert strict.refusals[0] == "GET"
    assert [first, second] == [f"Bearer {grant.token}" for grant in provider.grants]
    assert after == "e1", "nothing in between is missed"


async def test_a_clients_own_stream_waits_for_a_token(tmp_path: Path) -> None:
    standing = Standing()
    strict = Strict(standing.handle)
    async with token_endpoint() as provider, raw_server(strict.handle) as server:
        box = oauth_catalog(provider, "box", server.url, ["x"], version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            authorization = bearer(provider)
            session = await session_of(gateway, ELICITATION, authorization=authorization)
            call = legacy("tools/call", CALL, session=session).with_headers(authorization=authorization)
            assert text_of(await ask(gateway, call)) == "done"
            provider.strangers.add("alice")
            strict.refused.update(grant.token for grant in provider.grants)
            requests = len(provider.requests)
            standing.ends_stream.set()
            await eventually(lambda: len(provider.requests) > requests)
            assert len(standing.streams) == 1
            assert strict.refusals == ["GET"], "the refused token is not tried again"
            provider.strangers.clear()
            await eventually(lambda: len(standing.streams) == 2)


async def test_a_stream_without_tokens_is_opened_again_too(tmp_path: Path) -> None:
    standing = Standing()
    async with (
        raw_server(standing.handle) as server,
        running(tmp_path, catalog("box", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        session = await session_of(gateway, ELICITATION)
        assert text_of(await ask(gateway, legacy("tools/call", CALL, session=session))) == "done"
        standing.ends_stream.set()
        await eventually(lambda: len(standing.streams) == 2)
    assert standing.streams == [("", ""), ("", "e1")]


async def test_a_stream_is_opened_again_after_its_server_was_busy(tmp_path: Path) -> None:
    standing = Standing()
    async with (
        raw_server(standing.handle) as server,
        running(tmp_path, catalog("box", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        session = await session_of(gateway, ELICITATION)
        assert text_of(await ask(gateway, legacy("tools/call", CALL, session=session))) == "done"
        standing.busy.extend((503, 429))
        standing.ends_stream.set()
        await eventually(lambda: len(standing.streams) == 2)
    assert standing.streams == [("", ""), ("", "e1")]


async def test_a_level_of_log_messages_is_set_with_a_valid_token(tmp_path: Path) -> None:
    standing = Standing()
    strict = Strict(standing.handle)
    async with token_endpoint() as provider, raw_server(strict.handle) as server:
        box = oauth_catalog(provider, "box", server.url, ["x"], version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            authorization = bearer(provider)
            session = await session_of(gateway, ELICITATION, authorization=authorization)

            async def answer_to(method: str, params: dict[str, Any]) -> Any:
                return await ask(
                    gateway, legacy(method, params, session=session).with_headers(authorization=authorization)
                )

            assert text_of(await answer_to("tools/call", CALL)) == "done"
            await answer_to("logging/setLevel", {"level": "debug"})
            strict.refused.update(grant.token for grant in provider.grants)
            assert text_of(await answer_to("tools/call", CALL)) == "done"
    assert standing.levels == [f"Bearer {provider.grants[-1].token}"]
    assert len(provider.grants) == 2


async def test_a_session_is_ended_with_a_valid_token(tmp_path: Path) -> None:
    standing = Standing()
    strict = Strict(standing.handle)
    async with token_endpoint() as provider, raw_server(strict.handle) as server:
        box = oauth_catalog(provider, "box", server.url, ["x"], version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            assert text_of(await ask(gateway, of(provider, "alice", calling("box__x")))) == "done"
            strict.refused.update(grant.token for grant in provider.grants)
    assert strict.refusals == ["DELETE"]
    assert standing.deletes == [f"Bearer {provider.grants[-1].token}"]
