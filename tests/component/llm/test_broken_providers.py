"""Providers that fail repeatedly: the next model of the route is called at once, or the client is told to wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_formats.scripted_turns import ScriptedTurn
from llmworld import chunks, llm_world
from metricseries import label_set, metric_values

DOWN = ScriptedTurn(status=500)
HELLO = ScriptedTurn("Hello")
FIRST = {"gen_ai_provider_name": "script0", "gen_ai_request_model": "scripted"}


async def test_a_model_that_failed_five_times_gets_no_request_and_the_next_model_answers(tmp_path: Path) -> None:
    async with llm_world(tmp_path, [DOWN] * 9, [HELLO] * 9) as world:
        for _ in range(7):
            answer = await world.chat("Hi", model="fairlead/all")
            assert answer.message["fairlead"]["model"] == "script1/scripted-1"
        series = await metric_values(world.gateway)
    first, second = world.models
    assert len(second.requests) == 7
    assert len(first.requests) == 5
    assert series["fairlead_model_breaker_state"] == {label_set(**FIRST): 2}
    assert series["fairlead_model_breaker_opened_total"] == {label_set(**FIRST): 1}


@pytest.mark.parametrize("stream", [False, True])
async def test_without_another_model_the_client_gets_the_time_to_retry(tmp_path: Path, *, stream: bool) -> None:
    async with llm_world(tmp_path, *[DOWN] * 9) as world:
        for _ in range(5):
            assert (await world.chat("Hi", stream=stream)).status == 500, "as the provider said it"
        refused = await world.chat("Hi", stream=stream)
    assert len(world.model.requests) == 5
    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert refused.message["error"]["code"] == "provider_unavailable"
    assert (
        "script0/scripted gets no requests for a while: 5 calls failed in a row, the last because the provider "
        "answered with status 500" in (refused.message["error"]["message"])
    )


async def test_a_model_that_states_a_retry_time_gets_no_earlier_request(tmp_path: Path) -> None:
    busy = ScriptedTurn(status=429, headers={"retry-after": "60"})
    async with llm_world(tmp_path, [busy], [HELLO, HELLO]) as world:
        for _ in range(2):
            assert (await world.chat("Hi", model="fairlead/all")).status == 200
        alone = await world.chat("Hi")
    assert len(world.models[0].requests) == 1
    assert alone.status == 429
    assert 50 < int(alone.headers["retry-after"]) <= 60


async def test_streams_that_break_off_open_the_breaker_too(tmp_path: Path) -> None:
    cut = ScriptedTurn("Hello", cut=True)
    async with llm_world(tmp_path, *[cut] * 9) as world:
        for _ in range(5):
            assert chunks(await world.chat("Hi", stream=True))[-1]["error"]["code"] == "bad_answer"
        assert (await world.chat("Hi", stream=True)).status == 503
