"""Calls at servers that require each user to sign in: each kind of client is asked once, in its own form."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from askedsignins import LOCAL, AskedSignIns, asked_sign_ins
from fairlead_app.authentication import Trust
from fairlead_client import AsyncToolRegistry, Server
from fairlead_gateway.calls.path import sign_in_calls
from fairlead_gateway.calls.path.page_answers import MAX_DIALOGS
from fixed_authenticator import Names
from gatewayworld import LEGACY, MODERN, Answer, Ask, Wire, ask, calling, legacy
from pageworld import CLIENTS, PageClient, assert_valid, legacy_ask, modern_ask, session_as, text_in
from restworld import MESSAGES, post
from waiting import eventually

LINK: Final = "https://gateway.example/sign-in/demo/1"
CALL: Final[dict[str, Any]] = {"name": "demo__whoami", "arguments": {}}
OPENS: Final = CLIENTS["2026-07-28 with url"]
OLD: Final = CLIENTS["2025-11-25 with url"]
NO_STREAM: Final = CLIENTS["2025-11-25 with url, without streams"]
TEXTS: Final = [name for name, kind in CLIENTS.items() if "url" not in (kind.elicitation or {}) or "know" in name]
TOKEN: Final = "Bearer of-local"


class Stream:
    """Stream of a legacy client's call, read message by message."""

    def __init__(self, world: AskedSignIns, wire: Wire, session: str) -> None:
        self.world = world
        self.wire = wire
        self.session = session

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while True:
                data = (await self.wire.reader.readuntil(b"\n\n")).partition(b"data: ")[2].strip()
                if data:
                    message: dict[str, Any] = json.loads(data)
                    return message

    async def answer(self, question: dict[str, Any], **response: Any) -> None:
        body = {"jsonrpc": "2.0", "id": question["id"], **response}
        posted = await ask(self.world.gateway, Ask(body, legacy_ask(OLD, "x", {}, self.session).headers))
        assert posted.status == 202


async def begin(world: AskedSignIns, wire: Wire, session: str = "", **meta: Any) -> Stream:
    session = session or await session_as(world.gateway, OLD)
    params = {**CALL, **({"_meta": meta} if meta else {})}
    wire.send(legacy_ask(OLD, "tools/call", params, session))
    return Stream(world, wire, session)


def refusal(message: dict[str, Any]) -> dict[str, Any]:
    detail: dict[str, Any] = message["result"]["_meta"]["fairlead.dev/error"]
    assert message["result"]["isError"] is True
    return detail


async def test_a_modern_client_repeats_the_call_until_the_person_has_signed_in(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path, timeout_ms=1000) as world:
        answer = (await ask(world.gateway, modern_ask(OPENS, "tools/call", CALL))).message["result"]
        for number in range(2, 4):
            assert_valid(MODERN, "InputRequiredResult", answer)
            (request,) = answer["inputRequests"].values()
            assert request["params"]["url"] == LINK
            assert "sign" in request["params"]["message"]
            more = {"inputResponses": {"page0": {"action": "accept"}}, "requestState": answer["requestState"]}
            if number == 3:
                world.sign_ins.sign_in()
            again = modern_ask(OPENS, "tools/call", {**CALL, **more}, number=number)
            answer = (await ask(world.gateway, again)).message["result"]
        assert (answer["resultType"], answer["content"][0]["text"]) == ("complete", TOKEN)
        assert world.calls == 1


async def test_a_modern_client_is_asked_some_times_and_then_gets_the_text_with_the_link(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path, timeout_ms=200) as world:
        rounds, more = 0, dict[str, Any]()
        while True:
            request = modern_ask(OPENS, "tools/call", {**CALL, **more}, number=rounds + 1)
            message = (await ask(world.gateway, request)).message
            if message["result"]["resultType"] != "input_required":
                break
            rounds += 1
            state = message["result"]["requestState"]
            more = {"inputResponses": {"page0": {"action": "accept"}}, "requestState": state}
        detail = refusal(message)
        assert (rounds, detail["code"], detail["signInUrl"]) == (MAX_DIALOGS, "SIGN_IN_REQUIRED", LINK)
        assert LINK in text_in(message)
        assert len(world.gateway.endpoint.context.sign_in_questions) == 0, "the next call asks again"


