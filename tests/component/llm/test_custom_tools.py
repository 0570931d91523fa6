"""Custom tools of OpenAI's SDK with providers that support only functions."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from pairclients import ask

GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch" LF'}
NESTED = {"type": "grammar", "grammar": {name: GRAMMAR[name] for name in ("syntax", "definition")}}
PATCH = '*** Begin Patch\n"quoted" \\ and ü\n'
TOOLS: dict[str, dict[str, Any]] = {
    "chat": {"type": "custom", "custom": {"name": "patch", "description": "Edits", "format": NESTED}},
    "responses": {"type": "custom", "name": "patch", "description": "Edits", "format": GRAMMAR},
}
HISTORY: dict[str, dict[str, Any]] = {
    "chat": {
        "messages": [
            {"role": "user", "content": "Edit"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": PATCH}}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "Edited"},
        ]
    },
    "responses": {
        "input": [
            {"role": "user", "content": "Edit"},
            {"type": "custom_tool_call", "call_id": "call_1", "name": "patch", "input": PATCH},
            {"type": "custom_tool_call_output", "call_id": "call_1", "output": "Edited"},
        ]
    },
}
PAIRS = [
    (front, provider)
    for front in TOOLS
    for provider in ("chat", "responses", "anthropic", "gemini")
    if front != provider
]


def patch_turn(arguments: Any) -> ScriptedTurn:
    return ScriptedTurn(calls=(ScriptedCall("patch", arguments, "call_1"),))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("front", "provider"), PAIRS)
def test_a_call_comes_back_as_the_text_of_a_custom_tool(front: str, provider: str, stream: bool) -> None:
    answer, wire = ask(front, provider, patch_turn({"input": PATCH}), stream=stream, tools=[TOOLS[front]])
    assert answer.calls == [("patch", PATCH)]
    assert wire.losses == ["tools.format"]
    assert 'start: \\"*** Begin Patch\\" LF' in str(wire.requests[0]["tools"]).replace('"', '\\"')


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("front", "provider"), PAIRS)
def test_calls_and_results_of_a_conversation_are_those_of_a_function(front: str, provider: str, stream: bool) -> None:
    answer, wire = ask(front, provider, ScriptedTurn("Done"), stream=stream, tools=[TOOLS[front]], **HISTORY[front])
    assert answer.text == "Done"
    request = str(wire.requests[0])
    assert "custom" not in request
    assert "Edited" in request
    assert "*** Begin Patch" in request


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("front", TOOLS)
def test_arguments_without_the_text_come_back_as_they_are(front: str, stream: bool) -> None:
    answer, _ = ask(front, "anthropic", patch_turn({"patch": 1}), stream=stream, tools=[TOOLS[front]])
    assert answer.calls == [("patch", '{"patch":1}')]


@pytest.mark.parametrize("front", TOOLS)
def test_a_forced_choice_of_a_custom_tool_is_one_of_its_function(front: str) -> None:
    choice = {"type": "custom", "custom": {"name": "patch"}} if front == "chat" else {"type": "custom", "name": "patch"}
    _, wire = ask(
        front, "anthropic", patch_turn({"input": "x"}), stream=False, tools=[TOOLS[front]], tool_choice=choice
    )
    assert wire.requests[0]["tool_choice"] == {"type": "tool", "name": "patch"}
