"""An `item_reference` refers to an item of a stored response, and is valid only for that response's principal."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairlead_app.authentication import Trust
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fixed_authenticator import Names
from gatewayworld import Ask, ask
from llmworld import ANTHROPIC, llm_world
from provider_ids import with_provider_ids
from redisserver import redis_server
from responsesworld import PATH, events, final, kinds, respond, responses_world, result, theirs
from restworld import get

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
USER_MESSAGE = {"role": "user", "content": "Do"}
MORE = {"role": "user", "content": "Sure?"}
MIXED = ScriptedTurn("Both.", [ADD, ScriptedCall("theirs")], thoughts=["Hm."])
DONE = ScriptedTurn("Done.", thoughts=["So."])
PROVIDERS: list[dict[str, Any]] = [{"responses": True}, {"responses": False}, ANTHROPIC]


def references(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """References to items, in their order."""
    return [{"type": "item_reference", "id": item["id"]} for item in items]


def call_of(items: Sequence[Mapping[str, Any]]) -> Any:
    """The only call among the items."""
    (call,) = [item for item in items if item["type"] == "function_call"]
    return call


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("call_in_full", [False, True])
async def test_a_referenced_mixed_turn_is_sent_once_and_in_order(
    tmp_path: Path, stream: bool, call_in_full: bool
) -> None:
    """Vercel's AI SDK refers to messages and thoughts, and sends calls of functions in full, without an id."""
    async with responses_world(tmp_path, MIXED, DONE, ScriptedTurn("Yes.")) as world:
        output = (await final(world, [USER_MESSAGE], stream=stream, tools=[theirs()]))["output"]
        call = call_of(output)
        first = references(output)
        if call_in_full:
            first[-1] = {name: value for name, value in call.items() if name not in ("id", "status")}
        back = [USER_MESSAGE, *first, result(call["call_id"], "so")]
        after = (await final(world, back, stream=stream, tools=[theirs()]))["output"]
        await final(world, [*back, *references(after), MORE], stream=stream, tools=[theirs()])
    rounds = [kinds(request["input"]) for request in world.model.requests[1:]]
    turn = [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    assert [sorted(rounds[0]), sorted(rounds[1])] == [sorted(turn), sorted([*turn, "reasoning", "message", "message"])]
    assert rounds[0][:5] == turn[:5]
    assert [item["output"] for item in world.model.requests[1]["input"] if "output" in item] == ["42", "so"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_referenced_finished_turn_has_its_hidden_calls_again(tmp_path: Path, stream: bool) -> None:
    turns = [ScriptedTurn("", [ADD], thoughts=["Hm."]), ScriptedTurn("42", thoughts=["So."]), ScriptedTurn("Yes.")]
    async with responses_world(tmp_path, *turns) as world:
        output = (await final(world, [USER_MESSAGE], stream=stream))["output"]
        await final(world, [USER_MESSAGE, *references(output), MORE], stream=stream)
    assert kinds(output) == ["reasoning", "reasoning", "message"]
    sent = ["message", "reasoning", "function_call", "function_call_output", "reasoning", "message", "message"]
    assert kinds(world.model.requests[2]["input"]) == sent


@pytest.mark.parametrize("provider", PROVIDERS, ids=str)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_reference_means_the_same_as_the_item(tmp_path: Path, provider: dict[str, Any], stream: bool) -> None:
    sent = []
    turns = [ScriptedTurn("", [ADD]), ScriptedTurn("Well.", [ScriptedCall("theirs")]), ScriptedTurn("Done.")]
    for refer in (list[Any], references):
        (folder := tmp_path / refer.__name__).mkdir()
        async with llm_world(folder, *turns, provider=provider) as world:
            output = (await final(world, [USER_MESSAGE], stream=stream, tools=[theirs()]))["output"]
            back = [USER_MESSAGE, *refer(output), result(call_of(output)["call_id"], "so")]
            await final(world, back, stream=stream, tools=[theirs()])
            sent.append(world.model.requests[-1])
    assert with_provider_ids(sent[0]) == with_provider_ids(sent[1])


async def test_a_response_of_one_family_is_referenced_at_another(tmp_path: Path) -> None:
    scripts = [[ScriptedTurn("", [ADD, ScriptedCall("theirs")], thoughts=["Hm."])], [ScriptedTurn("Here.")]]
    async with responses_world(tmp_path, *scripts) as world:
        output = (await final(world, [USER_MESSAGE], stream=False, tools=[theirs()]))["output"]
        back = [USER_MESSAGE, *references(output), result(call_of(output)["call_id"], "so")]
        await final(world, back, stream=False, model="scripted-1", tools=[theirs()])
    outputs = [item["output"] for item in world.models[1].requests[0]["input"] if "output" in item]
    assert outputs == ["42", "so"]


async def test_a_response_that_continues_another_may_be_referenced(tmp_path: Path) -> None:
    async with responses_world(tmp_path, *[ScriptedTurn("Hi", thoughts=["Hm."])] * 4) as world:
        first = await final(world, [USER_MESSAGE], stream=False, store=False)
        second = await final(world, [MORE], stream=False, store=False, previous_response_id=first["id"])
        both = references([*first["output"], *second["output"]])
        third = await final(world, [USER_MESSAGE, *both[:2], MORE, *both[2:], MORE], stream=False, store=False)
        listed = await get(world.gateway, f"{PATH}/{third['id']}/input_items?order=asc")
    sent = kinds(world.model.requests[-1]["input"])
    assert sent == ["message", "reasoning", "message", "message", "reasoning", "message", "message"]
    assert kinds(listed.message["data"]) == sent


async def test_a_turn_whose_response_is_deleted_goes_out_once(tmp_path: Path) -> None:
    """The request refers to items that only the stored turn contains."""
    async with responses_world(tmp_path, MIXED, DONE) as world:
        created = await final(world, [USER_MESSAGE], stream=False, tools=[theirs()])
        output = created["output"]
        await ask(world.gateway, Ask(verb="DELETE", target=f"{PATH}/{created['id']}", body=b""))
        call = call_of(output)
        await final(
            world,
            [USER_MESSAGE, *references(output[:-1]), call, result(call["call_id"], "so")],
            stream=False,
            tools=[theirs()],
        )
    sent = world.model.requests[1]["input"]
    assert kinds(sent)[:5] == ["message", "reasoning", "message", "function_call", "function_call"]
    assert [item["output"] for item in sent if "output" in item] == ["42", "so"]


async def test_items_of_many_responses_can_be_referenced(tmp_path: Path) -> None:
    turns = [ScriptedTurn(f"Answer {number}.") for number in range(40)]
    async with llm_world(tmp_path, *turns, ScriptedTurn("Done."), provider={"responses": False}) as world:
        outputs = [(await final(world, [USER_MESSAGE], stream=False))["output"] for _ in turns]
        await final(world, [*(reference for output in outputs for reference in references(output)), MORE], stream=False)
    sent = str(world.model.requests[-1]["messages"])
    assert all(turn.text in sent for turn in turns)


async def test_an_item_that_is_referenced_twice_is_sent_once(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Hi"), ScriptedTurn("Yes.")) as world:
        output = (await final(world, [USER_MESSAGE], stream=False))["output"]
        await final(world, [USER_MESSAGE, *references(output), *references(output), MORE], stream=False)
    assert kinds(world.model.requests[1]["input"]) == ["message", "message", "message"]


async def test_an_approval_can_be_referenced(tmp_path: Path) -> None:
    tool_with_approval = {
        "type": "mcp",
        "server_label": "sums",
        "server_url": "fairlead://demo",
        "require_approval": "always",
    }
    async with responses_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42"), ScriptedTurn("Yes.")) as world:
        output = (await final(world, [USER_MESSAGE], stream=False, store=False, tools=[tool_with_approval]))["output"]
        approval = {"type": "mcp_approval_response", "approval_request_id": output[-1]["id"], "approve": True}
        back = [USER_MESSAGE, *references(output), approval]
        after = (await final(world, back, stream=False, store=False, tools=[tool_with_approval]))["output"]
        await final(world, [*back, *references(after), MORE], stream=False, store=False, tools=[tool_with_approval])
    assert kinds(output) == ["mcp_list_tools", "mcp_approval_request"]
    assert kinds(after) == ["mcp_call", "message"]
    assert len(world.called) == 1
    calls = ["message", "function_call", "function_call_output"]
    assert [kinds(request["input"]) for request in world.model.requests[1:]] == [calls, [*calls, "message", "message"]]


@pytest.mark.parametrize("provider", [{"responses": False}, ANTHROPIC], ids=str)
async def test_a_reference_to_nothing_is_refused_by_its_id(tmp_path: Path, provider: dict[str, Any]) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hi"), provider=provider) as world:
        answer = await respond(world, [USER_MESSAGE, {"type": "item_reference", "id": "msg_unknown"}])
    assert (answer.status, answer.message["error"]["param"]) == (400, "input")
    for part in ("'msg_unknown'", "send the full item", '`include: ["reasoning.encrypted_content"]`'):
        assert part in answer.message["error"]["message"]
    assert not world.model.requests


async def test_a_reference_to_nothing_is_sent_to_a_provider_of_responses(tmp_path: Path) -> None:
    unknown = {"type": "item_reference", "id": "msg_unknown"}
    async with responses_world(tmp_path, ScriptedTurn("Hi")) as world:
        answer = await respond(world, [USER_MESSAGE, unknown])
    assert (answer.status, "msg_unknown" in answer.message["error"]["message"]) == (404, True)
    assert world.model.requests[0]["input"] == [USER_MESSAGE, unknown]


async def test_an_item_of_another_principal_cannot_be_referenced(tmp_path: Path) -> None:
    trust = Trust((Names("one", "other"),))
    async with llm_world(tmp_path, *[ScriptedTurn("Hi")] * 2, provider={"responses": False}, trust=trust) as world:
        created = (await respond(world, [USER_MESSAGE], headers={"authorization": "Bearer one"})).message
        back = [USER_MESSAGE, *references(created["output"]), MORE]
        foreign = await respond(world, back, headers={"authorization": "Bearer other"})
        own = await respond(world, back, headers={"authorization": "Bearer one"})
    assert [answer.status for answer in (foreign, own)] == [400, 200]
    assert foreign.message["error"]["param"] == "input"


@pytest.mark.parametrize("provider", [{"responses": False}, ANTHROPIC], ids=str)
async def test_an_item_of_a_deleted_response_cannot_be_referenced(tmp_path: Path, provider: dict[str, Any]) -> None:
    async with llm_world(tmp_path, *[ScriptedTurn("Hi")] * 2, provider=provider) as world:
        created = (await respond(world, [USER_MESSAGE])).message
        back = [USER_MESSAGE, *references(created["output"]), MORE]
        before = await respond(world, back)
        await ask(world.gateway, Ask(verb="DELETE", target=f"{PATH}/{created['id']}", body=b""))
        after = await respond(world, back)
    assert (before.status, after.status) == (200, 400)


async def test_a_guessed_id_of_a_provider_finds_no_item(tmp_path: Path) -> None:
    async with responses_world(tmp_path, [ScriptedTurn("A secret.", [ADD]), ScriptedTurn("So.")], []) as world:
        await final(world, [USER_MESSAGE], stream=False)
        guessed = {"type": "item_reference", "id": "msg_scripted_0002"}
        answer = await respond(world, [USER_MESSAGE, guessed], model="scripted-1")
    assert (answer.status, world.models[1].requests[0]["input"]) == (404, [USER_MESSAGE, guessed])


async def test_another_replica_resolves_references(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    async with (
        redis_server(tmp_path) as redis,
        responses_world(folders[0], MIXED, redis=redis.url, redis_timeout=10.0) as first,
        responses_world(folders[1], DONE, redis=redis.url, redis_timeout=10.0) as other,
    ):
        output = (await final(first, [USER_MESSAGE], stream=False, store=False, tools=[theirs()]))["output"]
        back = [USER_MESSAGE, *references(output), result(call_of(output)["call_id"], "so")]
        await final(other, back, stream=False, store=False, tools=[theirs()])
    assert [item["output"] for item in other.model.requests[0]["input"] if "output" in item] == ["42", "so"]


async def test_an_outage_of_the_store_is_not_an_absent_item(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_server(tmp_path))
        (folder := tmp_path / "gateway").mkdir()
        async with responses_world(folder, ScriptedTurn("Hi"), redis=redis.url, redis_timeout=10.0) as world:
            output = (await final(world, [USER_MESSAGE], stream=False))["output"]
            await stack.aclose()
            answer = await respond(world, [USER_MESSAGE, *references(output), MORE])
    assert (answer.status, answer.message["error"]["code"]) == (503, "store_unavailable")


async def test_references_pass_to_the_provider_where_nothing_is_stored(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Hi"), ScriptedTurn("Yes."), context_bytes=0) as world:
        output = (await final(world, [USER_MESSAGE], stream=False))["output"]
        await final(world, [USER_MESSAGE, *references(output), MORE], stream=False)
    assert world.model.requests[1]["input"][1] == {"type": "item_reference", "id": "msg_scripted_0001"}


async def test_events_of_a_stream_have_the_ids_that_requests_reference(tmp_path: Path) -> None:
    turns = [ScriptedTurn("Look.", [ADD], thoughts=["Hm."]), ScriptedTurn("42", [ScriptedCall("theirs")])]
    async with responses_world(tmp_path, *turns) as world:
        streamed = events(await respond(world, [USER_MESSAGE], stream=True, tools=[theirs()]))
    whole = {item["id"] for item in streamed[-1]["response"]["output"]}
    assert {event.get("item_id") or event.get("item", {}).get("id") for event in streamed} - {None} == whole
    assert len(whole) == len(kinds(streamed[-1]["response"]["output"])) == 4
