"""Splits a whole chat completion into stream chunks, for providers that ignore `stream`. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_chat.answer import TOOL_CALLS
from fairlead_formats.wire.protocol import BadAnswer

_NULL: Final = Raw(b"null")
_encode: Final = msgspec.json.Encoder().encode


class _WholeChoice(msgspec.Struct):
    message: dict[str, Raw]
    index: int = 0
    finish_reason: str | None = None
    logprobs: Raw = _NULL


class _WholeCompletion(msgspec.Struct):
    choices: list[_WholeChoice]


_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_completion: Final = msgspec.json.Decoder(_WholeCompletion).decode
_decode_calls: Final = msgspec.json.Decoder(list[dict[str, Raw]] | None).decode


def whole_events(body: bytes) -> list[bytes]:
    """Data of two chunks and of `[DONE]`: the message, and its end with the usage. A separate chunk for usage would
    have no choices, which clients that did not request usage may not expect. Raises BadAnswer.
    """
    try:
        head = {name: raw for name, raw in _members(body).items() if name not in ("choices", "usage")}
        usage = {name: raw for name, raw in _members(body).items() if name == "usage"}
        choices = _decode_completion(body).choices
        deltas = [_delta(choice) for choice in choices]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"the provider's answer is not a chat completion: {error}") from error
    if not choices:
        raise BadAnswer("the provider's answer has no choices")
    head["object"] = Raw(b'"chat.completion.chunk"')
    end_choices = [
        {"index": choice.index, "delta": {}, "finish_reason": choice.finish_reason or _reason(choice)}
        for choice in choices
    ]
    return [_encode({**head, "choices": deltas}), _encode({**head, "choices": end_choices, **usage}), b"[DONE]"]


def _delta(choice: _WholeChoice) -> dict[str, Any]:
    """The choice for the first chunk. Its calls get an index, which chunks require and messages lack."""
    delta: dict[str, Any] = {"role": "assistant", **choice.message}
    calls = _decode_calls(choice.message.get(TOOL_CALLS, _NULL)) or []
    if calls:
        delta[TOOL_CALLS] = [{**call, "index": index} for index, call in enumerate(calls)]
    logprobs: Mapping[str, Any] = {} if bytes(choice.logprobs) == b"null" else {"logprobs": choice.logprobs}
    return {"index": choice.index, "delta": delta, **logprobs, "finish_reason": None}


def _reason(choice: _WholeChoice) -> str:
    """The finish reason of a choice that the server sent without one: `tool_calls` or `stop`."""
    return "tool_calls" if bytes(choice.message.get(TOOL_CALLS, _NULL)) not in (b"null", b"[]") else "stop"
