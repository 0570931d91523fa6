"""Separation of users at servers that bind sessions, streams, questions, tasks and results to a user."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from askers import conversation, session_of
from fairlead_api.documents.catalog import CredentialRef, DeclaredLatency, Definition
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS
from fairlead_mcp.http.dial import Resolve
from gatewayworld import (
    LEGACY,
    META,
    MODERN,
    Ask,
    Wire,
    ask,
    calling,
    catalog,
    entry,
    legacy,
    limits,
    modern,
    publish,
    running,
    wait_for_snapshots,
)
from oauthworld import exchanging, oauth_catalog, of, text_of
from protectedsdk import protected_sdk_server
from protectedservers import CONFIRM, WHOAMI, protected_server
from rawserver import RawServer, Reply, Request, raw_server
from taskserver import CAPABILITIES, DECLARING, TaskServer
from tokenendpoint import TokenEndpoint, token_endpoint
from waiting import eventually

PERSONS = ("alice", "bob")
OFFER: dict[str, Any] = {META + "clientCapabilities": {"elicitation": {"form": {}}}}
WATCHING = Raw(b'{"resources":{"subscribe":true},"tools":{}}')
NOTE = "test://note"


def bearer(provider: TokenEndpoint, person: str) -> str:
    return f"Bearer {provider.subject_token(person)}"


def to_pods(*servers: RawServer) -> Resolve:
    """Resolver by which every host except this machine has these servers as its pods."""

    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        if host == "127.0.0.1":
            return [(host, port)]
        return [("127.0.0.1", server.port) for server in servers]

    return resolve


def over_rest(provider: TokenEndpoint, person: str, tool: str) -> Ask:
    message = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": tool, "input": {}}]}
    headers = {"content-type": "application/json", "authorization": bearer(provider, person)}
    return Ask({"format": "anthropic", "message": message}, headers, target="/v1/tool-calls")


@pytest.mark.parametrize("server_era", [LEGACY, MODERN])
async def test_no_person_uses_a_session_of_another_at_the_sdks_server(
    tmp_path: Path, server_era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mcp")
    async with token_endpoint() as provider, protected_sdk_server(provider, "read") as server:
        box = oauth_catalog(provider, "box", server.url, [WHOAMI, CONFIRM], version=server_era)
        async with exchanging(tmp_path, provider, box) as gateway:
            sessions = {
                person: await session_of(gateway, {"elicitation": {}}, authorization=bearer(provider, person))
                for person in PERSONS
            }
            for _ in range(3):
                for person in PERSONS:
                    asks = (
                        calling("box__whoami"),
                        calling("box__whoami", era=LEGACY),
                        calling("box__whoami", era=LEGACY, session=sessions[person]),
                    )
                    answers = [await ask(gateway, of(provider, person, each)) for each in asks]
                    assert [text_of(answer) for answer in answers] == [person] * 3
    assert all(len(users) == 1 for users in server.users.values())
    assert "credential does not match" not in caplog.text
    assert "Rejecting" not in caplog.text
    assert provider.tokens_by_person == dict.fromkeys(PERSONS, 1)


@pytest.mark.parametrize("server_era", [LEGACY, MODERN])
async def test_questions_of_two_persons_calls_reach_each_its_own(tmp_path: Path, server_era: str) -> None:
    async with token_endpoint() as provider, protected_sdk_server(provider) as server:
        box = oauth_catalog(provider, "box", server.url, [WHOAMI, CONFIRM], version=server_era)
        async with exchanging(tmp_path, provider, box) as gateway:
            both = asyncio.Barrier(2)

            async def together() -> None:
                await both.wait()

            async def confirm(person: str) -> str:
                authorization = bearer(provider, person)
                session = await session_of(gateway, {"elicitation": {}}, authorization=authorization)
                response = {"result": {"action": "accept", "content": {"word": f"word of {person}"}}}
                call = {"name": "box__confirm", "arguments": {}}
                _, message = await conversation(
                    gateway, session, response, together, call, authorization=bearer(provider, person)
                )
                return str(message["result"]["content"][0]["text"])

            words = await asyncio.gather(*(confirm(person) for person in PERSONS))
            assert words == [f"{person}: word of {person}" for person in PERSONS]
    assert all(len(users) == 1 for users in server.users.values())


async def test_a_question_of_one_persons_call_is_not_answered_by_another(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_sdk_server(provider) as server:
        box = oauth_catalog(provider, "box", server.url, [WHOAMI, CONFIRM], version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            params = {"name": "box__confirm", "arguments": {}}
            first = [await ask(gateway, of(provider, each, modern("tools/call", params, **OFFER))) for each in PERSONS]
            results = [answer.message["result"] for answer in first]
            for person, result in reversed([*zip(PERSONS, results, strict=True)]):
                word = {"action": "accept", "content": {"word": person}}
                more = {
                    "inputResponses": dict.fromkeys(result["inputRequests"], word),
                    "requestState": result["requestState"],
                }
                stranger = next(other for other in PERSONS if other != person)
                stolen = await ask(gateway, of(provider, stranger, modern("tools/call", {**params, **more}, **OFFER)))
                assert "error" in stolen.message or stolen.message["result"].get("isError")
                answer = await ask(gateway, of(provider, person, modern("tools/call", {**params, **more}, **OFFER)))
                assert text_of(answer) == f"{person}: {person}"
    assert all(len(users) == 1 for users in server.users.values())


async def test_each_person_calls_over_rest_as_itself(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_sdk_server(provider) as server:
        box = oauth_catalog(provider, "box", server.url, [WHOAMI], version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            answers = [await ask(gateway, over_rest(provider, person, "box__whoami")) for person in PERSONS * 2]
    assert [person in answer.body.decode() for person, answer in zip(PERSONS * 2, answers, strict=True)] == [True] * 4
    assert server.calls == dict.fromkeys(PERSONS, 2)
    assert all(len(users) == 1 for users in server.users.values())


async def test_cached_results_and_shared_calls_are_never_another_persons(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        whoami = entry(WHOAMI, latency=DeclaredLatency(cacheable_seconds=60))
        box = oauth_catalog(provider, "box", server.url, [whoami])
        async with exchanging(tmp_path, provider, box) as gateway:
            protected.hold = asyncio.Event()
            calls = [
                asyncio.ensure_future(ask(gateway, of(provider, person, calling("box__whoami"))))
                for person in PERSONS * 3
            ]
            await eventually(lambda: protected.executed.total() == 2 and len(gateway.endpoint.context.calls) == 6)
            protected.hold.set()
            assert [text_of(answer) for answer in await asyncio.gather(*calls)] == [*PERSONS * 3]
            again = [await ask(gateway, of(provider, person, calling("box__whoami"))) for person in PERSONS]
    assert [text_of(answer) for answer in again] == [*PERSONS]
    assert protected.executed == dict.fromkeys(PERSONS, 1)


@pytest.mark.parametrize("server_era", [LEGACY, MODERN])
async def test_each_person_is_subscribed_as_itself(tmp_path: Path, server_era: str) -> None:
    definition = Definition(name=NOTE, definition=Raw(json.dumps({"uri": NOTE, "name": "note"}).encode()), hash="")
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(
            provider, "box", server.url, version=server_era, resources=(definition,), capabilities=WATCHING
        )
        async with exchanging(tmp_path, provider, box) as gateway:
            wires = {}
            for person in PERSONS:
                wires[person] = wire = await Wire.connect(gateway)
                listen = modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": [NOTE]}})
                wire.send(of(provider, person, listen))
                await wire.reader.readuntil(b"}}\n\n")
            await eventually(lambda: {*protected.listening} == {*PERSONS})
            await eventually(lambda: server_era == MODERN or server.methods().count("resources/subscribe") == 2)
            await protected.change("bob", NOTE)
            await wires["bob"].reader.readuntil(b"}}\n\n")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(wires["alice"].reader.readuntil(b"}}\n\n"), 0.2)
            for wire in wires.values():
                wire.close()
    assert protected.crossed == []


class BoundTasks:
    """A task server that accepts requests about a task only from the user whose call created it."""

    def __init__(self, provider: TokenEndpoint) -> None:
        self.provider = provider
        self.tasks = TaskServer()
        self.owners: dict[str, str] = {}
        self.crossed: list[tuple[str, str]] = []
        self.requests: Counter[tuple[str, str]] = Counter()

    async def handle(self, request: Request, reply: Reply) -> None:
        user = str(self.provider.verify(request.headers["authorization"].partition(" ")[2])["sub"])
        before = {*self.tasks.tasks}
        self.requests[user, request.method] += 1
        task = request.params.get("taskId")
        if task is not None and self.owners.get(task) != user:
            self.crossed.append((task, user))
        await self.tasks.handle(request, reply)
        self.owners.update(dict.fromkeys({*self.tasks.tasks} - before, user))


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_requests_about_a_task_go_as_the_person_whose_call_created_it(tmp_path: Path, era: str) -> None:
    async with token_endpoint() as provider:
        bound = BoundTasks(provider)
        async with raw_server(bound.handle) as server:
            capabilities = Raw(CAPABILITIES)
            box = oauth_catalog(provider, "box", server.url, ["must"], capabilities=capabilities)
            async with exchanging(tmp_path, provider, box) as gateway:
                ended = {"result": {"content": [{"type": "text", "text": "done"}], "isError": False}}
                for person in PERSONS:
                    call = {"name": "box__must", "arguments": {"ends": ended}}
                    if era == LEGACY:
                        answer = await ask(gateway, of(provider, person, legacy("tools/call", call)))
                        assert text_of(answer) == "done"
                        continue
                    created = await ask(gateway, of(provider, person, modern("tools/call", call, **DECLARING)))
                    task = created.message["result"]["taskId"]
                    got = modern("tasks/get", {"taskId": task}, **DECLARING).with_headers(mcp_name=task)
                    answer = await ask(gateway, of(provider, person, got))
                    assert answer.message["result"]["status"] == "completed"
                    other = next(each for each in PERSONS if each != person)
                    assert "error" in (await ask(gateway, of(provider, other, got))).message
    assert bound.crossed == []
    assert {user for user, method in bound.requests if method == "tasks/get"} == {*PERSONS}


async def test_a_session_restored_on_another_replica_reaches_the_server_as_its_person(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url, version=LEGACY)
        async with exchanging(folders[0], provider, box, session_key="k") as first:
            session = await session_of(first, {"elicitation": {}}, authorization=bearer(provider, "alice"))
            call = calling("box__whoami", era=LEGACY, session=session)
            assert text_of(await ask(first, of(provider, "alice", call))) == "alice"
        async with exchanging(folders[1], provider, box, session_key="k") as second:
            assert text_of(await ask(second, of(provider, "alice", call))) == "alice"
            stolen = await ask(second, of(provider, "bob", call))
            assert stolen.status == 404
    assert protected.crossed == []


async def test_sessions_of_persons_are_bounded_and_end_with_their_own_token(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url, version=LEGACY)
        async with exchanging(tmp_path, provider, box, upstream_sessions=2) as gateway:
            for person in ("alice", "bob", "carol", "dave"):
                assert text_of(await ask(gateway, of(provider, person, calling("box__whoami")))) == person
            sessions = gateway.registry.upstream(box.key).sessions  # type: ignore[attr-defined]
            assert len(sessions.open) == 2
            await eventually(lambda: {user for verb, _, user in protected.messages if verb == "DELETE"} >= {*PERSONS})
            protected.hold = asyncio.Event()
            busy = [
                asyncio.ensure_future(ask(gateway, of(provider, person, calling("box__whoami"))))
                for person in ("carol", "dave")
            ]
            await eventually(lambda: protected.executed["carol"] == protected.executed["dave"] == 2)
            refused = await ask(gateway, of(provider, "alice", calling("box__whoami")))
            assert refused.refusal == "RATE_LIMITED"
            protected.hold.set()
            await asyncio.gather(*busy)
    assert protected.crossed == []


async def test_the_session_of_the_person_who_called_longest_ago_makes_room(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url, version=LEGACY)
        async with exchanging(tmp_path, provider, box, upstream_sessions=2) as gateway:
            for person in ("alice", "bob", "alice", "carol", "alice"):
                assert text_of(await ask(gateway, of(provider, person, calling("box__whoami")))) == person
    opened = [user for _, method, user in protected.messages if method == "initialize"]
    assert opened == ["alice", "bob", "carol"]


async def test_subscribed_persons_keep_their_sessions_or_are_subscribed_again(tmp_path: Path) -> None:
    definition = Definition(name=NOTE, definition=Raw(json.dumps({"uri": NOTE, "name": "note"}).encode()), hash="")
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url, version=LEGACY, resources=(definition,), capabilities=WATCHING)

        def subscribers() -> list[str]:
            return [user for _, method, user in protected.messages if method == "resources/subscribe"]

        async with exchanging(tmp_path, provider, box, upstream_sessions=2) as gateway:

            async def watch(person: str) -> Wire:
                wire = await Wire.connect(gateway)
                listen = modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": [NOTE]}})
                wire.send(of(provider, person, listen))
                await wire.reader.readuntil(b"}}\n\n")
                return wire

            alice = await watch("alice")
            await eventually(lambda: subscribers() == ["alice"])
            for person in ("bob", "carol", "dave"):
                assert text_of(await ask(gateway, of(provider, person, calling("box__whoami")))) == person
            assert ("DELETE", "", "alice") not in protected.messages
            bob = await watch("bob")
            await eventually(lambda: subscribers() == ["alice", "bob"])
            assert text_of(await ask(gateway, of(provider, "carol", calling("box__whoami")))) == "carol"
            await eventually(lambda: subscribers() == ["alice", "bob", "alice"])
            await eventually(lambda: len(protected.listening["alice"]) == 2)
            protected.listening["alice"] = protected.listening["alice"][1:]
            await protected.change("alice", NOTE)
            await alice.reader.readuntil(b"}}\n\n")
            for wire in (alice, bob):
                wire.close()
    assert protected.crossed == []


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_both_attempts_of_a_hedged_call_go_as_its_person(tmp_path: Path, era: str) -> None:
    async with (
        token_endpoint() as provider,
        protected_server(provider) as (pod_one, first_server),
        protected_server(provider) as (pod_two, second_server),
    ):
        resolve = to_pods(first_server, second_server)
        whoami = entry(WHOAMI, latency=DeclaredLatency(idempotent=True))
        hedging = limits(hedge_after_ms=30, retries=0)
        url = "http://box.tools.svc:80/mcp"
        box = oauth_catalog(provider, "box", url, [whoami], version=era, limits=hedging)
        async with exchanging(tmp_path, provider, box, resolve=resolve) as gateway:
            for person in PERSONS:
                pod_one.hold = pod_two.hold = asyncio.Event()
                call = asyncio.ensure_future(ask(gateway, of(provider, person, calling("box__whoami"))))
                await eventually(lambda: pod_one.executed[person] + pod_two.executed[person] == 2)  # noqa: B023
                pod_one.hold.set()
                assert text_of(await call) == person
            assert gateway.registry.guard(box.key).hedges == len(PERSONS)
    assert pod_one.crossed == pod_two.crossed == []
    assert pod_one.executed + pod_two.executed == dict.fromkeys(PERSONS, 2)
    assert provider.tokens_by_person == dict.fromkeys(PERSONS, 1)


async def test_a_session_per_client_reaches_the_server_as_its_person(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url, version=LEGACY, session="PerClient")
        async with exchanging(tmp_path, provider, box) as gateway:
            for person in PERSONS:
                session = await session_of(gateway, {}, authorization=bearer(provider, person))
                for call in (calling("box__whoami", era=LEGACY, session=session), calling("box__whoami")):
                    assert text_of(await ask(gateway, of(provider, person, call))) == person
    assert protected.crossed == []
    assert provider.tokens_by_person == dict.fromkeys(PERSONS, 1)


async def test_callers_tokens_are_kept_only_while_a_server_needs_them(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (_, server):
        box = oauth_catalog(provider, "box", server.url)
        own = oauth_catalog(provider, "box", server.url, oauth={"grant": CLIENT_CREDENTIALS}, hash="2")
        async with exchanging(tmp_path, provider, own) as gateway:
            token = bearer(provider, "alice")
            call = calling("box__whoami").with_headers(authorization=token)

            def subject_token() -> Any:
                identity = gateway.endpoint.identities.recall(token.encode())
                assert identity is not None
                return identity.subject_token

            await ask(gateway, call)
            assert subject_token() is None
            publish(tmp_path / "documents", box)
            await wait_for_snapshots(gateway, 2)
            assert subject_token().value == token.partition(" ")[2]
            assert token.partition(" ")[2] not in repr(gateway.endpoint.identities.recall(token.encode()))
            assert text_of(await ask(gateway, call)) == "alice"
            publish(tmp_path / "documents", own)
            await wait_for_snapshots(gateway, 3)
            assert subject_token().value == ""


async def test_servers_with_one_credential_share_their_session_as_before(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        fixed = provider.token(sub="robot", client_id="x", aud="tools")
        (tmp_path / "credentials").mkdir()
        headers = {"headers": {"Authorization": f"Bearer {fixed}"}}
        (tmp_path / "credentials" / "fixed.json").write_text(json.dumps(headers))
        ref = CredentialRef(secret="fixed", key="k", hash="1")
        box = catalog("box", server.url, [WHOAMI], version=LEGACY, credential=ref)
        async with running(tmp_path, box) as gateway:
            assert [text_of(await ask(gateway, calling("box__whoami"))) for _ in range(3)] == ["robot"] * 3
    assert len([method for _, method, _ in protected.messages if method == "initialize"]) == 1


async def test_no_pod_gets_a_session_of_another_pod_or_person(tmp_path: Path) -> None:
    async with (
        token_endpoint() as provider,
        protected_server(provider) as (pod_one, first_server),
        protected_server(provider) as (pod_two, second_server),
    ):
        resolve = to_pods(first_server, second_server)
        box = oauth_catalog(provider, "box", "http://box.tools.svc:80/mcp", version=LEGACY)
        async with exchanging(tmp_path, provider, box, resolve=resolve) as gateway:
            for _ in range(4):
                calls = [ask(gateway, of(provider, person, calling("box__whoami"))) for person in PERSONS * 4]
                assert [text_of(answer) for answer in await asyncio.gather(*calls)] == [*PERSONS * 4]
    assert pod_one.crossed == pod_two.crossed == []
    assert pod_one.executed.total() > 0
    assert pod_two.executed.total() > 0
