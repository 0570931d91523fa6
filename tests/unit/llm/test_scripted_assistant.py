"""The scripted assistant calls the tool that fits a question."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_llm.scripted_assistant import turn_for


def _tool(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": [*properties]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


STRING = {"type": "string"}
TOOLS = [
    _tool("shop__get_stock", "Pieces of an item", item=STRING),
    _tool("store__get_stock", "Pieces of an item", item=STRING),
    _tool("convert_time", "Time elsewhere", source_timezone=STRING, time=STRING),
    _tool("get_time", "Time now", timezone=STRING),
    _tool("set_timer", "Start a clock", minutes={"type": "integer"}, loud={"type": "boolean"}),
    _tool("roll_dice", "", sides={"type": "integer"}, kind={"enum": ["fair", "loaded"]}),
]


def _request(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "tools": TOOLS, **more}


@pytest.mark.parametrize(
    ("question", "name", "arguments"),
    [
        ("How much rope is in stock?", "shop__get_stock", {"item": "rope"}),
        ("How much rope is in stock at the store?", "store__get_stock", {"item": "rope"}),
        ("Please set a timer of 12 minutes", "set_timer", {"minutes": 12, "loud": True}),
        ("Roll the loaded dice", "roll_dice", {"sides": 1, "kind": "loaded"}),
        ("stock", "shop__get_stock", {"item": "anything"}),
        ("How many lamps are in stock at both stores?", "store__get_stock", {"item": "lamps"}),
        ("What time is it?", "get_time", {"timezone": "UTC"}),
        ("What time is it in Berlin?", "get_time", {"timezone": "Europe/Berlin"}),
        ("What time is it in New York now?", "get_time", {"timezone": "America/New_York"}),
    ],
)
def test_the_tool_with_most_words_of_the_question_is_called(
    question: str, name: str, arguments: dict[str, Any]
) -> None:
    (call,) = turn_for(_request(question)).calls
    assert (call.name, call.arguments) == (name, arguments)


def test_each_question_of_a_message_gets_its_tool() -> None:
    text = "How much rope is in stock? What time is it in Berlin? Sing! How much rope is in stock?"
    assert [(call.name, call.arguments) for call in turn_for(_request(text)).calls] == [
        ("shop__get_stock", {"item": "rope"}),
        ("get_time", {"timezone": "Europe/Berlin"}),
    ]


@pytest.mark.parametrize("more", [{}, {"tool_choice": "none"}, {"tools": []}])
def test_without_a_tool_that_fits_the_model_says_so(more: dict[str, Any]) -> None:
    turn = turn_for(_request("How much rope is in stock?" if more else "Sing!", **more))
    assert not turn.calls
    assert "scripted model" in turn.text


def test_results_are_the_answer_in_the_order_of_their_calls() -> None:
    parts = [{"type": "text", "text": "two"}]
    results = [{"role": "tool", "content": "one"}, {"role": "tool", "content": parts}]
    earlier = [{"role": "tool", "content": "of an earlier question"}, {"role": "user", "content": "stock?"}]
    assert turn_for({"messages": [*earlier, {"role": "assistant"}, *results], "tools": TOOLS}).text == "one\ntwo"
