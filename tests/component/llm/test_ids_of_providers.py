"""Ids that providers make find nothing of another conversation, however predictable they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairlead_llm.scripted import ScriptedCall, ScriptedTurn
from llmworld import LlmWorld
from responsesworld import respond, responses_world, result, theirs

OURS = ScriptedCall("demo__add", {"a": 2, "b": 40}, id="call_1")
THEIRS = ScriptedCall("theirs", {}, id="call_0")
MIXED, ALONE, DONE = ScriptedTurn("", [THEIRS, OURS]), ScriptedTurn("", [THEIRS]), ScriptedTurn("Done.")


async def _ask(world: LlmWorld, given: Any, **members: Any) -> Any:
    answer = await respond(world, given, tools=[theirs()], conversation="conv_1", **members)
    assert answer.status == 200, answer.body
    return answer.message


async def _crossed(world: LlmWorld, one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Outputs that the model of the other gets, which asked before the one did."""
    waits = await _ask(world, "Ask", **other)
    await _ask(world, "Ask", **one)
    await _ask(world, [result(waits["output"][-1]["call_id"], "its own")], **other)
    return [item["output"] for item in world.models[-1].requests[-1]["input"] if "output" in item]


async def test_results_that_wait_for_a_conversation_are_of_its_provider(tmp_path: Path) -> None:
    async with responses_world(tmp_path, [MIXED, DONE], [ALONE, DONE]) as world:
        assert await _crossed(world, {"model": "scripted"}, {"model": "scripted-1"}) == ["its own"]


async def test_results_that_wait_for_a_conversation_are_of_the_account_of_the_callers_key(tmp_path: Path) -> None:
    def keyed(key: str) -> dict[str, Any]:
        return {"headers": {"x-fairlead-provider-key": key}}

    turns = [ALONE, MIXED, DONE]
    async with responses_world(tmp_path, *turns, provider={"callerKey": "Allow"}) as world:
        assert await _crossed(world, keyed("sk-ann"), keyed("sk-bob")) == ["its own"]


async def test_results_of_a_conversation_go_to_the_provider_that_has_it(tmp_path: Path) -> None:
    async with responses_world(tmp_path, [DONE], [MIXED, DONE]) as world:
        said = await _ask(world, "Ask", model="scripted-1")
        await _ask(world, [result(said["output"][-1]["call_id"], "mine")], model="fairlead/all")
        assert not world.models[0].requests
        sent = world.models[1].requests[-1]["input"]
    assert sorted(item["output"] for item in sent) == ["42", "mine"]
