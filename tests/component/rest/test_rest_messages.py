"""Conversion of calls and results between providers' formats, over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.registry import FORMATS, message_format
from fairlead_rest.examples import conversions as examples
from gatewayworld import catalog, running
from restworld import MESSAGES, post, problem

DEMO = catalog("demo", "http://127.0.0.1:9/mcp", ["add"])
RESULTS: list[dict[str, Any]] = [
    {"content": [{"type": "text", "text": "three"}]},
    {"content": [{"type": "text", "text": "no"}], "isError": True},
]


@pytest.mark.parametrize("source", FORMATS)
async def test_a_turn_goes_to_every_format_with_its_calls_results_and_order(tmp_path: Path, source: str) -> None:
    both: Any = [("call_1", "demo__add", {"a": 1, "b": 2}), ("call_2", "mine", {"text": "é"})]
    made = both[:1] if source == "openai-functions" else both
    message = MESSAGES[source](made)
    calls = message_format(source).parse_calls(message)
    results = list(message_format(source).write_results(calls, RESULTS[: len(made)]).messages)
    async with running(tmp_path, DEMO) as gateway:
        for target in FORMATS:
            body = {"from": source, "to": target, "message": message, "results": results}
            answer = (await post(gateway, "/v1/convert/messages", body)).message
            assert answer["invalid"] == {}
            assert answer["pending"] == []
            sent = [call for message in answer["messages"] for call in message_format(target).parse_calls(message)]
            read = message_format(target).parse_results(answer["results"])
            if target == "openai-functions":  # one call per message, without an id
                sent = sent[:1]
                read = read[:1]
            assert [(call.name, call.arguments) for call in sent] == [(name, given) for _, name, given in made][
                : len(sent)
            ]
            assert "three" in str(read[0].result)
            assert len(read) == len(sent) > 0


async def test_unreadable_calls_are_left_out_with_the_reason_and_calls_without_results_are_pending(
    tmp_path: Path,
) -> None:
    calls = [
        {"id": "1", "type": "function", "function": {"name": "demo__add", "arguments": "{"}},
        {"id": "2", "type": "function", "function": {"name": "demo__add", "arguments": "{}"}},
    ]
    body = {"from": "openai", "to": "claude", "message": {"role": "assistant", "tool_calls": calls}}
    async with running(tmp_path, DEMO) as gateway:
        answer = (await post(gateway, "/v1/convert/messages", body)).message
        large = (await post(gateway, "/v1/convert/messages", {**body, "results": [{"x": "y" * 40_000}]})).message
        unknown = await post(gateway, "/v1/convert/messages", {**body, "to": "smoke"})
    assert list(answer["invalid"]) == ["1"]
    assert answer["pending"] == ["2"]
    assert large["messages"] == answer["messages"]
    assert problem(unknown) == (400, "UNKNOWN_FORMAT")


async def test_the_example_of_the_openapi_document_is_answered_as_it_says(tmp_path: Path) -> None:
    (body,) = examples.SAY.values()
    (example,) = examples.SAID.values()
    async with running(tmp_path, DEMO) as gateway:
        assert (await post(gateway, "/v1/convert/messages", body)).message == example
