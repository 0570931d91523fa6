"""A client of OpenAI Responses at a gateway in front of a scripted model.

async with responses_world(tmp_path, ScriptedTurn("Hello")) as world:
    answer = await respond(world, "Say hello")
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead_formats.scripted_turns import ScriptedTurn
from gatewayworld import Answer
from llmworld import LlmWorld, llm_world
from restworld import post

PATH = "/v1/responses"


def theirs(name: str = "theirs") -> dict[str, Any]:
    """A tool of the caller."""
    return {"type": "function", "name": name, "strict": False, "parameters": {"type": "object", "properties": {}}}


@contextlib.asynccontextmanager
async def responses_world(
    folder: Path, *turns: ScriptedTurn | Sequence[ScriptedTurn], **more: Any
) -> AsyncIterator[LlmWorld]:
    """Like `llm_world`, with providers of OpenAI Responses."""
    provider = {"responses": True, **more.pop("provider", {})}
    async with llm_world(folder, *turns, provider=provider, **more) as world:
        yield world


async def respond(world: LlmWorld, given: str | Sequence[Mapping[str, Any]], **members: Any) -> Answer:
    """Send one request. `headers` are added to the request."""
    headers = members.pop("headers", {})
    return await post(world.gateway, PATH, {"model": "scripted", "input": given, **members}, **headers)


def events(answer: Answer) -> list[dict[str, Any]]:
    """Data of a streamed answer's events, decoded."""
    lines = answer.body.decode().split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


async def final(
    world: LlmWorld, given: str | Sequence[Mapping[str, Any]], *, stream: bool, **members: Any
) -> dict[str, Any]:
    """The response to a request: the whole answer, or the last event of its stream."""
    answer = await respond(world, given, stream=stream, **members)
    assert answer.status == 200, answer.body
    response: dict[str, Any] = events(answer)[-1]["response"] if stream else answer.message
    return response


def result(call_id: str, output: str) -> dict[str, Any]:
    """The result of a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def kinds(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Types of items."""
    return [str(item.get("type", "message")) for item in items]
