"""Requests of Bedrock's Converse to a gateway in front of a scripted model.

async with bedrock_world(tmp_path, ScriptedTurn("Hello")) as world:
    answer = await converse(world, "Say hello")
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from fairlead_formats.providers.bedrock.event_stream import EventStreamParser
from fairlead_formats.scripted_turns import ScriptedTurn
from gatewayworld import Answer
from llmworld import LlmWorld, llm_world
from restworld import post

KIND: Final = {"kind": "bedrock"}
"""Members of a Bedrock provider. Requests to a host outside of AWS have no signature."""
CONVERSE: Final = "converse"
STREAM: Final = "converse-stream"
COUNT: Final = "count-tokens"


def bedrock_world(folder: Path, *turns: ScriptedTurn, **more: Any) -> contextlib.AbstractAsyncContextManager[LlmWorld]:
    return llm_world(folder, *turns, **{"provider": KIND, **more})


def declare_tools(*names: str) -> dict[str, Any]:
    """Tools of the caller."""
    schema = {"json": {"type": "object", "properties": {}}}
    specs = [{"name": name, "description": "The caller's", "inputSchema": schema} for name in names or ("theirs",)]
    return {"tools": [{"toolSpec": spec} for spec in specs]}


def user_message(text: str) -> dict[str, Any]:
    """A message of the user."""
    return {"role": "user", "content": [{"text": text}]}


def answer_calls(message: Mapping[str, Any], result: str = "theirs said so") -> dict[str, Any]:
    """The caller's results for the calls in a message."""
    idents = [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]
    results = [{"toolResult": {"toolUseId": ident, "content": [{"text": result}]}} for ident in idents]
    return {"role": "user", "content": results}


async def converse(
    world: LlmWorld, *messages: str | Mapping[str, Any], method: str = CONVERSE, model: str = "scripted", **members: Any
) -> Answer:
    """Send one request. A text becomes a message of the user. `headers` are added to the request."""
    headers = members.pop("headers", {})
    conversation = [user_message(each) if isinstance(each, str) else each for each in messages]
    body = {"messages": conversation, **members}
    if method == COUNT:
        body = {"input": {"converse": body}}
    return await post(world.gateway, f"/model/{quote(model, safe='')}/{method}", body, **headers)


def events(answer: Answer) -> list[tuple[str, Any]]:
    """Names and payloads of a streamed answer's events."""
    parsed = EventStreamParser(len(answer.body) + 1).feed(answer.body)
    return [(name, payload) for event in parsed for name, payload in json.loads(event.data).items()]


def message_of(received: list[tuple[str, Any]]) -> dict[str, Any]:
    """Message that a client assembles from the events."""
    content: list[dict[str, Any]] = []
    for name, payload in received:
        if name == "messageStart":
            assert not content
        elif name.startswith("contentBlock") and payload["contentBlockIndex"] == len(content):
            content.append({"toolUse": {**payload["start"]["toolUse"], "input": ""}} if "start" in payload else {})
        if name == "contentBlockDelta":
            _grow(content[payload["contentBlockIndex"]], payload["delta"])
    for block in content:
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
    return {"role": "assistant", "content": content}


def _grow(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    ((kind, value),) = delta.items()
    if kind == "text":
        block["text"] = block.get("text", "") + value
    elif kind == "toolUse":
        block["toolUse"]["input"] += value["input"]
    else:
        thought = block.setdefault("reasoningContent", {"reasoningText": {"text": ""}})["reasoningText"]
        for name, piece in value.items():
            thought[name] = thought.get(name, "") + piece


def final_message(answer: Answer, stream: bool) -> Any:
    assert answer.status == 200, answer.body
    return message_of(events(answer)) if stream else answer.message["output"]["message"]
