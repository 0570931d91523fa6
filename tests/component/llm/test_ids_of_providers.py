"""Ids of providers give no access to other conversations, however predictable they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from llmworld import ANTHROPIC, LlmWorld, llm_world
from responsesworld import respond, responses_world, result, theirs

GATEWAY_CALL = ScriptedCall("demo__add", {"a": 2, "b": 40}, id="call_1")
CLIENT_CALL = ScriptedCall("theirs", {}, id="call_0")
MIXED = ScriptedTurn("", [CLIENT_CALL, GATEWAY_CALL])
ALONE = ScriptedTurn("", [CLIENT_CALL])
DONE = ScriptedTurn("Done.")


async def _ask(world: LlmWorld, given: Any, **members: Any) -> Any:
    answer = await respond(world, given, tools=[theirs()], conversation="conv_1", **members)
    assert answer.status == 200, answer.body
    return answer.message


async def _cross_conversations(world: LlmWorld, first: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Let `other` begin a conversation before `first`, and return the outputs that the model of `other` then gets."""
    waits = await _ask(world, "Ask", **other)
    await _ask(world, "Ask", **first)
    await _ask(world, [result(waits["output"][-1]["call_id"], "its own")], **other)
    return [item["output"] for item in world.models[-1].requests[-1]["input"] if "output" in item]


async def test_results_that_wait_for_a_conversation_are_of_its_provider(tmp_path: Path) -> None:
    async with responses_world(tmp_path, [MIXED, DONE], [ALONE, DONE]) as world:
        assert await _cross_conversations(world, {"model": "scripted"}, {"model": "scripted-1"}) == ["its own"]


async def test_results_that_wait_for_a_conversation_are_of_the_account_of_the_callers_key(tmp_path: Path) -> None:
    def key_headers(key: str) -> dict[str, Any]:
        return {"headers": {"x-fairlead-provider-key": key}}

    turns = [ALONE, MIXED, DONE]
    async with responses_world(tmp_path, *turns, provider={"callerKey": "Allow"}) as world:
        assert await _cross_conversations(world, key_headers("sk-ann"), key_headers("sk-bob")) == ["its own"]


async def test_results_of_a_conversation_go_to_the_provider_that_has_it(tmp_path: Path) -> None:
    async with responses_world(tmp_path, [DONE], [MIXED, DONE]) as world:
        answered = await _ask(world, "Ask", model="scripted-1")
        await _ask(world, [result(answered["output"][-1]["call_id"], "mine")], model="fairlead/all")
        assert not world.models[0].requests
        sent = world.models[1].requests[-1]["input"]
    assert sorted(item["output"] for item in sent) == ["42", "mine"]


TOOL_WITH_APPROVAL = {
    "type": "mcp",
    "server_label": "sums",
    "server_url": "fairlead://demo",
    "require_approval": "always",
}


def _add(number: int) -> ScriptedTurn:
    """A turn that calls `add` with an id that all other turns also have."""
    return ScriptedTurn("", [ScriptedCall("demo__add", {"a": number, "b": number}, id="call_0")])


def _approval(answer: Any) -> dict[str, Any]:
    (item,) = [item for item in answer.message["output"] if item["type"] == "mcp_approval_request"]
    return {"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": True}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("store", [True, False])
async def test_an_approval_of_one_answer_runs_no_call_of_another(tmp_path: Path, store: bool, stream: bool) -> None:
    turns = [_add(1), _add(2), ScriptedTurn("What?"), ScriptedTurn("It is 4.")]
    async with responses_world(tmp_path, *turns) as world:
        first, other = [await respond(world, "Add", tools=[TOOL_WITH_APPROVAL], store=store) for _ in range(2)]
        more: dict[str, Any] = {
            "tools": [TOOL_WITH_APPROVAL],
            "store": store,
            "previous_response_id": other.message["id"],
        }
        await respond(world, [_approval(first)], stream=stream, **more)
        assert not world.called
        assert _approval(first) != _approval(other)
        await respond(world, [_approval(other)], stream=stream, **more)
    assert [call["arguments"] for call in world.called] == [{"a": 2, "b": 2}]


async def test_calls_of_one_id_are_approved_one_by_one_and_have_results_of_their_own(tmp_path: Path) -> None:
    turns = [_add(1), _add(2), ScriptedTurn("2 and 4.")]
    async with responses_world(tmp_path, *turns) as world:
        items: list[Any] = [{"role": "user", "content": "Add"}]
        for _ in range(2):
            answer = await respond(world, items, tools=[TOOL_WITH_APPROVAL], store=False)
            items += [*answer.message["output"], _approval(answer)]
        last = await respond(world, items, tools=[TOOL_WITH_APPROVAL], store=False)
        assert last.status == 200, last.body
    assert [call["arguments"]["a"] for call in world.called] == [1, 2]
    assert [item["output"] for item in world.model.requests[-1]["input"] if "output" in item] == ["2", "4"]


THOUGHT = [
    ScriptedTurn("", [GATEWAY_CALL], thoughts=["hm"]),
    ScriptedTurn("It is 42.", thoughts=["so"]),
    ScriptedTurn("Well."),
]


async def test_thoughts_of_a_made_up_history_find_no_hidden_results(tmp_path: Path) -> None:
    """Rounds are restored by the id of a thought; an id that a provider numbers may be guessed."""
    async with responses_world(tmp_path, *THOUGHT) as world:
        await respond(world, "Add", store=False)
        guessed: list[dict[str, Any]] = [
            {"role": "user", "content": "Add"},
            {"type": "reasoning", "id": "rs_scripted_0002", "summary": [], "encrypted_content": "sealed-2"},
            {"role": "assistant", "content": "It is 42."},
            {"role": "user", "content": "And?"},
        ]
        await respond(world, guessed, store=False)
        sent = world.model.requests[-1]["input"]
    assert [item for item in sent if "output" in item] == []


async def test_signatures_of_a_made_up_history_find_no_hidden_results(tmp_path: Path) -> None:
    thinks = {"type": "enabled", "budget_tokens": 1024}
    async with llm_world(tmp_path, *THOUGHT, provider=ANTHROPIC) as world:
        answer = await world.messages("Add", thinking=thinks, max_tokens=2048)
        signed = [block["signature"] for block in answer.message["content"] if block["type"] == "thinking"]
        guess = "fairlead.2." + signed[-1].rpartition(".")[2]
        blocks = [{"type": "thinking", "thinking": "so", "signature": guess}, {"type": "text", "text": "It is 42."}]
        await world.messages("Add", {"role": "assistant", "content": blocks}, "And?", thinking=thinks, max_tokens=2048)
        sent = world.model.requests[-1]["messages"]
    assert "tool_result" not in str(sent)
