"""Loops, mixed turns, routes and losses between families, with a complete gateway."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.messages.call import ModelCall
from fairlead_formats.neutral.conversation import CallPart, MessageTurn, ResultPart, TextPart
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.providers.bedrock.tools import BEDROCK
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.wire.protocol import TranslationLosses
from familytalks import PROVIDERS, parse_answer, post_request, with_results
from llmworld import llm_world
from restworld import post

PAIRS = [
    (front, provider)
    for front in FAMILIES
    for provider in PROVIDERS
    # this provider also has the Chat Completions API
    if front != provider and (front, provider) != ("openai-chat", "openai-responses")
]
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
CLIENT_CALL = ScriptedCall("theirs", {"q": 1})
HI = MessageTurn("user", (TextPart("Hi"),))


@pytest.mark.diagonal
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("front", "provider"), PAIRS)
async def test_tools_are_run_in_the_providers_form(tmp_path: Path, front: str, provider: str, stream: bool) -> None:
    turns = [ScriptedTurn("First.", [ADD], thoughts=["Hm."]), ScriptedTurn("It is 42.")]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider]) as world:
        answer = await post_request(world, front, HI, stream=stream, tools=False)
        text, calls, own = parse_answer(answer, front, stream)
        assert not calls
        assert ("".join(text.split()), own["rounds"]) == ("First.Itis42.", 2)
        assert [call["name"] for call in own["calls"]] == ["demo__add"]
        assert "42" in json.dumps(world.model.requests[1])


@pytest.mark.diagonal
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("front", "provider"), PAIRS)
async def test_a_mixed_turn_is_whole_again_in_the_next_request(
    tmp_path: Path, front: str, provider: str, stream: bool
) -> None:
    turns = [ScriptedTurn("", [ADD, CLIENT_CALL]), ScriptedTurn("Both.")]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider]) as world:
        _, calls, _ = parse_answer(await post_request(world, front, HI, stream=stream), front, stream)
        assert [call.name for call in calls] == ["theirs"]
        text, _, _ = parse_answer(
            await post_request(world, front, HI, *with_results(calls), stream=stream), front, stream
        )
        assert text == "Both."
        _has_both(world.models[0].requests[1], provider)


def _has_both(request: Mapping[str, Any], provider: str) -> None:
    """Assert that the request contains both calls and both results."""
    family = FAMILIES[provider]
    losses = TranslationLosses()
    turns = family.messages.read_messages(request[family.messages_member], losses)
    called = [part.call.name for turn in turns for part in turn.parts if isinstance(part, CallPart)]
    texts = [part.result["content"][0]["text"] for turn in turns for part in turn.parts if isinstance(part, ResultPart)]
    assert called == ["demo__add", "theirs"]
    assert texts == ["42", "mine"]


@pytest.mark.parametrize(("front", "provider"), PAIRS)
async def test_ids_of_calls_that_come_again_in_every_turn_are_of_one_call_each(
    tmp_path: Path, front: str, provider: str
) -> None:
    history: list[MessageTurn] = [HI]
    for number in range(3):
        calls = [ModelCall("call_0", "theirs", {"n": number}), ModelCall("call_1", "theirs", {"n": -number})]
        results = [
            ResultPart(f"call_{index}", "theirs", {"content": [{"type": "text", "text": f"{number} {index}"}]})
            for index in range(2)
        ]
        history += MessageTurn("assistant", tuple(map(CallPart, calls))), MessageTurn("user", tuple(results))
    async with llm_world(tmp_path, ScriptedTurn("So."), provider=PROVIDERS[provider]) as world:
        text, _, _ = parse_answer(await post_request(world, front, *history), front, stream=False)
        assert text == "So."
        family = FAMILIES[provider]
        turns = family.messages.read_messages(world.model.requests[0][family.messages_member], TranslationLosses())
    called = {p.call.id: p.call.arguments for turn in turns for p in turn.parts if isinstance(p, CallPart)}
    texts = {p.id: p.result["content"][0]["text"] for turn in turns for p in turn.parts if isinstance(p, ResultPart)}
    assert [*called.values()] == [{"n": n} for number in range(3) for n in (number, -number)]
    assert texts == dict(zip(called, [f"{number} {index}" for number in range(3) for index in range(2)], strict=True))


AGAIN = [ScriptedCall("demo__add", {"a": 2, "b": 40}, "call_0"), ScriptedCall("theirs", {"q": 1}, "call_1")]


@pytest.mark.parametrize(
    ("front", "first", "second"),
    [(front, first, second) for front in FAMILIES for first in PROVIDERS for second in PROVIDERS],
)
async def test_ids_of_calls_that_a_provider_repeats_in_every_turn_are_unique_at_the_next_provider(
    tmp_path: Path, front: str, first: str, second: str
) -> None:
    hidden = ScriptedTurn("", AGAIN[:1])
    repeating = [hidden, ScriptedTurn("", AGAIN), hidden, ScriptedTurn("", AGAIN[1:]), ScriptedTurn("", AGAIN)]
    kinds = [PROVIDERS[first], PROVIDERS[second]]
    history: list[MessageTurn] = [HI]
    async with llm_world(tmp_path, repeating, [ScriptedTurn("So.")], providers=kinds) as world:
        for _ in range(3):
            _, calls, _ = parse_answer(await post_request(world, front, *history), front, stream=False)
            assert [call.name for call in calls] == ["theirs"]
            history += with_results(calls)
        text, _, _ = parse_answer(await post_request(world, front, *history, model="scripted-1"), front, stream=False)
        assert text == "So."
        family = FAMILIES[_provider_format(front, second)]
        request = world.models[1].requests[0]
    turns = family.messages.read_messages(request[family.messages_member], TranslationLosses())
    ids = [part.call.id for turn in turns for part in turn.parts if isinstance(part, CallPart)]
    answers = [part.id for turn in turns for part in turn.parts if isinstance(part, ResultPart)]
    assert len(set(ids)) == 7
    assert sorted(answers) == sorted(ids)
    if family.name in ("anthropic", "openai-responses"):
        assert all(json.dumps(request).count(f'"{ident}"') == 2 for ident in ids), "in the call and in its result"


ORDERED = [(front, other) for front in FAMILIES for other in FAMILIES if front != other]


@pytest.mark.parametrize(
    ("first", "second", "provider"),
    [(*pair, [*PROVIDERS][index % len(PROVIDERS)]) for index, pair in enumerate(ORDERED)],
)
async def test_a_conversation_continues_in_another_clients_format(
    tmp_path: Path, first: str, second: str, provider: str
) -> None:
    turns = [ScriptedTurn("", [ADD, CLIENT_CALL]), ScriptedTurn("Both.")]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider]) as world:
        _, calls, _ = parse_answer(await post_request(world, first, HI), first, stream=False)
        text, _, _ = parse_answer(await post_request(world, second, HI, *with_results(calls)), second, stream=False)
        assert text == "Both."
        _has_both(world.models[0].requests[1], _provider_format(second, provider))


def _provider_format(front: str, provider: str) -> str:
    """The format of requests to a provider. OpenAI's own provider has two formats."""
    return "openai-chat" if (front, provider) == ("openai-chat", "openai-responses") else provider


