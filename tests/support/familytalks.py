"""Requests of clients of every family of APIs, and their answers in a neutral form.

answer = await post_request(world, "gemini", HI)
text, calls, own = parse_answer(answer, "gemini", stream=False)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fairlead_formats.messages.call import ModelCall
from fairlead_formats.neutral.answers import CallBegin, TextDelta, TranslatedAnswer, part_texts
from fairlead_formats.neutral.conversation import CallPart, MessageTurn, ResultPart
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.providers.bedrock.event_stream import EventStreamParser
from fairlead_formats.providers.bedrock.tools import BEDROCK
from fairlead_formats.registry import find
from fairlead_formats.tools.between import between
from fairlead_formats.wire.protocol import TranslationLosses
from gatewayworld import Answer
from llmworld import LlmWorld, theirs
from restworld import post

PROVIDERS: Mapping[str, Mapping[str, Any]] = {
    "openai-chat": {"kind": "openai", "responses": False},
    "openai-responses": {"kind": "openai", "responses": True},
    "anthropic": {"kind": "anthropic"},
    "gemini": {"kind": "gemini"},
    BEDROCK: {"kind": "bedrock"},
}
"""Members of a provider, by name of its format. Requests to hosts outside of AWS have no signature."""


async def post_request(
    world: LlmWorld,
    front: str,
    *turns: MessageTurn,
    stream: bool = False,
    model: str = "scripted",
    members: Mapping[str, Any] | None = None,
    tools: bool = True,
) -> Answer:
    """Send a request in a family's format, with a tool of the caller."""
    family = FAMILIES[front]
    body: dict[str, Any] = {family.messages_member: family.messages.write_messages(turns, TranslationLosses()).messages}
    if tools:
        offered = between([theirs()], find("openai-chat"), find(front)).tools
        body |= {"toolConfig": {"tools": offered}} if front == BEDROCK else {"tools": offered}
    path = {"openai-chat": "/v1/chat/completions", "openai-responses": "/v1/responses", "anthropic": "/v1/messages"}
    if front == "gemini":
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return await post(world.gateway, f"/v1beta/models/{model}:{method}", body | dict(members or {}))
    if front == BEDROCK:
        method = "converse-stream" if stream else "converse"
        return await post(world.gateway, f"/model/{quote(model, safe='')}/{method}", body | dict(members or {}))
    body |= {"model": model, "stream": stream, **({"max_tokens": 99} if front == "anthropic" else {})}
    return await post(world.gateway, path[front], body | dict(members or {}))


def parse_answer(answer: Answer, front: str, stream: bool) -> tuple[str, list[ModelCall], dict[str, Any]]:
    """Text and calls of an answer, and the gateway's own member."""
    assert answer.status == 200, answer.body
    family = FAMILIES[front]
    losses = TranslationLosses()
    if not stream:
        read: TranslatedAnswer = family.answers.read_answer(answer.message, losses)
        calls = [part.call for part in read.parts if isinstance(part, CallPart)]
        return part_texts(read.parts), calls, answer.message["fairlead"]
    reader = family.reader(losses)
    text = ""
    made = []
    own: dict[str, Any] = {}
    for event in _events(answer, front):
        own = (event.get("metadata") or {}).get("fairlead") or own
        own = event.get("fairlead") or (event.get("response") or {}).get("fairlead") or own
        for each in reader.events(event):
            if isinstance(each, TextDelta) and each.kind == "text":
                text += each.text
            elif isinstance(each, CallBegin):
                made.append(ModelCall(each.id, each.name, {}))
    assert reader.stop is not None
    return text, made, own


def _events(answer: Answer, front: str) -> Iterator[dict[str, Any]]:
    """Decoded events of a streamed answer."""
    if front == BEDROCK:
        parser = EventStreamParser(len(answer.body))
        yield from (json.loads(event.data) for event in parser.feed(answer.body))
        return
    for line in answer.body.decode().split("\n"):
        data = line.removeprefix("data: ")
        if data != line and data != "[DONE]":
            yield json.loads(data)


def with_results(calls: Sequence[ModelCall]) -> tuple[MessageTurn, MessageTurn]:
    """A model's calls in the client's conversation, and their results."""
    result = {"content": [{"type": "text", "text": "mine"}], "isError": False}
    results = tuple(ResultPart(call.id, call.name, result) for call in calls)
    return MessageTurn("assistant", tuple(CallPart(call) for call in calls)), MessageTurn("user", results)
