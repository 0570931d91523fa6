"""Fake of Anthropic's Messages API, answered by the scripted model. It rejects the requests that the real API rejects.
Pure module.

Source: Anthropic's API reference, `POST /v1/messages`, and its guides to tool use and to extended thinking.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead_formats.providers.anthropic.fake_rules import MessageThreads, fault, signature
from fairlead_formats.request_rules.rule import SchemaCheck, accept_any_schema
from fairlead_formats.scripted_turns import ScriptedTurn, pieces
from fairlead_formats.wire.protocol import EVENT_STREAM

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_COUNTING: Final = "/count_tokens"
BYTES_PER_TOKEN: Final = 4
"""Bytes that are counted as one token."""


class AnthropicApi:
    """`POST /v1/messages` and `/v1/messages/count_tokens`."""

    stream_type = EVENT_STREAM

    def __init__(self, check_schema: SchemaCheck = accept_any_schema) -> None:
        self._check_schema = check_schema
        self._threads = MessageThreads()

    def write_error(self, turn: ScriptedTurn) -> bytes:
        return _error(_TYPES.get(turn.status, "api_error"), turn.text or "scripted error")

    def asks_for_stream(self, path: str, request: Mapping[str, Any]) -> bool:
        return bool(request.get("stream"))

    def refusal(self, path: str, request: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[int, bytes] | None:
        violation = next(self._threads.faults(request, headers), None) or fault(
            self._threads.with_thread(request), headers, self._check_schema, counts=path.endswith(_COUNTING)
        )
        if violation is None:
            return None
        rule = violation.rule
        return rule.status, _error(rule.type, violation.message, rule.code)

    def count_tokens(self, path: str, request: Mapping[str, Any]) -> bytes | None:
        if not path.endswith(_COUNTING):
            return None
        parts = [request.get(name) for name in ("system", "tools", "messages")]
        return json.dumps({"input_tokens": len(json.dumps(parts)) // BYTES_PER_TOKEN}).encode()

    def stream_event(self, data: str) -> str:
        kind = json.loads(data).get("type", "message") if data.startswith("{") else "message"
        return f"event: {kind}\ndata: {data}\n\n"

    def whole_body(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> bytes:
        blocks = _decode_inputs(_blocks(turn, number))
        head = _head(number, request)
        self._threads.store(request, head["id"], blocks)
        return json.dumps(
            {
                **head,
                "content": blocks,
                "stop_reason": _reason(turn),
                "stop_sequence": None,
                "stop_details": None,
                "usage": {**_usage(), "output_tokens": _output_tokens(turn)},
            }
        ).encode()

    def events(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> Iterator[str]:
        message = {**_head(number, request), "content": [], "stop_reason": None, "stop_sequence": None}
        yield _event("message_start", message={**message, "usage": {**_usage(), "output_tokens": 1}})
        yield _event("ping")
        for index, block in enumerate(_blocks(turn, number)):
            yield from _block_events(index, block)
        if turn.cut or turn.breaks:
            return
        self._threads.store(request, message["id"], _decode_inputs(_blocks(turn, number)))
        delta = {"stop_reason": _reason(turn), "stop_sequence": None, "stop_details": None}
        yield _event("message_delta", delta=delta, usage={"output_tokens": _output_tokens(turn)})
        yield _event("message_stop")


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[str]:
    """Events of one block."""
    content_member = {"thinking": "thinking", "text": "text", "tool_use": "input"}[block["type"]]
    is_call = content_member == "input"
    empty_block = {**block, content_member: {} if is_call else ""}
    if "signature" in block:
        empty_block["signature"] = ""
    yield _event("content_block_start", index=index, content_block=empty_block)
    kind, member = ("input_json_delta", "partial_json") if is_call else (f"{content_member}_delta", content_member)
    for piece in ["", *pieces(block[content_member])] if is_call else pieces(block[content_member]):
        yield _event("content_block_delta", index=index, delta={"type": kind, member: piece})
    if "signature" in block:
        delta = {"type": "signature_delta", "signature": block["signature"]}
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _event(kind: str, **members: Any) -> str:
    return json.dumps({"type": kind, **members})


def _error(kind: str, message: str, code: str | None = None) -> bytes:
    details = {} if code is None else {"details": {"error_code": code}}
    return json.dumps({"type": "error", "error": {"type": kind, "message": message, **details}}).encode()


def _head(number: int, request: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": f"msg_scripted_{number:04}", "type": "message", "role": "assistant", "model": request.get("model")}


def _blocks(turn: ScriptedTurn, number: int) -> list[dict[str, Any]]:
    """Blocks of a message. The input of calls is text."""
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": text, "signature": signature(number, text)} for text in turn.thoughts
    ]
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    for index, call in enumerate(turn.calls):
        ident = call.id or f"toolu_scripted_{number:04}_{index:04}"
        blocks.append({"type": "tool_use", "id": ident, "name": call.name, "input": call.text})
    return blocks


def _decode_inputs(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks with decoded inputs of calls. An input that is not valid JSON stays text."""
    return [
        {**block, "input": _decode_input(block["input"])} if block["type"] == "tool_use" else block for block in blocks
    ]


def _decode_input(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def _reason(turn: ScriptedTurn) -> str:
    return turn.finish_reason or ("tool_use" if turn.calls else "end_turn")


def _usage() -> dict[str, Any]:
    """Usage in round numbers, so that a test can tell the usage of one response from the sum over several."""
    return {"input_tokens": 100, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 40}


def _output_tokens(turn: ScriptedTurn) -> int:
    return 10 + 10 * len(turn.calls)
