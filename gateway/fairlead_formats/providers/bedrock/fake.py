"""Fake of Bedrock's Converse API, answered by the scripted model. It rejects the requests that the real API rejects.
Pure module.

Source: Amazon Bedrock API reference: Converse, ConverseStream and CountTokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead_formats.providers.bedrock.errors import error_body
from fairlead_formats.providers.bedrock.event_stream import CONTENT_TYPE, write_message
from fairlead_formats.providers.bedrock.fake_rules import fault, signature
from fairlead_formats.providers.bedrock.paths import COUNT, STREAM, read_path
from fairlead_formats.request_rules.rule import SchemaCheck, accept_any_schema
from fairlead_formats.scripted_turns import ScriptedTurn, pieces
from fairlead_formats.wire.errors import LlmError

BYTES_PER_TOKEN: Final = 4
"""Bytes that are counted as one token."""


class BedrockApi:
    """`POST /model/MODEL/converse`, `/converse-stream` and `/count-tokens`."""

    stream_type = CONTENT_TYPE

    def __init__(self, check_schema: SchemaCheck = accept_any_schema) -> None:
        self._check_schema = check_schema

    def write_error(self, turn: ScriptedTurn) -> bytes:
        return error_body(LlmError(turn.status, turn.text or "scripted error", "scripted"))

    def asks_for_stream(self, path: str, request: Mapping[str, Any]) -> bool:
        return path.endswith(f"/{STREAM}")

    def refusal(self, path: str, request: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[int, bytes] | None:
        target = read_path(path)
        counted_request = (request.get("input") or {}).get(
            "converse"
        )  # CountTokens has a request of Converse as its input
        converse_request = request if counted_request is None else counted_request
        violation = fault(converse_request, target.model if target else "", self._check_schema)
        if violation is None:
            return None
        return violation.rule.status, json.dumps({"message": violation.message}).encode()

    def count_tokens(self, path: str, request: Mapping[str, Any]) -> bytes | None:
        if not path.endswith(f"/{COUNT}"):
            return None
        return json.dumps({"inputTokens": len(json.dumps(request["input"]["converse"])) // BYTES_PER_TOKEN}).encode()

    def stream_event(self, data: str) -> bytes:
        """One message of the stream; `data` is an object with the payload below the name of the event."""
        ((name, payload),) = json.loads(data).items()
        kind = "exception" if name.endswith("Exception") else "event"
        return write_message(name, json.dumps(payload).encode(), kind)

    def whole_body(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> bytes:
        content: list[dict[str, Any]] = [_thought(number, text) for text in turn.thoughts]
        if turn.text:
            content.append({"text": turn.text})
        content += [{"toolUse": {**use, "input": json.loads(text or "{}")}} for use, text in _calls(turn, number)]
        return json.dumps(
            {
                "metrics": {"latencyMs": 1},
                "output": {"message": {"content": content, "role": "assistant"}},
                "stopReason": _reason(turn),
                "usage": _usage(turn),
            }
        ).encode()

    def events(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> Iterator[str]:
        yield _event("messageStart", role="assistant")
        index = 0
        for text in turn.thoughts:
            for piece in pieces(text):
                yield _event("contentBlockDelta", index, delta={"reasoningContent": {"text": piece}})
            signature_delta = {"reasoningContent": {"signature": signature(number, text)}}
            yield _event("contentBlockDelta", index, delta=signature_delta)
            yield _event("contentBlockStop", index)
            index += 1
        for piece in pieces(turn.text):
            yield _event("contentBlockDelta", index, delta={"text": piece})
        if turn.text:
            yield _event("contentBlockStop", index)
            index += 1
        for use, text in _calls(turn, number):
            yield _event("contentBlockStart", index, start={"toolUse": use})
            for piece in pieces(text):
                yield _event("contentBlockDelta", index, delta={"toolUse": {"input": piece}})
            yield _event("contentBlockStop", index)
            index += 1
        if turn.cut or turn.breaks:
            return
        yield _event("messageStop", stopReason=_reason(turn))
        yield _event("metadata", usage=_usage(turn), metrics={"latencyMs": 1})


def _event(name: str, index: int | None = None, **members: Any) -> str:
    position = {} if index is None else {"contentBlockIndex": index}
    return json.dumps({name: {**position, **members, "p": "abcdefgh"}})  # the API pads its events to hide their lengths


def _thought(number: int, text: str) -> dict[str, Any]:
    return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature(number, text)}}}


def _calls(turn: ScriptedTurn, number: int) -> list[tuple[dict[str, Any], str]]:
    """Starts of calls, each with its input as text."""
    return [
        ({"toolUseId": call.id or f"tooluse_scripted_{number:04}_{index:04}", "name": call.name}, call.text)
        for index, call in enumerate(turn.calls)
    ]


def _reason(turn: ScriptedTurn) -> str:
    return turn.finish_reason or ("tool_use" if turn.calls else "end_turn")


def _usage(turn: ScriptedTurn) -> dict[str, Any]:
    """Usage in round numbers, so that a test can tell the usage of one response from the sum over several."""
    output = 10 + 10 * len(turn.calls)
    counts = {"inputTokens": 100, "outputTokens": output, "totalTokens": 145 + output}
    return {**counts, "cacheReadInputTokens": 40, "cacheWriteInputTokens": 5}
