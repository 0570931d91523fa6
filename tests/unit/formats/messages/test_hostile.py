"""Malformed messages of models and servers raise no exception, and become text that the model can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_formats import registry
from fairlead_formats.messages import call
from fairlead_formats.messages.call import MAX_ARGUMENT_BYTES, MAX_CALLS, InvalidCall, ModelCall
from fairlead_formats.registry import message_format

FORMATS = sorted(registry.FORMATS)
GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "messages"

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def damage(value: Any, draw: st.DrawFn) -> Any:
    """A copy of a message in which an arbitrary value replaces one of its values."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: damage(value[key], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], damage(value[index], draw), *value[index + 1 :]]
    return draw(anything)


@st.composite
def damaged_messages(draw: st.DrawFn) -> tuple[str, Any]:
    name = draw(st.sampled_from(FORMATS))
    messages = json.loads((GOLDEN / f"{name}.in.json").read_text())
    return name, damage(messages[draw(st.sampled_from(sorted(messages)))], draw)


@settings(max_examples=examples(400), deadline=None)
@given(damaged_messages())
def test_a_damaged_message_gives_calls_that_can_be_answered(case: tuple[str, Any]) -> None:
    name, message = case
    format_ = message_format(name)
    calls = format_.parse_calls(message)
    msgspec.json.encode(calls)
    written = format_.write_results(calls, [None if not call.valid else {"content": []} for call in calls])
    msgspec.json.encode(written)
    assert written.pending == ()
    assert all(call.id for call in calls)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(50), deadline=None)
@given(result=st.dictionaries(st.sampled_from(["content", "structuredContent", "isError"]), anything) | anything)
def test_a_result_of_any_kind_can_be_forwarded(name: str, result: Any) -> None:
    written = message_format(name).write_results([ModelCall("c", "t", {})], [result])
    if name != registry.MCP and result is not None:
        msgspec.json.encode(written)
        assert written.messages


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(50), deadline=None)
@given(messages=anything)
def test_results_of_any_kind_can_be_read(name: str, messages: Any) -> None:
    results = message_format(name).parse_results(messages)
    assert all({"content", "structuredContent"} & result.result.keys() for result in results)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(50), deadline=None)
@given(events=st.lists(anything, max_size=4))
def test_events_of_any_kind_can_be_fed(name: str, events: list[Any]) -> None:
    assembling = message_format(name).assembler()
    for event in events:
        assert assembling.feed(event) == []
    assert assembling.close() == []


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ('{"a": ', "not valid JSON"),
        ("[1]", "not a list"),
        ('"{}"', "not a string"),
        ("12", "not a number"),
        ("true", "not a boolean"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": "\ud800"}', "not valid JSON"),
        ('{"a":' * 100 + "1" + "}" * 100, "deeper than 64"),
        ("[" * 100_000, "deeper than 64"),
        ('{"a":[' + ",".join(["1"] * 100_001) + "]}", "more than 100000 values"),
        ('{"a":"' + "x" * MAX_ARGUMENT_BYTES + '"}', "more than the 1048576 allowed"),
        ({"a": float("nan")}, "not finite"),
        ({"a": object()}, "not a JSON value"),
        ({1: 2}, "not valid text"),
        ({"a": "\ud800"}, "not valid Unicode"),
        ({"a": ["x" * 600_000, "x" * 600_000]}, "more than 1048576 characters"),
        (["a"], "not a list"),
        (5, "not a number"),
    ],
)
def test_arguments_that_cannot_be_used_say_why(sent: Any, reason: str) -> None:
    read = call.read_arguments(sent)
    assert isinstance(read, InvalidCall)
    assert reason in read.reason
    assert len(read.text) <= MAX_ARGUMENT_BYTES
    msgspec.json.encode(read)


@pytest.mark.parametrize("sent", ["", "  \n", "null", None, "{}", {}])
def test_a_call_without_arguments_has_empty_ones(sent: Any) -> None:
    assert call.read_arguments(sent) == {}


def test_calls_beyond_the_bound_are_answered_but_not_run() -> None:
    entries = [{"id": f"c{i}", "function": {"name": "t", "arguments": "{}"}} for i in range(MAX_CALLS + 2)]
    calls = message_format("openai").parse_calls({"tool_calls": entries})
    assert [call.valid for call in calls] == [True] * MAX_CALLS + [False] * 2
    written = message_format("openai").write_results(calls, [{"content": []}] * MAX_CALLS + [None] * 2)
    assert len(written.messages) == MAX_CALLS + 2
    assert "128 calls" in written.messages[-1]["content"]


def test_an_invalid_call_carries_the_code_of_the_contract_to_the_model() -> None:
    call = message_format("anthropic").parse_calls([{"type": "tool_use", "id": "a", "name": "t", "input": 7}])[0]
    written = message_format("mcp").write_results([call], [None])
    result = written.messages[0]["result"]
    assert result["isError"] is True
    assert result["_meta"]["fairlead.dev/error"]["code"] == "INVALID_ARGUMENTS"
    assert result["content"][0]["text"] == "the arguments must be a JSON object, not a number"


def test_results_and_calls_of_different_number_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="2 calls need 2 results, not 1"):
        message_format("openai").write_results([ModelCall("a", "t", {}), ModelCall("b", "t", {})], [None])