async def test_a_repeated_call_waits_and_runs_as_soon_as_the_person_has_signed_in(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world, await Wire.connect(world.gateway) as wire:
        first = (await ask(world.gateway, modern_ask(OPENS, "tools/call", CALL))).message["result"]
        more = {"inputResponses": {"page0": {"action": "accept"}}, "requestState": first["requestState"]}
        wire.send(modern_ask(OPENS, "tools/call", {**CALL, **more}, number=2))
        await eventually(lambda: world.sign_ins.waiting[LOCAL] == 1)
        world.sign_ins.sign_in()
        assert text_in((await wire.answer()).message) == TOKEN


async def test_a_legacy_client_is_asked_in_its_call_which_then_runs_by_itself(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world, await Wire.connect(world.gateway) as wire:
        stream = await begin(world, wire)
        question = await stream.next()
        assert_valid(LEGACY, "ServerRequest", question)
        assert question["params"]["url"] == LINK
        await stream.answer(question, result={"action": "accept"})
        await eventually(lambda: world.sign_ins.waiting[LOCAL] == 1)
        world.sign_ins.sign_in()
        done = await stream.next()
        assert_valid(LEGACY, "ServerNotification", done)
        assert done["params"] == {"elicitationId": question["params"]["elicitationId"]}
        assert text_in(await stream.next()) == TOKEN
        assert (world.calls, len(world.gateway.endpoint.context.sign_in_questions)) == (1, 0)


async def test_a_person_who_signs_in_before_the_client_answers_is_not_waited_for(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world, await Wire.connect(world.gateway) as wire:
        stream = await begin(world, wire)
        await stream.next()
        await eventually(lambda: world.sign_ins.waiting[LOCAL] == 1)
        world.sign_ins.sign_in()
        assert (await stream.next())["method"] == "notifications/elicitation/complete"
        assert text_in(await stream.next()) == TOKEN


async def test_a_call_that_waits_reports_progress_to_a_client_that_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in_calls, "PROGRESS_SECONDS", 0.05)
    async with asked_sign_ins(tmp_path) as world, await Wire.connect(world.gateway) as wire:
        stream = await begin(world, wire, progressToken="p")
        messages = [await stream.next() for _ in range(4)]
        world.sign_ins.sign_in()
    reports = [message["params"] for message in messages if message["method"] == "notifications/progress"]
    assert len(reports) >= 3
    assert {report["progressToken"] for report in reports} == {"p"}
    values = [report["progress"] for report in reports]
    assert values == sorted({*values})
    assert "default/demo" in reports[0]["message"]


async def test_a_client_without_a_stream_gets_the_error_and_its_repeated_call_waits(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world, await Wire.connect(world.gateway) as wire:
        session = await session_as(world.gateway, NO_STREAM)
        request = legacy_ask(NO_STREAM, "tools/call", CALL, session)
        required = (await wire.ask(request)).message
        assert_valid(LEGACY, "URLElicitationRequiredError", required)
        assert required["error"]["data"]["elicitations"][0]["url"] == LINK
        assert LINK in required["error"]["message"], "clients that show the message alone show the link"
        wire.send(request)
        await eventually(lambda: world.sign_ins.waiting[LOCAL] == 1)
        world.sign_ins.sign_in()
        assert text_in((await wire.answer()).message) == TOKEN


@pytest.mark.parametrize("client", TEXTS)
async def test_any_other_client_gets_the_link_in_the_text_at_once(tmp_path: Path, client: str) -> None:
    kind: PageClient = CLIENTS[client]
    async with asked_sign_ins(tmp_path) as world:
        if kind.revision == MODERN:
            answer = await ask(world.gateway, modern_ask(kind, "tools/call", CALL))
        else:
            session = await session_as(world.gateway, kind)
            answer = await ask(world.gateway, legacy_ask(kind, "tools/call", CALL, session))
    detail = refusal(answer.message)
    assert (detail["code"], detail["signInUrl"]) == ("SIGN_IN_REQUIRED", LINK)
    assert LINK in text_in(answer.message)
    assert_valid(kind.revision, "CallToolResult", answer.message["result"])


@pytest.mark.parametrize("client", ["2026-07-28 with url", "2025-11-25 with url", "2025-11-25 with nothing"])
async def test_a_caller_that_is_not_a_person_is_told_who_can_sign_in(tmp_path: Path, client: str) -> None:
    kind = CLIENTS[client]
    async with asked_sign_ins(tmp_path) as world:
        world.sign_ins.nobody = True
        if kind.revision == MODERN:
            answer = await ask(world.gateway, modern_ask(kind, "tools/call", CALL))
        else:
            session = await session_as(world.gateway, kind)
            answer = await ask(world.gateway, legacy_ask(kind, "tools/call", CALL, session))
    detail = refusal(answer.message)
    assert detail["code"] == "SIGN_IN_REQUIRED"
    assert "signInUrl" not in detail
    assert "have a person call" in text_in(answer.message)


async def test_a_person_who_declines_ends_the_call_and_is_asked_by_the_next(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world:
        for response in ({"result": {"action": "decline"}}, {"error": {"code": -1, "message": "no"}}):
            async with await Wire.connect(world.gateway) as wire:
                stream = await begin(world, wire)
                await stream.answer(await stream.next(), **response)
                assert refusal(await stream.next())["code"] == "CANCELLED"
        first = (await ask(world.gateway, modern_ask(OPENS, "tools/call", CALL))).message["result"]
        more = {"inputResponses": {"page0": {"action": "decline"}}, "requestState": first["requestState"]}
        declined = await ask(world.gateway, modern_ask(OPENS, "tools/call", {**CALL, **more}, number=2))
        assert declined.refusal == "CANCELLED"
        again = await ask(world.gateway, modern_ask(OPENS, "tools/call", CALL, number=3))
        assert again.message["result"]["resultType"] == "input_required"
        assert world.calls == 0


async def test_a_sign_in_that_fails_leaves_the_text_with_a_new_link(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world, await Wire.connect(world.gateway) as wire:
        stream = await begin(world, wire)
        await stream.answer(await stream.next(), result={"action": "accept"})
        await eventually(lambda: world.sign_ins.waiting[LOCAL] == 1)
        world.sign_ins.end()
        assert (await stream.next())["method"] == "notifications/elicitation/complete"
        assert refusal(await stream.next())["code"] == "SIGN_IN_REQUIRED"


async def test_a_person_who_does_not_sign_in_in_time_gets_the_text_with_the_link(tmp_path: Path) -> None:
    async with (
        asked_sign_ins(tmp_path, timeout_ms=400, max_timeout_ms=800) as world,
        await Wire.connect(world.gateway) as wire,
        await Wire.connect(world.gateway) as other,
    ):
        stream = await begin(world, wire)
        await stream.answer(await stream.next(), result={"action": "accept"})
        other.send(legacy_ask(OLD, "tools/call", CALL, stream.session))
        for message in ((await other.answer()).message, await stream.next()):
            detail = refusal(message)
            assert (detail["code"], detail["signInUrl"]) == ("SIGN_IN_REQUIRED", LINK)
            assert LINK in text_in(message)
        assert (world.calls, len(world.gateway.endpoint.context.sign_in_questions)) == (0, 0)


async def test_another_client_of_a_person_is_asked_itself(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world, await Wire.connect(world.gateway) as second:
        async with await Wire.connect(world.gateway) as first:
            stream = await begin(world, first)
            await stream.answer(await stream.next(), result={"action": "accept"})
            question = await (await begin(world, second)).next()
            assert (question.get("method"), question["params"]["url"]) == ("elicitation/create", LINK)
        async with await Wire.connect(world.gateway) as third:
            question = await (await begin(world, third)).next()
            assert (question.get("method"), question["params"]["url"]) == ("elicitation/create", LINK)


async def test_a_question_ends_with_the_connection_of_its_client(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world, await Wire.connect(world.gateway) as second:
        async with await Wire.connect(world.gateway) as first:
            stream = await begin(world, first)
            await stream.answer(await stream.next(), result={"action": "accept"})
        await eventually(lambda: len(world.gateway.endpoint.context.sign_in_questions) == 0)
        again = await begin(world, second, stream.session)
        assert (await again.next()).get("method") == "elicitation/create"


async def test_another_modern_client_of_a_person_is_asked_itself(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world:
        for name in ("cursor", "code"):
            answer = await ask(world.gateway, modern_ask(OPENS, "tools/call", CALL, client=name))
            assert answer.message["result"]["resultType"] == "input_required"


async def test_a_modern_client_that_goes_away_leaves_no_question_open(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world:
        questions = world.gateway.endpoint.context.sign_in_questions
        first = (await ask(world.gateway, modern_ask(OPENS, "tools/call", CALL))).message["result"]
        more = {"inputResponses": {"page0": {"action": "accept"}}, "requestState": first["requestState"]}
        async with await Wire.connect(world.gateway) as wire:
            wire.send(modern_ask(OPENS, "tools/call", {**CALL, **more}, number=2))
            await eventually(lambda: world.sign_ins.waiting[LOCAL] == 1)
            assert len(questions) == 1
        await eventually(lambda: len(questions) == 0)


@pytest.mark.parametrize("kind", [OPENS, NO_STREAM], ids=["modern", "legacy"])
async def test_a_call_whose_client_is_asked_in_another_gets_the_link_long_before_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: PageClient
) -> None:
    assert sign_in_calls.SILENT_SECONDS <= 20, "many clients wait for 60 s"
    monkeypatch.setattr(sign_in_calls, "SILENT_SECONDS", 0.1)
    async with asked_sign_ins(tmp_path, timeout_ms=600_000) as world:
        if kind is OPENS:
            request = modern_ask(OPENS, "tools/call", CALL)
        else:
            request = legacy_ask(kind, "tools/call", CALL, await session_as(world.gateway, kind))
        await ask(world.gateway, request)
        assert refusal(dict((await ask(world.gateway, request)).message))["signInUrl"] == LINK


@pytest.mark.parametrize("kind", [OPENS, OLD], ids=["modern", "legacy"])
async def test_of_many_calls_of_a_client_at_once_one_asks_and_all_run(tmp_path: Path, kind: PageClient) -> None:
    async with asked_sign_ins(tmp_path) as world:
        questions: list[Any] = []
        session = await session_as(world.gateway, OLD)

        async def call(number: int) -> Answer | dict[str, Any]:
            if kind is OPENS:
                answer = await ask(world.gateway, modern_ask(OPENS, "tools/call", CALL, number=number))
                if answer.message["result"]["resultType"] == "input_required":
                    questions.append(answer.message["result"])
                    return {}
                return dict(answer.message)
            async with await Wire.connect(world.gateway) as wire:
                wire.send(legacy_ask(OLD, "tools/call", CALL, session))
                stream = Stream(world, wire, "")
                head = await wire.reader.readuntil(b"\r\n\r\n")
                if b"event-stream" not in head:
                    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                    return dict(json.loads(await wire.reader.readexactly(length)))
                while "result" not in (message := await stream.next()):
                    if "id" in message:
                        questions.append(message)
                return message

        calls = [asyncio.create_task(call(number)) for number in range(5)]
        waiting = 4 if kind is OPENS else 5
        await eventually(lambda: world.sign_ins.waiting[LOCAL] == waiting)
        world.sign_ins.sign_in()
        answers = await asyncio.gather(*calls)
    assert len(questions) == 1
    assert [text_in(answer) for answer in answers if isinstance(answer, dict) and answer] == [TOKEN] * waiting


async def test_each_person_is_asked_for_itself(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path, trust=Trust((Names("ann", "bob"),))) as world:
        links = set()
        for name in ("ann", "bob"):
            request = modern_ask(OPENS, "tools/call", CALL).with_headers(authorization=f"Bearer {name}")
            result = (await ask(world.gateway, request)).message["result"]
            links.add(result["inputRequests"]["page0"]["params"]["url"])
            other = {"ann": "bob", "bob": "ann"}[name]
            stolen = {**CALL, "requestState": result["requestState"]}
            again = modern_ask(OPENS, "tools/call", stolen, number=2).with_headers(authorization=f"Bearer {other}")
            assert (await ask(world.gateway, again)).code == -32602
    assert len(links) == 2


async def test_a_client_that_goes_away_leaves_no_question_open(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world:
        async with await Wire.connect(world.gateway) as wire:
            stream = await begin(world, wire)
            await stream.next()
            cancelled = legacy("notifications/cancelled", {"requestId": 7}, number=None, session=stream.session)
            await ask(world.gateway, cancelled)
            assert refusal(await stream.next())["code"] == "CANCELLED"
        await eventually(lambda: world.sign_ins.waiting[LOCAL] == 0)
        assert len(world.gateway.endpoint.context.sign_in_questions) == 0


async def test_a_question_counts_neither_against_the_breaker_nor_for_the_server(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world:
        for number in range(10):
            await ask(world.gateway, calling("demo__whoami", number=number))
        world.sign_ins.sign_in()
        answer = await ask(world.gateway, calling("demo__whoami", number=11))
        assert text_in(answer.message) == TOKEN
        assert world.calls == 1


@pytest.mark.parametrize("family", sorted(MESSAGES))
async def test_rest_tells_models_and_programs_the_link(tmp_path: Path, family: str) -> None:
    async with asked_sign_ins(tmp_path) as world:
        message = MESSAGES[family]([("1", "demo__whoami", {})])
        answer = (await post(world.gateway, "/v1/tool-calls", {"format": family, "message": message})).message
    (call,) = answer["calls"]
    assert (call["state"], call["code"], call["signInUrl"]) == ("refused", "SIGN_IN_REQUIRED", LINK)
    assert LINK in json.dumps(answer["messages"])


async def test_python_tells_the_link(tmp_path: Path) -> None:
    async with asked_sign_ins(tmp_path) as world:
        url = f"http://127.0.0.1:{world.gateway.port}/servers/default/demo/mcp"
        async with AsyncToolRegistry([Server(name="g", url=url)]) as registry:
            outcome = await registry.execute("g__whoami", {})
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.sign_in_url) == ("SIGN_IN_REQUIRED", LINK)
    assert LINK in str(outcome.error)


async def test_the_audit_log_says_refused(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    async with asked_sign_ins(tmp_path, audit="all", audit_file=log) as world:
        await ask(world.gateway, modern_ask(OPENS, "tools/call", CALL))
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(entry["decision"], entry["outcome"]) for entry in entries] == [("refused", "SIGN_IN_REQUIRED")]
