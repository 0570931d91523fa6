"""Calls of one answer that have the same id: gateway and clients treat them as separate calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead_formats.neutral.conversation import MessageTurn, TextPart
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from familytalks import PROVIDERS, parse_answer, post_request, with_results
from llmworld import llm_world

HI = MessageTurn("user", (TextPart("Hi"),))
WHOLE_OR_STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@WHOLE_OR_STREAMED
@pytest.mark.parametrize(("front", "provider"), [(front, provider) for front in FAMILIES for provider in PROVIDERS])
async def test_calls_of_one_id_in_an_answer_are_run_one_by_one(
    tmp_path: Path, front: str, provider: str, stream: bool
) -> None:
    calls = [ScriptedCall("demo__add", {"a": number, "b": 40}, "call_0") for number in (1, 2)]
    turns = [ScriptedTurn("", calls), ScriptedTurn("So.")]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider]) as world:
        text, _, _ = parse_answer(await post_request(world, front, HI, stream=stream), front, stream)
        assert text == "So."
        assert [call["arguments"] for call in world.called] == [{"a": 1, "b": 40}, {"a": 2, "b": 40}]
        assert all(result in json.dumps(world.model.requests[1]) for result in ("41", "42"))


# in streamed Responses, events of the first call have been sent before another call has the same id
@pytest.mark.parametrize(
    ("front", "provider", "stream"),
    [
        (front, provider, stream)
        for front in FAMILIES
        for provider in PROVIDERS
        for stream in (False, True)
        if not (stream and provider == "openai-responses")
    ],
)
async def test_a_client_gets_calls_of_one_id_in_an_answer_under_ids_of_their_own(
    tmp_path: Path, front: str, provider: str, stream: bool
) -> None:
    calls = [ScriptedCall("theirs", {"q": number}, "call_0") for number in (1, 2)]
    turns = [ScriptedTurn("", calls), ScriptedTurn("So.")]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider]) as world:
        answer = await post_request(world, front, HI, stream=stream)
        _, made, _ = parse_answer(answer, front, stream)
        assert len({call.id for call in made}) == 2
        again = await post_request(world, front, HI, *with_results(made), stream=stream)
        assert parse_answer(again, front, stream)[0] == "So."
