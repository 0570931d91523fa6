"""Stored responses are found only by the gateway's ids, and only by their principal."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest

from fairlead_app.authentication import Trust
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fixed_authenticator import Names
from gatewayworld import Ask, ask
from llmworld import ANTHROPIC, LlmWorld, llm_world
from redisserver import redis_server
from responsesworld import PATH, respond, responses_world, result, theirs
from restworld import get, post

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
ROUNDS = (ScriptedTurn("", [ADD]), ScriptedTurn("It is 42."))
PLAIN = {"fairlead": {"tools": "none"}}


async def _delete(world: LlmWorld, ident: str) -> Any:
    return await ask(world.gateway, Ask(verb="DELETE", target=f"{PATH}/{ident}", body=b""))


@pytest.mark.parametrize("store", [True, False])
async def test_an_answer_is_read_again_as_the_client_got_it(tmp_path: Path, store: bool) -> None:
    async with responses_world(tmp_path, *ROUNDS) as world:
        created = (await respond(world, "Add", store=store)).message
        retrieved = await get(world.gateway, f"{PATH}/{created['id']}")
        assert retrieved.message == created
        gone = await _delete(world, created["id"])
        assert gone.message == {"id": created["id"], "object": "response", "deleted": True}
        again = await get(world.gateway, f"{PATH}/{created['id']}")
        more = await respond(world, "And?", previous_response_id=created["id"])
    assert again.status == 404
    assert more.status == 400
    deleted = [f"/v1/responses/resp_scripted_{number:04}" for number in (1, 2)] if store else []
    assert world.model.stored_response_requests == [("DELETE", path) for path in deleted]


async def test_an_answer_that_only_passed_is_read_from_the_provider(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Hi"), ScriptedTurn("Yes.")) as world:
        first = (await respond(world, "Hi", **PLAIN)).message
        second = (await respond(world, "Sure?", previous_response_id=first["id"], **PLAIN)).message
        retrieved = await get(world.gateway, f"{PATH}/{second['id']}?include=usage")
        stopped = await post(world.gateway, f"{PATH}/{second['id']}/cancel", b"")
    assert (retrieved.message["id"], retrieved.message["previous_response_id"]) == (second["id"], first["id"])
    assert retrieved.message["output"] == second["output"]
    assert stopped.message["status"] == "cancelled"
    assert not re.search(r"resp_scripted", retrieved.body.decode() + stopped.body.decode())


async def test_items_of_a_request_are_listed(tmp_path: Path) -> None:
    given = [{"role": "user", "content": str(number)} for number in range(3)]
    async with responses_world(tmp_path, *ROUNDS, ScriptedTurn("Hi")) as world:
        here = (await respond(world, given, store=False)).message["id"]
        there = (await respond(world, given)).message["id"]
        first = (await get(world.gateway, f"{PATH}/{here}/input_items?limit=2&order=asc")).message
        rest = (await get(world.gateway, f"{PATH}/{here}/input_items?order=asc&after={first['last_id']}")).message
        refused = await get(world.gateway, f"{PATH}/{here}/input_items?limit=many")
        passed = (await get(world.gateway, f"{PATH}/{there}/input_items")).message
    assert [item["content"] for item in first["data"]] == ["0", "1"]
    assert [item["content"] for item in rest["data"]] == ["2"]
    assert (first["has_more"], rest["has_more"]) == (True, False)
    assert refused.status == 400
    assert [item["content"] for item in passed["data"]] == ["0", "1", "2"]


async def test_an_answer_is_nobody_elses(tmp_path: Path) -> None:
    trust = Trust((Names("one", "other"),))
    async with responses_world(tmp_path, *ROUNDS, trust=trust) as world:
        created = (await respond(world, "Add", headers={"authorization": "Bearer one"})).message
        path = f"{PATH}/{created['id']}"
        mine = await get(world.gateway, path, authorization="Bearer one")
        foreign = [
            await get(world.gateway, path, authorization="Bearer other"),
            await get(world.gateway, f"{path}/input_items", authorization="Bearer other"),
            await post(world.gateway, f"{path}/cancel", b"", authorization="Bearer other"),
        ]
        headers = {"authorization": "Bearer other"}
        gone_on = await respond(world, "And?", previous_response_id=created["id"], headers=headers)
    assert mine.status == 200
    assert [answer.status for answer in foreign] == [404, 404, 404]
    assert gone_on.message["error"]["code"] == "previous_response_not_found"


async def test_an_answer_that_a_provider_stores_cannot_be_continued_at_another(tmp_path: Path) -> None:
    async with responses_world(tmp_path, [ScriptedTurn("Hi")] * 2, [ScriptedTurn("Here.")] * 2) as world:
        there = (await respond(world, "Hi")).message["id"]
        refused = await respond(world, "And?", model="scripted-1", previous_response_id=there)
        here = (await respond(world, "Hi", store=False)).message["id"]
        answer = await respond(world, "And?", model="scripted-1", previous_response_id=here)
    assert refused.status == 400
    assert "script0" in refused.message["error"]["message"]
    assert answer.message["output"][0]["content"][0]["text"] == "Here."
    sent = world.models[1].requests[0]["input"]
    assert [item["role"] for item in sent] == ["user", "assistant", "user"]


async def test_operations_that_a_stored_response_does_not_have_are_refused_with_a_reason(tmp_path: Path) -> None:
    async with responses_world(tmp_path, *ROUNDS) as world:
        path = f"{PATH}/{(await respond(world, 'Add')).message['id']}"
        streamed = await get(world.gateway, f"{path}?stream=true")
        stopped = await post(world.gateway, f"{path}/cancel", b"")
        unknown = await get(world.gateway, f"{PATH}/resp_scripted_0002")
        absent = await post(world.gateway, f"{PATH}/expand", {"model": "scripted"})
    assert (streamed.status, streamed.message["error"]["param"]) == (400, "stream")
    assert (stopped.status, "background" in stopped.message["error"]["message"]) == (400, True)
    assert (unknown.status, unknown.message["error"]["code"]) == (404, "not_found")
    assert absent.status == 404
    assert absent.message["error"]["message"].startswith("POST /v1/responses/expand is not served")
    assert not world.model.stored_response_requests


_PROVIDERS: list[dict[str, Any]] = [{"responses": True}, {"responses": False}, ANTHROPIC]


@pytest.mark.parametrize("provider", _PROVIDERS, ids=str)
@pytest.mark.parametrize("mixed", [False, True])
async def test_a_referenced_call_is_answered(tmp_path: Path, provider: dict[str, Any], mixed: bool) -> None:
    turns = [ScriptedTurn("", [ScriptedCall("theirs"), *([ADD] if mixed else [])]), ScriptedTurn("Done.")]
    given = {"role": "user", "content": "Do"}
    async with llm_world(tmp_path, *turns, provider=provider) as world:
        output = (await respond(world, [given], tools=[theirs()])).message["output"]
        (call,) = [item for item in output if item["type"] == "function_call"]
        references = [{"type": "item_reference", "id": item["id"]} for item in output]
        answer = await respond(world, [given, *references, result(call["call_id"], "so")], tools=[theirs()])
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("provider", _PROVIDERS, ids=str)
async def test_an_answer_after_a_call_of_the_gateway_can_be_referenced(
    tmp_path: Path, provider: dict[str, Any]
) -> None:
    thoughts = ["Hm."] if "kind" in provider or provider["responses"] else []
    turns = [ScriptedTurn("", [ADD], thoughts=thoughts), ScriptedTurn("42", thoughts=thoughts), ScriptedTurn("Yes.")]
    given = {"role": "user", "content": "Add"}
    async with llm_world(tmp_path, *turns, provider=provider) as world:
        output = (await respond(world, [given])).message["output"]
        references = [{"type": "item_reference", "id": item["id"]} for item in output]
        answer = await respond(world, [given, *references, {"role": "user", "content": "Sure?"}])
    assert answer.status == 200, answer.body


async def test_another_replica_continues_from_an_answer(tmp_path: Path) -> None:
    own = theirs()
    mixed = ScriptedTurn("", [ADD, ScriptedCall("theirs", {})])
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    async with (
        redis_server(tmp_path) as redis,
        responses_world(folders[0], mixed, redis=redis.url, redis_timeout=10.0) as first,
        responses_world(folders[1], ScriptedTurn("Done."), redis=redis.url, redis_timeout=10.0) as other,
    ):
        created = (await respond(first, "Ask", store=False, tools=[own])).message
        back = [result(created["output"][-1]["call_id"], "1")]
        answer = await respond(other, back, store=False, tools=[own], previous_response_id=created["id"])
    assert answer.message["output"][0]["content"][0]["text"] == "Done."
    outputs = [item["output"] for item in other.model.requests[0]["input"] if "output" in item]
    assert outputs == ["42", "1"]


async def test_a_key_that_the_provider_takes_from_nobody_is_not_sent(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Hi")) as world:
        path = f"{PATH}/{(await respond(world, 'Hi', **PLAIN)).message['id']}"
        refused = await get(world.gateway, path, **{"x-fairlead-provider-key": "sk-own"})
    assert (refused.status, refused.message["error"]["code"]) == (403, "provider_key")
    assert not world.model.stored_response_requests


async def test_a_provider_that_needs_the_callers_key_gets_no_request_without_it(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Hi"), provider={"callerKey": "Require"}) as world:
        headers = {"x-fairlead-provider-key": "sk-own"}
        path = f"{PATH}/{(await respond(world, 'Hi', headers=headers, **PLAIN)).message['id']}"
        refused = await get(world.gateway, path)
        retrieved = await get(world.gateway, path, **headers)
    assert (refused.status, retrieved.status) == (401, 200)
    assert len(world.model.stored_response_requests) == 1


async def test_an_outage_of_the_store_is_not_an_absent_response(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_server(tmp_path))
        (folder := tmp_path / "gateway").mkdir()
        async with responses_world(folder, ScriptedTurn("Hi"), redis=redis.url, redis_timeout=10.0) as world:
            ident = (await respond(world, "Hi", **PLAIN)).message["id"]
            await stack.aclose()
            retrieved = await get(world.gateway, f"{PATH}/{ident}")
            more = await respond(world, "And?", previous_response_id=ident)
    for answer in (retrieved, more):
        assert (answer.status, answer.message["error"]["code"]) == (503, "store_unavailable")
        assert "cannot be looked up" in answer.message["error"]["message"]


@pytest.mark.parametrize("limit", ["0001" + "0" * 5000, "00019999", "0", "101"])
async def test_a_page_has_at_most_a_hundred_items(tmp_path: Path, limit: str) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Hi")) as world:
        here = (await respond(world, "Hi", store=False, **PLAIN)).message["id"]
        refused = await get(world.gateway, f"{PATH}/{here}/input_items?limit={limit}")
    assert (refused.status, refused.message["error"]["param"]) == (400, "limit")


async def test_items_that_are_not_objects_are_not_listed(tmp_path: Path) -> None:
    given: Any = [{"role": "user", "content": "Hi"}, 7]
    async with responses_world(tmp_path, ScriptedTurn("Hi")) as world:
        created = await respond(world, given, store=False, **PLAIN)
        assert created.status == 200, created.body
        retrieved = await get(world.gateway, f"{PATH}/{created.message['id']}/input_items")
    assert [item["content"] for item in retrieved.message["data"]] == ["Hi"]
