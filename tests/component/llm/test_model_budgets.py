"""Limits on tokens of agents and requests: requests are refused or stopped, and charged by the provider's usage."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.rules import PolicyLimits
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from gatewayworld import scrape
from llmworld import chunks, llm_world, policy
from redisserver import redis_server
from waiting import until_async

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
HELLO = ScriptedTurn("Hello")
"""A request of 110 tokens by the script's usage; each further call has ten more."""


def budget_policies(tokens: int) -> Any:
    return [policy("budget", limits=PolicyLimits(tokens_per_day=tokens))]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_is_refused_once_its_tokens_of_the_day_are_spent(tmp_path: Path, *, stream: bool) -> None:
    async with llm_world(tmp_path, HELLO, HELLO, HELLO, agent_tokens_per_day=220) as world:
        for _ in range(2):
            assert (await world.chat("Hi", stream=stream)).status == 200
        refused = await world.chat("Hi", stream=stream)
    assert len(world.model.requests) == 2
    assert refused.status == 429
    error = refused.message["error"]
    assert error["code"] == "RATE_LIMITED"
    assert "the limit of 220 tokens of models a day" in error["message"]
    assert refused.headers["x-should-retry"] == "false"
    assert 0 < int(refused.headers["retry-after"]) <= 86_400


async def test_a_policy_bounds_requests_that_its_tools_are_offered_to(tmp_path: Path) -> None:
    async with llm_world(tmp_path, HELLO, HELLO, HELLO, policies=budget_policies(100)) as world:
        assert (await world.chat("Hi", fairlead={"tools": "none"})).status == 200
        assert (await world.chat("Hi")).status == 200, "what no tool of the namespace was offered to counts for nothing"
        refused = await world.chat("Hi")
        assert (await world.chat("Hi", fairlead={"tools": "none"})).status == 200
    assert "each agent that the policy default/budget applies to" in refused.message["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("bound", [{"llm_tokens": 120}, {"agent_tokens_per_day": 120}])
async def test_a_loop_whose_tokens_are_spent_gets_one_last_answer_without_tools(
    tmp_path: Path, bound: dict[str, Any], *, stream: bool
) -> None:
    script = ScriptedTurn("", [ADD]), ScriptedTurn("That is all.")
    async with llm_world(tmp_path, *script, **bound) as world:
        answer = await world.chat("Add", stream=stream)
    assert [request.get("tool_choice") for request in world.model.requests] == [None, "none"]
    report = chunks(answer)[-2]["fairlead"] if stream else answer.message["fairlead"]
    assert report["stopped"] is True
    assert report["rounds"] == 2


async def test_a_loop_within_its_tokens_is_not_stopped(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("", [ADD]), HELLO, llm_tokens=121) as world:
        answer = await world.chat("Add")
    assert answer.message["fairlead"]["stopped"] is False


async def test_where_the_provider_states_no_usage_the_gateway_counts(tmp_path: Path) -> None:
    silent = ScriptedTurn(
        events=[
            '{"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":"one "}}]}',
            '{"id":"a","choices":[{"index":0,"delta":{"content":"two"},"finish_reason":"stop"}]}',
            "[DONE]",
        ]
    )
    async with llm_world(tmp_path, silent, HELLO, agent_tokens_per_day=100) as world:
        assert (await world.chat("word " * 200, stream=True)).status == 200
        refused = await world.chat("Hi")
        assert refused.status == 429, "a thousand bytes are some 250 tokens"
        page = await scrape(world.gateway)
    (sample,) = (line for line in page.splitlines() if "token_usage_sum" in line and 'token_type="output"' in line)
    assert sample.endswith(" 3.0"), "its events"


async def test_a_client_that_disconnects_is_charged_for_what_was_read(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hello", cut=True), HELLO, agent_tokens_per_day=20) as world:
        broken = chunks(await world.chat("word " * 100, stream=True))
        assert broken[-1]["error"]["code"] == "bad_answer"
        assert (await world.chat("Hi")).status == 429


async def test_a_request_that_the_provider_refuses_costs_nothing(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn(status=400), HELLO, agent_tokens_per_day=20) as world:
        assert (await world.chat("word " * 100)).status == 400
        assert (await world.chat("Hi")).status == 200


async def test_tokens_of_files_are_not_those_of_their_letters(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    scripted = ScriptedTurn(events=[json.dumps({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]})])
    message = {"role": "user", "content": [image]}
    async with llm_world(tmp_path, scripted, HELLO, agent_tokens_per_day=5000) as world:
        assert (await world.chat(message, stream=True)).status == 200
        assert (await world.chat("Hi")).status == 200


async def test_replicas_share_the_tokens_of_a_day_over_redis(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_server(tmp_path))
        shared: dict[str, Any] = {"redis": redis.url, "redis_settle_seconds": 0.01, "agent_tokens_per_day": 110}
        folders = [tmp_path / name for name in ("one", "other")]
        for folder in folders:
            folder.mkdir()
        first, other = [
            await stack.enter_async_context(llm_world(folder, *[HELLO] * 9, **shared)) for folder in folders
        ]
        assert (await first.chat("Hi")).status == 200

        async def is_spent() -> bool:
            return (await other.chat("Hi")).status == 429

        await until_async("the other replica has heard of it", is_spent)
