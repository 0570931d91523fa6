"""Documents in place of a stream, with members of arbitrary types: they become events or are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairlead_formats.providers.anthropic.fake import AnthropicApi
from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.providers.bedrock.fake import BedrockApi
from fairlead_formats.providers.bedrock.format import BEDROCK
from fairlead_formats.providers.gemini.fake import GeminiApi
from fairlead_formats.providers.gemini.format import GEMINI_EVENTS
from fairlead_formats.providers.openai_chat.fake import ChatApi
from fairlead_formats.providers.openai_chat.format import CHAT
from fairlead_formats.providers.openai_responses.fake import ResponsesApi
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.wire.protocol import BadAnswer, BadStream, WireFormat

TURN = ScriptedTurn("Both.", [ScriptedCall("theirs", {"q": 1}), ScriptedCall("ours", {})], thoughts=["Hm."])
REQUESTS: dict[str, tuple[WireFormat, Any]] = {
    "chat": (CHAT, {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}),
    "responses": (RESPONSES, {"model": "m", "input": "Hi"}),
    "anthropic": (ANTHROPIC, {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}),
    "gemini": (GEMINI_EVENTS, {"contents": [{"parts": [{"text": "Hi"}]}]}),
    "bedrock": (BEDROCK, {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}),
}
DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "chat": lambda: ChatApi().whole_body(TURN, 1, {}),
    "responses": lambda: ResponsesApi().whole_body(TURN, 1, {}),
    "anthropic": lambda: AnthropicApi().whole_body(TURN, 1, {}),
    "gemini": lambda: GeminiApi().whole_body(TURN, 1, {}),
    "bedrock": lambda: BedrockApi().whole_body(TURN, 1, {}),
}
ODD: list[Any] = [None, 7, "text", [], {}, [None], [[]], {"type": 1}, "\ud800"]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


def _replace_at(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _replace_at(value[path[0]], path[1:], by)
    return copied


def _relay(wire: WireFormat, request: Any, body: bytes) -> bytes:
    """The stream for a document, or the message that refuses it. Any other outcome raises."""
    read = wire.read(json.dumps(request).encode(), "m", True)
    stream = wire.stream(read, frozenset({"theirs"}))
    try:
        out = b"".join(map(stream.feed, wire.whole_events(body)))
        return out + stream.end_round() + stream.finish({}) if stream.ended else out
    except (BadAnswer, BadStream) as error:
        return str(error).encode()


@pytest.mark.parametrize("family", DOCUMENTS)
def test_a_document_with_one_odd_member_is_streamed_or_refused(family: str) -> None:
    wire, request = REQUESTS[family]
    document = json.loads(DOCUMENTS[family]())
    for path in _places(document):
        for odd in ODD:
            body = json.dumps(_replace_at(document, path, odd)).encode()
            assert _relay(wire, request, body), (path, odd)


@pytest.mark.parametrize("body", [b"", b"no", b"[", b"null", b'"', b"\xff", b"[" * 5000, b'{"a":' * 5000])
@pytest.mark.parametrize("family", DOCUMENTS)
def test_a_document_that_cannot_be_decoded_is_refused(family: str, body: bytes) -> None:
    wire, request = REQUESTS[family]
    assert b"the provider's" in _relay(wire, request, body)
