"""OpenAI's own client gets the same final message with the gateway in between as without it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_llm.scripted_model import ScriptedModel
from llmworld import LlmWorld, llm_world, theirs
from provider_ids import with_provider_ids
from toolservers import serve_asgi

openai = pytest.importorskip("openai", reason="OpenAI's client is not installed (fairlead[dev])")
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
HEAD = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"scripted",'


def _delta(delta: str, reason: str = "null") -> str:
    return f'{HEAD}"choices":[{{"index":0,"delta":{delta},"finish_reason":{reason}}}]}}'


TRANSCRIPTS: dict[str, ScriptedTurn] = {
    "text": ScriptedTurn("Grüße, 世界 — \u2028 und 🪢."),
    "one call": ScriptedTurn("", [ScriptedCall("theirs", {"q": "ä"})]),
    "text and parallel calls": ScriptedTurn("Look.", [ScriptedCall("theirs", {"q": n}) for n in (1, 2)]),
    "a call without arguments": ScriptedTurn("", [ScriptedCall("theirs", "{}")]),
    "no choices first": ScriptedTurn(
        events=[
            f'{HEAD}"choices":[],"prompt_filter_results":[{{"prompt_index":0}}]}}',
            _delta('{"role":"assistant","content":"Hi"}'),
            _delta("{}", '"stop"'),
            "[DONE]",
        ]
    ),
    "usage on the last chunk": ScriptedTurn(
        events=[
            _delta('{"role":"assistant","content":"Hi"}'),
            _delta("{}", '"stop"')[:-1] + ',"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}',
            "[DONE]",
        ]
    ),
    "a refusal": ScriptedTurn(
        events=[
            _delta('{"role":"assistant","content":null,"refusal":""}'),
            _delta('{"refusal":"I cannot."}'),
            _delta("{}", '"stop"'),
            "[DONE]",
        ]
    ),
    "cut by length": ScriptedTurn("Half", finish_reason="length"),
    "filtered": ScriptedTurn("", finish_reason="content_filter"),
    "reasoning of a compatible server": ScriptedTurn(
        events=[
            _delta('{"role":"assistant","content":null,"reasoning_content":"hm "}'),
            _delta('{"reasoning_content":"hm"}'),
            _delta('{"content":"So."}'),
            _delta("{}", '"stop"'),
            "[DONE]",
        ]
    ),
    "members of a chunk that nobody knows": ScriptedTurn(
        events=[
            _delta('{"role":"assistant","content":"Hi","x":"y"}')[:-1] + ',"obfuscation":"abc","service_tier":"flex"}',
            _delta("{}", '"stop"'),
            "[DONE]",
        ]
    ),
}


async def _ask_async(url: str, stream: bool, **members: Any) -> Any:
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        options = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}], **members}
        if not stream:
            return await client.chat.completions.create(**options)
        async with client.chat.completions.stream(**options) as events:
            try:
                async for _ in events:
                    pass
                return await events.get_final_completion()
            except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as error:
                return error.completion if isinstance(error, openai.LengthFinishReasonError) else str(error)


def _base(world: LlmWorld) -> str:
    return f"http://127.0.0.1:{world.gateway.port}/v1"


def _members(completion: Any) -> tuple[Any, ...]:
    choice = completion.choices[0]
    calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()]
    extra = getattr(choice.message, "reasoning_content", None)
    members = (choice.message.content, choice.message.refusal, extra, calls, choice.finish_reason, completion.id)
    return with_provider_ids(members)  # type: ignore[no-any-return] # a tuple of the same length


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_a_stream_of_one_round_is_the_same_with_the_gateway_and_without(tmp_path: Path, name: str) -> None:
    turn = TRANSCRIPTS[name]
    members = {"tools": [theirs()], "stream_options": {"include_usage": True}}
    async with serve_asgi(ScriptedModel(turn)) as port:
        bare = await _ask_async(f"http://127.0.0.1:{port}/v1", True, **members)
    async with llm_world(tmp_path, turn) as world:
        ours = await _ask_async(_base(world), True, **members)
    if isinstance(bare, str):  # the client raises without further details
        assert ours == bare
        return
    assert _members(ours) == _members(bare)
    assert ours.usage == bare.usage


ROUNDS: dict[str, Sequence[ScriptedTurn]] = {
    "one call": [ScriptedTurn("", [ADD]), ScriptedTurn("42")],
    "text in every round": [ScriptedTurn("First.", [ADD]), ScriptedTurn("Second.", [ADD]), ScriptedTurn("Third.")],
    "parallel calls": [ScriptedTurn("", [ADD, ADD]), ScriptedTurn("84")],
    "ours, then the caller's": [ScriptedTurn("", [ADD]), ScriptedTurn("Yours.", [ScriptedCall("theirs", {"q": 1})])],
    "ours and the caller's at once": [ScriptedTurn("Both.", [ADD, ScriptedCall("theirs", {"q": 1})])],
}


@pytest.mark.parametrize("name", ROUNDS)
async def test_a_stream_of_several_rounds_is_the_whole_answer(tmp_path: Path, name: str) -> None:
    async with llm_world(tmp_path, *ROUNDS[name]) as world:
        more = {"stream_options": {"include_usage": True}}
        streamed = await _ask_async(_base(world), True, tools=[theirs()], **more)
    async with llm_world(tmp_path, *ROUNDS[name]) as world:
        whole = await _ask_async(_base(world), False, tools=[theirs()])
    assert _members(streamed) == _members(whole)
    assert streamed.usage == whole.usage
    assert len(whole.model_extra["fairlead"]["calls"]) == len(world.called)


HIDDEN_ROUND = ScriptedTurn(
    events=[
        _delta(
            '{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function",'
            '"function":{"name":"demo__add","arguments":"{\\"a\\":1,\\"b\\":2}"}}]}'
        ),
        _delta("{}", '"tool_calls"'),
        "[DONE]",
    ]
)
"""A call of the gateway's tool as OpenAI writes it: with `content: null`."""


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_a_stream_after_a_hidden_round_is_the_same_as_without_that_round(tmp_path: Path, name: str) -> None:
    turn = TRANSCRIPTS[name]
    async with serve_asgi(ScriptedModel(HIDDEN_ROUND, turn)) as port:
        bare = [await _ask_async(f"http://127.0.0.1:{port}/v1", True, tools=[theirs()]) for _ in range(2)][-1]
    async with llm_world(tmp_path, HIDDEN_ROUND, turn) as world:
        ours = await _ask_async(_base(world), True, tools=[theirs()])
    assert len(world.called) == 1
    if isinstance(bare, str):
        assert ours == bare
    else:
        assert _members(ours)[:-1] == _members(bare)[:-1], "apart from the id, which is that of the first round"


