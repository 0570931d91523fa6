"""Streamed answers of models through `POST /v1/tool-calls`: their calls are assembled and run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gatewayworld import catalog, running
from restworld import post, problem
from toolservers import sdk_server

Event = dict[str, Any]


def chat(index: int, ident: str | None, name: str | None, arguments: str) -> Event:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    call = {"index": index, **({"id": ident} if ident else {}), "function": function}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


CHAT = [
    chat(0, "call_1", "demo__add", '{"a"'),
    chat(1, "call_2", "demo__add", '{"a": 5, "b"'),
    chat(0, None, None, ': 1, "b": 2}'),
    chat(1, None, None, ": 6}"),
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
]
RESPONSES = [
    event
    for index, (ident, whole) in enumerate((("call_1", '{"a": 1, "b": 2}'), ("call_2", '{"a": 5, "b": 6}')))
    for event in (
        {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {"type": "function_call", "id": f"fc_{index}", "call_id": ident, "name": "demo__add"},
        },
        {
            "type": "response.function_call_arguments.delta",
            "output_index": index,
            "item_id": f"fc_{index}",
            "delta": whole[:6],
        },
        {
            "type": "response.function_call_arguments.delta",
            "output_index": index,
            "item_id": f"fc_{index}",
            "delta": whole[6:],
        },
        {
            "type": "response.function_call_arguments.done",
            "output_index": index,
            "item_id": f"fc_{index}",
            "arguments": whole,
        },
    )
]
ANTHROPIC: list[Event] = [
    {"type": "message_start", "message": {"role": "assistant"}},
    *(
        event
        for index, (ident, whole) in enumerate((("call_1", '{"a": 1, "b": 2}'), ("call_2", '{"a": 5, "b": 6}')))
        for event in (
            {
                "type": "content_block_start",
                "index": index,
                "content_block": {"type": "tool_use", "id": ident, "name": "demo__add", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": "input_json_delta", "partial_json": whole[:6]},
            },
            {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": "input_json_delta", "partial_json": whole[6:]},
            },
            {"type": "content_block_stop", "index": index},
        )
    ),
    {"type": "message_stop"},
]


def body_of(events: list[Event]) -> str:
    return "".join(f"event: {event.get('type', 'x')}\ndata: {json.dumps(event)}\n\n" for event in events)


@pytest.mark.parametrize(
    ("format_name", "events"), [("openai", CHAT), ("responses", RESPONSES), ("anthropic", ANTHROPIC)]
)
async def test_calls_of_a_stream_are_put_together_and_run(
    tmp_path: Path, format_name: str, events: list[Event]
) -> None:
    texts = [json.dumps(event) for event in events]
    async with sdk_server() as url, running(tmp_path, catalog("demo", url, ["add"])) as gateway:
        for stream in (events, [*texts, "[DONE]"], body_of(events) + "data: [DONE]\n\n", "\n".join(texts)):
            answer = (await post(gateway, "/v1/tool-calls", {"format": format_name, "stream": stream})).message
            assert [(call["id"], call["state"]) for call in answer["calls"]] == [("call_1", "done"), ("call_2", "done")]
            shown = json.dumps(answer["messages"])
            assert "3" in shown
            assert "11" in shown


async def test_a_call_that_the_stream_cuts_off_is_invalid_and_the_others_run(tmp_path: Path) -> None:
    async with sdk_server() as url, running(tmp_path, catalog("demo", url, ["add"])) as gateway:
        body = {"format": "anthropic", "stream": body_of(ANTHROPIC)[:-400]}
        answer = (await post(gateway, "/v1/tool-calls", body)).message
        neither = await post(gateway, "/v1/tool-calls", {"format": "anthropic"})
        both = await post(gateway, "/v1/tool-calls", {"format": "anthropic", "message": {}, "stream": []})
    assert [call["state"] for call in answer["calls"]] == ["done", "invalid"]
    assert "before the arguments did" in answer["calls"][1]["message"]
    assert problem(neither) == problem(both) == (400, "INVALID_ARGUMENTS")
