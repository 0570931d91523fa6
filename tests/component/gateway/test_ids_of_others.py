"""Objects that are found by an id or by their content belong to one conversation, also without authentication.

Without authentication, a gateway distinguishes callers only by secrets that it gave them. An id that a server or a
client made may be guessed, so it must not suffice to find an object.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from askers import PICKED, LegacyAsker, conversation, session_of
from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_app.authentication import Trust
from fixed_authenticator import Names
from gatewayworld import LEGACY, Ask, Wire, ask, calling, catalog, entry, legacy, modern, running, wait_for_requests
from rawserver import Reply, Request, raw_server
from toolservers import answer_modern, broken_server
from waiting import eventually

CACHEABLE = entry({"name": "mine", "inputSchema": {"type": "object"}}, latency=DeclaredLatency(cacheable_seconds=60))


def _mine(request: Request, reply: Reply) -> None:
    """Answer a call with the secret of the user in `_meta`."""
    user = request.params["_meta"].get("example.com/user")
    answer_modern(request, reply, [], call=lambda _: {"content": [{"type": "text", "text": f"secret of {user}"}]})


async def _answers(request: Request, reply: Reply) -> None:
    _mine(request, reply)


def mine(meta: dict[str, Any]) -> Ask:
    return modern("tools/call", {"name": "demo__mine", "arguments": {}}, **meta)


@pytest.mark.parametrize("made_up", ["state 1", "fairlead-of.{mac}.state 1"])
async def test_an_anonymous_caller_goes_on_with_no_state_that_it_did_not_get(tmp_path: Path, made_up: str) -> None:
    """The server numbers its states, so anybody can guess them."""
    states: list[str] = []

    async def handle(request: Request, reply: Reply) -> None:
        states.append(request.params.get("requestState", ""))
        if states[-1]:
            reply.result(request, {"resultType": "complete", "content": [{"type": "text", "text": "the secret"}]})
        else:
            questions = {"q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}}
            reply.result(
                request, {"resultType": "input_required", "inputRequests": questions, "requestState": "state 1"}
            )

    params: dict[str, Any] = {"name": "demo__x", "arguments": {}}
    async with raw_server(handle) as server, running(tmp_path, catalog("demo", server.url, ["x"])) as gateway:
        given = (await ask(gateway, modern("tools/call", params))).message["result"]["requestState"]
        again = {**params, "inputResponses": {"q": PICKED}}
        guessed = made_up.format(mac="0" * 32)
        stolen = await ask(gateway, modern("tools/call", {**again, "requestState": guessed}))
        assert stolen.code == -32602, stolen.body
        own = await ask(gateway, modern("tools/call", {**again, "requestState": given}))
        assert own.message["result"]["content"][0]["text"] == "the secret"
    assert [state for state in states if state] == [given.rpartition(".")[2]]


async def test_a_state_of_one_server_leads_on_at_no_other(tmp_path: Path) -> None:
    """Both servers number their states. A client that got the first state of one server did not get that of the
    other."""
    seen: list[tuple[str, str]] = []

    def make_handler(name: str) -> Any:
        async def handle(request: Request, reply: Reply) -> None:
            seen.append((name, request.params.get("requestState", "")))
            questions = {"q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}}
            reply.result(request, {"resultType": "input_required", "inputRequests": questions, "requestState": "1"})

        return handle

    trust = Trust((Names("ann", "eve"),))
    async with (
        raw_server(make_handler("mine")) as mine,
        raw_server(make_handler("theirs")) as theirs,
        running(
            tmp_path, catalog("mine", mine.url, ["x"]), catalog("theirs", theirs.url, ["x"]), trust=trust
        ) as gateway,
    ):
        eve = {"authorization": "Bearer eve"}
        got = await ask(gateway, modern("tools/call", {"name": "mine__x", "arguments": {}}).with_headers(**eve))
        params = {"name": "theirs__x", "arguments": {}, "inputResponses": {"q": PICKED}}
        state = got.message["result"]["requestState"]
        stolen = await ask(gateway, modern("tools/call", {**params, "requestState": state}).with_headers(**eve))
        assert stolen.code == -32602, stolen.body
    assert seen == [("mine", "")]


async def test_an_anonymous_caller_cancels_nothing_by_a_session_id_that_it_made_up(tmp_path: Path) -> None:
    async with (
        broken_server("never") as server,
        running(tmp_path, catalog("demo", server.url, ["add"])) as gateway,
        await Wire.connect(gateway) as victim,
    ):
        victim.send(calling("demo__add", era=LEGACY, number=6))
        await wait_for_requests(server, 1)
        victim.send(calling("demo__add", era=LEGACY, number=7, session="my-agent"))
        cancel = legacy("notifications/cancelled", {"requestId": 7}, number=None, session="my-agent")
        assert (await ask(gateway, cancel)).status == 404
        assert len(gateway.endpoint.calls) == 1


async def test_an_anonymous_caller_sets_no_log_level_for_a_session_id_that_it_made_up(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        level = legacy("logging/setLevel", {"level": "debug"}, session="my-agent")
        assert (await ask(gateway, level)).status == 404
        assert not gateway.endpoint.context.levels


async def test_a_cached_result_reaches_only_callers_with_equal_meta(tmp_path: Path) -> None:
    """Many users may share one agent's key; a server may distinguish them by `_meta`."""
    async with raw_server(_answers) as server, running(tmp_path, catalog("demo", server.url, [CACHEABLE])) as gateway:
        texts = []
        for user in ("ann", "bob", "ann"):
            answer = await ask(gateway, mine({"example.com/user": user}))
            texts.append(answer.message["result"]["content"][0]["text"])
        assert texts == ["secret of ann", "secret of bob", "secret of ann"]
        assert len(server.seen) == 2


