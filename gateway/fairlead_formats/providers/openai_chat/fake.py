"""Fake of OpenAI's Chat Completions API, answered by the scripted model. It rejects the requests that the real API
rejects. Pure module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fairlead_formats.providers.openai_chat.fake_rules import fault
from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck, accept_any_schema
from fairlead_formats.scripted_turns import CREATED, ScriptedTurn, pieces
from fairlead_formats.wire.protocol import EVENT_STREAM


class ChatApi:
    """`POST /chat/completions`."""

    stream_type = EVENT_STREAM

    def __init__(self, check_schema: SchemaCheck = accept_any_schema) -> None:
        self._check_schema = check_schema

    def write_error(self, turn: ScriptedTurn) -> bytes:
        error = {"message": turn.text or "scripted error", "type": "api_error", "param": None, "code": "scripted"}
        return json.dumps({"error": error}).encode()

    def asks_for_stream(self, path: str, request: Mapping[str, Any]) -> bool:
        return bool(request.get("stream"))

    def refusal(self, path: str, request: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[int, bytes] | None:
        fault_of_request = fault(request, self._check_schema)
        return None if fault_of_request is None else openai_error(fault_of_request)

    def count_tokens(self, path: str, request: Mapping[str, Any]) -> bytes | None:
        return None

    def stream_event(self, data: str) -> str:
        return f"data: {data}\n\n"

    def whole_body(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
        if turn.calls and _uses_functions(request):
            message["function_call"] = {"name": turn.calls[0].name, "arguments": turn.calls[0].text}
        elif turn.calls:
            message["tool_calls"] = [
                {"id": ident, "type": "function", "function": {"name": call.name, "arguments": call.text}}
                for ident, call in zip(_ids(turn, number), turn.calls, strict=True)
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(turn, request)}
        return json.dumps(
            {
                "id": f"chatcmpl-{number}",
                "object": "chat.completion",
                "created": CREATED + number,
                "model": request.get("model"),
                "choices": [choice],
                "usage": _usage(turn),
                "service_tier": "default",
            }
        ).encode()

    def events(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> Iterator[str]:
        head = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion.chunk",
            "created": CREATED + number,
            "model": request.get("model"),
        }

        def chunk(delta: Mapping[str, Any], reason: str | None = None) -> str:
            return json.dumps({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

        yield chunk({"role": "assistant", "content": ""})
        yield from (chunk({"content": piece}) for piece in pieces(turn.text))
        for call in turn.calls[:1] if _uses_functions(request) else ():
            yield chunk({"function_call": {"name": call.name, "arguments": ""}})
            yield from (chunk({"function_call": {"arguments": piece}}) for piece in pieces(call.text))
        for index, (ident, call) in enumerate(zip(_ids(turn, number), turn.calls, strict=True)):
            if _uses_functions(request):
                break
            function = {"name": call.name, "arguments": ""}
            yield chunk({"tool_calls": [{"index": index, "id": ident, "type": "function", "function": function}]})
            for piece in pieces(call.text):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        if turn.cut or turn.breaks:
            return
        yield chunk({}, _reason(turn, request))
        if (request.get("stream_options") or {}).get("include_usage"):
            yield json.dumps({**head, "choices": [], "usage": _usage(turn)})
        yield "[DONE]"


def openai_error(fault_of_request: BrokenRule) -> tuple[int, bytes]:
    """Status and body of the error for a broken rule, in the form that all of OpenAI's APIs have."""
    rule, message, param = fault_of_request.rule, fault_of_request.message, fault_of_request.param
    error = {"message": message, "type": rule.type, "param": param, "code": rule.code}
    return rule.status, json.dumps({"error": error}).encode()


def _uses_functions(request: Mapping[str, Any]) -> bool:
    """Whether a request has `functions`, so that the answer has one `function_call`."""
    return bool(request.get("functions")) and not request.get("tools")


def _reason(turn: ScriptedTurn, request: Mapping[str, Any]) -> str:
    calls = "function_call" if _uses_functions(request) else "tool_calls"
    return turn.finish_reason or (calls if turn.calls else "stop")


def _usage(turn: ScriptedTurn) -> dict[str, Any]:
    """Usage in round numbers, so that a test can tell the usage of one response from the sum over several."""
    output = 10 + 10 * len(turn.calls)
    details = {"cached_tokens": 40}
    return {
        "prompt_tokens": 100,
        "completion_tokens": output,
        "total_tokens": 100 + output,
        "prompt_tokens_details": details,
    }


def _ids(turn: ScriptedTurn, number: int) -> list[str]:
    return [call.id or f"call_scripted_{number:04}_{index:04}" for index, call in enumerate(turn.calls)]