@pytest.mark.parametrize(
    ("one_provider", "other", "front"),
    [(*pair, [*FAMILIES][index % len(FAMILIES)]) for index, pair in enumerate(ORDERED)],
)
async def test_a_mixed_turn_continues_at_a_provider_of_another_family(
    tmp_path: Path, one_provider: str, other: str, front: str
) -> None:
    first = [ScriptedTurn("", [ADD, CLIENT_CALL])]
    second = [ScriptedTurn("Both.")]
    async with llm_world(tmp_path, first, second, providers=[PROVIDERS[one_provider], PROVIDERS[other]]) as world:
        _, calls, _ = parse_answer(await post_request(world, front, HI), front, stream=False)
        again = await post_request(world, front, HI, *with_results(calls), model="scripted-1")
        text, _, _ = parse_answer(again, front, stream=False)
        assert text == "Both."
        _has_both(world.models[1].requests[0], _provider_format(front, other))


async def test_a_route_continues_with_a_provider_of_another_family(tmp_path: Path) -> None:
    scripts = [[ScriptedTurn(status=529)], [ScriptedTurn(status=503)], [ScriptedTurn("Here.")]]
    kinds = [PROVIDERS["anthropic"], PROVIDERS["openai-chat"], PROVIDERS["gemini"]]
    async with llm_world(tmp_path, *scripts, providers=kinds) as world:
        text, _, own = parse_answer(
            await post_request(world, "openai-responses", HI, model="fairlead/all"), "openai-responses", False
        )
        assert (text, own["model"]) == ("Here.", "script2/scripted-2")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_losses_are_reported_in_a_header_and_in_the_answer(tmp_path: Path, stream: bool) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hello"), provider=PROVIDERS["anthropic"]) as world:
        lost = {"seed": 1, "logit_bias": {"1": 2}}
        answer = await post_request(world, "openai-chat", HI, stream=stream, members=lost)
        _, _, own = parse_answer(answer, "openai-chat", stream)
        assert answer.headers["x-fairlead-losses"] == "logit_bias, seed"
        assert own["losses"] == ["logit_bias", "seed"]


