"""Requests of Gemini's API to a gateway in front of a scripted model.

async with gemini_world(tmp_path, ScriptedTurn("Hello")) as world:
    answer = await generate(world, "Say hello")
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fairlead_formats.scripted_turns import ScriptedTurn
from gatewayworld import Answer
from llmworld import LlmWorld, llm_world
from restworld import post

GENERATE: Final = "generateContent"
STREAM: Final = "streamGenerateContent"
COUNT: Final = "countTokens"
KIND: Final = {"kind": "gemini"}
"""Members of a provider of Gemini's API."""


def declare_tools(*names: str) -> dict[str, Any]:
    """Tools of the caller."""
    return {"functionDeclarations": [{"name": name, "description": "The caller's"} for name in names or ("theirs",)]}


def text_content(text: str, role: str = "user") -> dict[str, Any]:
    """A content of text."""
    return {"role": role, "parts": [{"text": text}]}


def respond_to(*calls: Mapping[str, Any], result: str = "theirs said so") -> dict[str, Any]:
    """The caller's responses to calls, given as their parts."""
    names = ("id", "name")
    made = [{name: part["functionCall"][name] for name in names if name in part["functionCall"]} for part in calls]
    return {"role": "user", "parts": [{"functionResponse": {**call, "response": {"output": result}}} for call in made]}


@contextlib.asynccontextmanager
async def gemini_world(
    folder: Path,
    *scripts: ScriptedTurn | Sequence[ScriptedTurn],
    provider: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[LlmWorld]:
    """Like `llm_world`, with a provider of Gemini's API."""
    async with llm_world(folder, *scripts, provider={**KIND, **(provider or {})}, **settings) as world:
        yield world


async def generate(
    world: LlmWorld, *contents: str | Mapping[str, Any], method: str = GENERATE, **members: Any
) -> Answer:
    """Send one request. A text becomes a content of the user. `headers` are added to the request, and `model` and
    `version` are part of its path.
    """
    headers, model, version = (
        members.pop(name, otherwise)
        for name, otherwise in (("headers", {}), ("model", "scripted"), ("version", "v1beta"))
    )
    query = "?alt=sse" if method == STREAM else ""
    conversation = [text_content(each) if isinstance(each, str) else each for each in contents]
    target = f"/{version}/models/{model}:{method}{members.pop('query', query)}"
    return await post(world.gateway, target, {"contents": conversation, **members}, **headers)


def events(answer: Answer) -> list[Any]:
    """Decoded data of a streamed answer's events. Checks that each line is an event or empty."""
    lines = [line for line in answer.body.decode().split("\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def parts(*responses: Mapping[str, Any]) -> list[Any]:
    """All parts of the first candidates."""
    candidates = [each["candidates"][0] for each in responses if each.get("candidates")]
    return [part for each in candidates for part in each.get("content", {}).get("parts", [])]


def text(*responses: Mapping[str, Any]) -> str:
    """Text of responses, without thoughts."""
    return "".join(part.get("text", "") for part in parts(*responses) if not part.get("thought"))
