"""A conversation continues with another model of the family, which refuses the first model's sealed thoughts: the
request is repeated without them, and the caller is told so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anthropicworld import ADD, CLIENT_CALL, CLIENT_TOOL, THINKS
from fairlead_formats.scripted_turns import ScriptedTurn
from geminiworld import GENERATE, STREAM, declare_tools, gemini_world, generate, parts, respond_to
from geminiworld import events as responses_of
from llmworld import ANTHROPIC, LlmWorld, llm_world
from responsesworld import respond, responses_world, result
from responsesworld import theirs as our_function

BUSY = ScriptedTurn("later", status=503)
FIRST = [ScriptedTurn("", [CLIENT_CALL], thoughts=["Hm."]), BUSY]
ROUTE = {"model": "fairlead/all"}


def _second(refusal: str) -> list[ScriptedTurn]:
    """Script of a model that refuses once, then calls the gateway's tool, and answers."""
    return [ScriptedTurn(refusal, status=400), ScriptedTurn("", [ADD], thoughts=["So."]), ScriptedTurn("Done.")]


def _assert_reported(world: LlmWorld, answer: Any) -> tuple[Any, Any, Any]:
    """Assert that the answer reports lost thoughts. Returns the requests to the second model."""
    assert answer.status == 200, answer.body
    assert answer.headers["x-fairlead-losses"] == "thinking"
    assert b'"losses":["thinking"]' in answer.body.replace(b" ", b"")
    refused, again, more = world.models[1].requests
    return refused, again, more


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropics_signatures_are_left_out_and_thinking_is_off_in_that_turn(
    tmp_path: Path, stream: bool
) -> None:
    options: dict[str, Any] = {"tools": [CLIENT_TOOL], "thinking": THINKS, **ROUTE}
    refusal = "messages.1.content.0: Invalid `signature` in `thinking` block"
    async with llm_world(tmp_path, FIRST, _second(refusal), provider=ANTHROPIC) as world:
        first = (await world.messages("Do", **options)).message
        (call,) = [block for block in first["content"] if block["type"] == "tool_use"]
        answered = {"type": "tool_result", "tool_use_id": call["id"], "content": "so"}
        back = {"role": "assistant", "content": first["content"]}
        answer = await world.messages("Do", back, {"role": "user", "content": [answered]}, stream=stream, **options)
    refused, again, more = _assert_reported(world, answer)
    assert [block["type"] for block in refused["messages"][1]["content"]] == ["thinking", "tool_use"]
    assert [block["type"] for block in again["messages"][1]["content"]] == ["tool_use"]
    assert [request.get("thinking") for request in (refused, again, more)] == [THINKS, None, None]
    assert [block["type"] for block in more["messages"][3]["content"]] == ["thinking", "tool_use"], "its own stays"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("other", [{"kind": "openai", "responses": False}, {"kind": "gemini"}], ids=lambda p: p["kind"])
async def test_thinking_is_off_in_a_turn_that_a_model_of_another_family_began(
    tmp_path: Path, other: dict[str, Any], stream: bool
) -> None:
    options: dict[str, Any] = {"tools": [CLIENT_TOOL], "thinking": THINKS, **ROUTE}
    claude = [ScriptedTurn("later", status=529), ScriptedTurn("Done."), ScriptedTurn("Again.", thoughts=["Hm."])]
    async with llm_world(tmp_path, claude, [ScriptedTurn("", [CLIENT_CALL])], providers=[ANTHROPIC, other]) as world:
        first = (await world.messages("Do", **options)).message
        (call,) = [block for block in first["content"] if block["type"] == "tool_use"]
        answered = {"type": "tool_result", "tool_use_id": call["id"], "content": "so"}
        history: list[Any] = [
            "Do",
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": [answered]},
        ]
        answer = await world.messages(*history, stream=stream, **options)
        later = await world.messages(*history, {"role": "assistant", "content": "Done."}, "And?", **options)
    assert answer.status == 200, answer.body
    assert answer.headers["x-fairlead-losses"] == "thinking"
    assert (later.status, "x-fairlead-losses" in later.headers) == (200, False)
    _, refused, again, next_turn = world.models[0].requests
    assert [request.get("thinking") for request in (refused, again, next_turn)] == [THINKS, None, THINKS]