async def test_an_answer_of_the_clients_family_reports_no_losses(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hello")) as world:
        answer = await post_request(world, "openai-chat", HI, members={"seed": 1})
        assert "x-fairlead-losses" not in answer.headers
        assert "losses" not in answer.message["fairlead"]


@pytest.mark.parametrize(("front", "provider"), PAIRS)
async def test_a_refusal_keeps_its_retry_time(tmp_path: Path, front: str, provider: str) -> None:
    turn = ScriptedTurn("slow down", status=429, headers={"retry-after": "7", "x-ratelimit-limit-requests": "1"})
    async with llm_world(tmp_path, turn, provider=PROVIDERS[provider]) as world:
        answer = await post_request(world, front, HI)
        assert (answer.status, answer.headers["retry-after"]) == (429, "7")
        assert "x-ratelimit-limit-requests" not in answer.headers
        assert answer.message.get("error", answer.message)["message"] == "slow down"


@pytest.mark.parametrize("front", [name for name in FAMILIES if name != "anthropic"])
async def test_anthropic_gets_the_token_limit_that_it_requires(tmp_path: Path, front: str) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hello"), provider=PROVIDERS["anthropic"]) as world:
        parse_answer(await post_request(world, front, HI), front, stream=False)
        assert world.model.requests[0]["max_tokens"] == 4096


@pytest.mark.parametrize(("front", "provider"), PAIRS)
async def test_usage_is_reported_where_nothing_is_injected(tmp_path: Path, front: str, provider: str) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hello"), provider=PROVIDERS[provider]) as world:
        headers = {"x-fairlead-tools": "none"}
        family = FAMILIES[front]
        body: dict[str, Any] = {
            family.messages_member: family.messages.write_messages([HI], TranslationLosses()).messages
        }
        if front == "gemini":
            path = "/v1beta/models/scripted:streamGenerateContent?alt=sse"
        elif front == BEDROCK:
            path = "/model/scripted/converse-stream"
        else:
            path = {"openai-chat": "/v1/chat/completions", "openai-responses": "/v1/responses"}.get(
                front, "/v1/messages"
            )
            body |= {"model": "scripted", "stream": True}
        if front == "openai-chat":
            body["stream_options"] = {"include_usage": True}
        answer = await post(world.gateway, path, body | ({"max_tokens": 9} if front == "anthropic" else {}), **headers)
        assert answer.status == 200
        assert re.search(rb"cache[^,]{0,40}:40\b", answer.body)
        assert b"Hel" in answer.body


@pytest.mark.parametrize("front", ["anthropic", "openai-responses"])
async def test_thoughts_of_another_family_do_not_go_to_the_clients_own(tmp_path: Path, front: str) -> None:
    first = [ScriptedTurn("So.", thoughts=["Hm."])]
    second = [ScriptedTurn("Go on.")]
    async with llm_world(tmp_path, first, second, providers=[PROVIDERS["gemini"], PROVIDERS[front]]) as world:
        message = (await post_request(world, front, HI)).message
        assert "Hm." in json.dumps(message)
        mine = {"role": "user", "content": "Hi"}
        member = "input"
        answers = message.get("output")
        if front == "anthropic":
            member = "messages"
            answers = [{"role": "assistant", "content": message["content"]}]
        again = await post_request(world, front, model="scripted-1", members={member: [mine, *answers, mine]})
        assert again.status == 200, again.body
        assert "Hm." not in json.dumps(world.models[1].requests[0])
        assert "So." in json.dumps(world.models[1].requests[0])


async def test_previous_response_id_continues_an_answer_of_another_api_family(tmp_path: Path) -> None:
    turns = [ScriptedTurn("One."), ScriptedTurn("Two.")]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS["anthropic"]) as world:
        first = (await post_request(world, "openai-responses", HI)).message
        again = {"previous_response_id": first["id"]}
        parse_answer(await post_request(world, "openai-responses", HI, members=again), "openai-responses", stream=False)
        assert [message["role"] for message in world.model.requests[1]["messages"]] == ["user", "assistant", "user"]


async def test_the_command_of_the_page_gets_its_answer(tmp_path: Path) -> None:
    page = Path(__file__).parents[3].joinpath("docs", "connect", "between-providers.md").read_text(encoding="utf-8")
    turns = [ScriptedTurn("", [ADD]), ScriptedTurn("There are 42.")]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS["openai-chat"]) as world:
        command = page.split("```sh\n")[1].split("```")[0].replace("127.0.0.1:8080", f"127.0.0.1:{world.gateway.port}")
        command = command.replace("gpt-5-mini", "scripted")
        process = await asyncio.create_subprocess_exec("sh", "-c", command, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
    assert json.loads(out)["content"][-1]["text"] == "There are 42."