async def test_a_call_waits_for_no_result_of_somebody_else(tmp_path: Path) -> None:
    """Equal simultaneous calls are sent once. Calls with different members of `_meta` are not equal."""
    go = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        await go.wait()
        _mine(request, reply)

    async with raw_server(handle) as server, running(tmp_path, catalog("demo", server.url, [CACHEABLE])) as gateway:
        requests = [asyncio.ensure_future(ask(gateway, mine({"example.com/user": user}))) for user in ("ann", "bob")]
        await eventually(lambda: len(gateway.endpoint.calls) >= 2)
        go.set()
        answers = await asyncio.gather(*requests)
    assert [answer.message["result"]["content"][0]["text"] for answer in answers] == ["secret of ann", "secret of bob"]


async def test_client_info_and_trace_context_make_no_difference_to_a_cached_result(tmp_path: Path) -> None:
    async with raw_server(_answers) as server, running(tmp_path, catalog("demo", server.url, [CACHEABLE])) as gateway:
        more: list[dict[str, Any]] = [
            {"progressToken": "a"},
            {"progressToken": 2},
            {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"},
            {"io.modelcontextprotocol/clientInfo": {"name": "other", "version": "2"}},
            {"fairlead.dev/resultTokens": 500},
        ]
        for meta in more:
            assert (await ask(gateway, mine(meta))).status == 200
        assert len(server.seen) == 1


@pytest.mark.parametrize("name", ["response resp_1", "conversation conv_1", "turn 0123"])
async def test_stored_responses_and_turns_are_not_sessions_of_v1_context(tmp_path: Path, name: str) -> None:
    """The store also has responses and turns, some under ids of a provider. No caller can read or delete them by
    session name."""
    async with running(tmp_path) as gateway:
        store = gateway.rest.services.results.recorder.store
        assert store is not None
        await store.append(f"anonymous {name}", name, "response", b"\x91\xc0")
        read = await ask(gateway, Ask(verb="GET", target=f"/v1/context?session_id={quote(name)}&query=x", body=b""))
        answer = await ask(gateway, Ask(verb="GET", target=f"/v1/context?entry_id={quote(name)}/response", body=b""))
        gone = await ask(gateway, Ask(verb="DELETE", target=f"/v1/context?session_id={quote(name)}", body=b""))
        assert (read.status, read.message["entries"]) == (200, 0)
        assert answer.status == 404
        assert (gone.status, gone.message["entries"]) == (200, 0)
        assert await store.entries(f"anonymous {name}", name)


async def test_a_question_is_answered_in_the_session_that_it_went_to_alone(tmp_path: Path) -> None:
    """A question cannot be answered in another session with the same key, or in an anonymous session that knows its
    id."""
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        session, other = [await session_of(gateway, {"elicitation": {}}) for _ in range(2)]
        thief = {**legacy("x").headers, "mcp-session-id": other}

        async def steal() -> None:
            (ident,) = gateway.endpoint.server_requests._open_requests
            forged = {"action": "accept", "content": {"x": "forged"}}
            message = {"jsonrpc": "2.0", "id": json.loads(ident), "result": forged}
            assert (await ask(gateway, Ask(message, thief))).status == 202

        _, last = await conversation(gateway, session, {"result": PICKED}, steal)
    assert json.loads(last["result"]["content"][0]["text"]) == [PICKED]