async def test_thinking_stays_on_where_an_earlier_turn_lost_its_thoughts(tmp_path: Path) -> None:
    options: dict[str, Any] = {"tools": [CLIENT_TOOL], "thinking": THINKS, **ROUTE}
    scripted = [ScriptedTurn("Hello.", thoughts=["Hm."]), BUSY]
    refusal = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified"
    async with llm_world(tmp_path, scripted, _second(refusal), provider=ANTHROPIC) as world:
        first = (await world.messages("Hi", **options)).message
        answer = await world.messages("Hi", {"role": "assistant", "content": first["content"]}, "And?", **options)
    refused, again, more = _assert_reported(world, answer)
    assert [len(each["messages"][1]["content"]) for each in (refused, again, more)] == [2, 1, 1]
    assert again["thinking"] == THINKS


@pytest.mark.parametrize("stream", [False, True])
async def test_encrypted_reasoning_of_responses_is_left_out(tmp_path: Path, stream: bool) -> None:
    options: dict[str, Any] = {"tools": [our_function()], "store": False, **ROUTE}
    refusal = "The encrypted content gAAA could not be verified."
    given = {"type": "message", "role": "user", "content": "Do"}
    async with responses_world(tmp_path, FIRST, _second(refusal)) as world:
        first = (await respond(world, [given], **options)).message
        (call,) = [item for item in first["output"] if item["type"] == "function_call"]
        items = [given, *first["output"], result(call["call_id"], "so")]
        answer = await respond(world, items, stream=stream, **options)
    refused, again, more = _assert_reported(world, answer)
    kinds = [[item["type"] for item in each["input"]] for each in (refused, again, more)]
    assert kinds[0] == ["message", "reasoning", "function_call", "function_call_output"]
    assert kinds[1] == ["message", "function_call", "function_call_output"]
    assert kinds[2] == [*kinds[1], "reasoning", "function_call", "function_call_output"], "its own stays"
    assert "id" not in again["input"][1]


@pytest.mark.parametrize("method", [GENERATE, STREAM])
async def test_geminis_signatures_make_room_for_the_value_that_it_documents(tmp_path: Path, method: str) -> None:
    options: dict[str, Any] = {"tools": [declare_tools()], "model": "fairlead/all"}
    refusal = "Corrupted thought signature."
    async with gemini_world(tmp_path, FIRST, _second(refusal)) as world:
        first = (await generate(world, "Do", **options)).message
        answered_parts = parts(first)
        back = {"role": "model", "parts": answered_parts}
        (call,) = [part for part in answered_parts if "functionCall" in part]
        answer = await generate(world, "Do", back, respond_to(call), method=method, **options)
    refused, again, more = _assert_reported(world, answer)
    sent = [[part for content in each["contents"] for part in content["parts"]] for each in (refused, again, more)]
    signatures = [[part["thoughtSignature"] for part in each if "functionCall" in part] for each in sent]
    assert signatures[0][0] not in ("", "skip_thought_signature_validator")
    assert signatures[1] == ["skip_thought_signature_validator"]
    assert signatures[2][0] == "skip_thought_signature_validator"
    assert signatures[2][1] not in ("", "skip_thought_signature_validator"), "its own stays"
    if method == STREAM:
        assert "error" not in responses_of(answer)[-1]


@pytest.mark.parametrize("text", ["max_tokens: too many", "Invalid `signature` in `thinking` block"])
async def test_any_other_refusal_comes_as_it_is_and_a_second_one_too(tmp_path: Path, text: str) -> None:
    no = ScriptedTurn(text, status=400)
    async with llm_world(tmp_path, no, no, no, provider=ANTHROPIC) as world:
        answer = await world.messages("Hi")
    assert answer.status == 400
    assert answer.message["error"]["message"] == text
    assert len(world.model.requests) == (1 if text.startswith("max") else 2)
    assert "x-fairlead-losses" not in answer.headers
