"""A gateway in front of a scripted model behind Anthropic's API, and functions that read its answers as clients do."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from gatewayworld import Answer
from llmworld import ANTHROPIC, LlmWorld, llm_world

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
CLIENT_TOOL = {"name": "theirs", "description": "The caller's", "input_schema": {"type": "object"}}
CLIENT_CALL = ScriptedCall("theirs", {"q": 1})
THINKS = {"type": "enabled", "budget_tokens": 1024}


def world(folder: Path, *turns: ScriptedTurn, **more: Any) -> contextlib.AbstractAsyncContextManager[LlmWorld]:
    return llm_world(folder, *turns, **{"provider": ANTHROPIC, **more})


def events(answer: Answer) -> list[dict[str, Any]]:
    """Events of a streamed answer. The name of each has to match its data."""
    parsed = []
    for event in answer.body.decode().split("\n\n")[:-1]:
        name, _, data = event.partition("\ndata: ")
        parsed.append(json.loads(data))
        assert name == f"event: {parsed[-1]['type']}"
    return parsed


def message_of(received: list[dict[str, Any]]) -> dict[str, Any]:
    """Message that a client assembles from the events."""
    message: dict[str, Any] = {}
    for event in received:
        if event["type"] == "message_start":
            assert not message
            message = {**event["message"]}
        elif event["type"] == "content_block_start":
            assert event["index"] == len(message["content"])
            message["content"].append({**event["content_block"]})
        elif event["type"] == "content_block_delta":
            block = message["content"][event["index"]]
            delta = event["delta"]
            if delta["type"] == "input_json_delta":
                block["input"] = (block["input"] or "") + delta["partial_json"]
            else:
                member = delta["type"].removesuffix("_delta")
                block[member] += delta[member]
        elif event["type"] == "message_delta":
            message |= event["delta"] | {"fairlead": event.get("fairlead")}
            message["usage"] |= event["usage"]
    for block in message["content"]:
        if isinstance(block.get("input"), str):
            block["input"] = json.loads(block["input"] or "{}")
    return message


def final_message(answer: Answer, stream: bool) -> Any:
    assert answer.status == 200, answer.body
    return message_of(events(answer)) if stream else answer.message


def texts(message: dict[str, Any]) -> list[str]:
    return [block["text"] for block in message["content"] if block["type"] == "text"]


def kinds(message: dict[str, Any]) -> list[str]:
    return [block["type"] for block in message["content"]]