async def test_an_error_in_the_middle_of_a_stream_is_raised_by_the_client(tmp_path: Path) -> None:
    broken = ScriptedTurn(
        events=[_delta('{"role":"assistant","content":"Hi"}'), '{"error":{"message":"gone","code":"x"}}']
    )
    async with llm_world(tmp_path, broken) as world:
        with pytest.raises(openai.APIError, match="gone"):
            await _ask_async(_base(world), True)


async def test_a_clients_own_retries_see_the_providers_status(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("later", status=429)) as world:
        with pytest.raises(openai.RateLimitError):
            await _ask_async(_base(world), False)
        with pytest.raises(openai.NotFoundError, match="no provider serves"):
            await _ask_async(_base(world), False, model="unknown")


async def test_the_client_does_not_wait_for_midnight_where_the_tokens_of_the_day_are_spent(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    options: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}
    async with (
        llm_world(tmp_path, ScriptedTurn("Hello"), agent_tokens_per_day=1, audit_file=log) as world,
        openai.AsyncOpenAI(base_url=_base(world), api_key="none", max_retries=2) as client,
    ):
        await client.chat.completions.create(**options)
        with pytest.raises(openai.RateLimitError, match="tokens of models a day"):
            await client.chat.completions.create(**options)
    assert log.read_text().count('"decision":"limited"') == 1, "it asked once"


async def test_the_sdk_retries_when_a_breaker_allows_it(tmp_path: Path) -> None:
    down = ScriptedTurn(status=500)
    async with llm_world(tmp_path, *[down] * 5, ScriptedTurn("Hello")) as world:
        for _ in range(5):
            await world.chat("Hi")
        async with openai.AsyncOpenAI(base_url=_base(world), api_key="none", max_retries=2) as client:
            answer = await client.chat.completions.create(
                model="scripted", messages=[{"role": "user", "content": "Hi"}]
            )
    assert answer.choices[0].message.content == "Hello"
    assert len(world.model.requests) == 6, "five failures and the trial; the first try was not sent on"
