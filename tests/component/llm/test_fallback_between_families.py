"""A route falls back to models of other families that support the request."""

from __future__ import annotations

from pathlib import Path

from fairlead_formats.scripted_turns import ScriptedTurn
from responsesworld import respond, responses_world

BUSY = ScriptedTurn("later", status=429, headers={"retry-after": "7"})
OTHER_FAMILY = [{}, {"responses": False}]


async def test_a_refusal_stands_where_the_next_model_cannot_take_the_request(tmp_path: Path) -> None:
    async with responses_world(tmp_path, [BUSY], [ScriptedTurn("Hi")], providers=OTHER_FAMILY) as world:
        answer = await respond(world, "Hi", model="fairlead/all", prompt={"id": "pmpt_1"})
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert world.models[1].requests == []


async def test_the_next_model_answers_what_it_can_take(tmp_path: Path) -> None:
    async with responses_world(tmp_path, [BUSY], [ScriptedTurn("Hi")], providers=OTHER_FAMILY) as world:
        answer = await respond(world, "Hi", model="fairlead/all")
    assert answer.status == 200
    assert len(world.models[1].requests) == 1
