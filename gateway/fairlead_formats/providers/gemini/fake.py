"""Fake of the Gemini API, answered by the scripted model. It rejects the requests that the real API rejects.
Pure module.

Source: Google's API reference, `models.generateContent`, `models.streamGenerateContent` and `models.countTokens`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.providers.gemini.fake_rules import fault, signature
from fairlead_formats.request_rules.rule import SchemaCheck, accept_any_schema
from fairlead_formats.scripted_turns import ScriptedTurn, pieces
from fairlead_formats.wire.protocol import EVENT_STREAM

_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
BYTES_PER_TOKEN: Final = 4
"""Bytes that are counted as one token."""


class GeminiApi:
    """`POST /v1beta/models/MODEL:generateContent`, `:streamGenerateContent` and `:countTokens`."""

    stream_type = EVENT_STREAM

    def __init__(self, check_schema: SchemaCheck = accept_any_schema) -> None:
        self._check_schema = check_schema

    def write_error(self, turn: ScriptedTurn) -> bytes:
        return _error(turn.status, turn.text or "scripted error")

    def asks_for_stream(self, path: str, request: Mapping[str, Any]) -> bool:
        return path.endswith(":streamGenerateContent")

    def refusal(self, path: str, request: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[int, bytes] | None:
        violation = fault(request.get("generateContentRequest", request), self._check_schema, path)
        if violation is None:
            return None
        return violation.rule.status, _error(violation.rule.status, violation.message)

    def count_tokens(self, path: str, request: Mapping[str, Any]) -> bytes | None:
        if not path.endswith(":countTokens"):
            return None
        full_request = request.get("generateContentRequest", request)
        parts = [full_request.get(name) for name in ("systemInstruction", "tools", "contents")]
        return json.dumps({"totalTokens": len(json.dumps(parts)) // BYTES_PER_TOKEN}).encode()

    def stream_event(self, data: str) -> str:
        return f"data: {data}\r\n\r\n"

    def whole_body(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> bytes:
        parts = [*_thoughts(turn), *([{"text": turn.text}] if turn.text else []), *_calls(turn, number)]
        if turn.thoughts and not turn.calls and parts:
            parts[-1] = {**parts[-1], "thoughtSignature": signature(number)}
        return json.dumps(_response(number, parts, _usage(turn), turn.finish_reason or "STOP")).encode()

    def events(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> Iterator[str]:
        interim_usage = {"promptTokenCount": 100, "totalTokenCount": 100}
        parts = [*_thoughts(turn), *({"text": piece} for piece in pieces(turn.text))]
        for part in parts:
            yield json.dumps(_response(number, [part], interim_usage))
        calls = _calls(turn, number)
        if turn.cut or turn.breaks:
            return
        is_signed = turn.thoughts and not calls
        last_parts = calls or [{"text": "", **({"thoughtSignature": signature(number)} if is_signed else {})}]
        yield json.dumps(_response(number, last_parts, _usage(turn), turn.finish_reason or "STOP"))


def model_document(path: str) -> bytes:
    """Answer to `GET /v1beta/models/MODEL`."""
    name = path.rpartition("/")[2]
    limits = {"inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}
    return json.dumps({"name": f"models/{name}", "displayName": name, **limits}).encode()


def _response(
    number: int, parts: Sequence[Mapping[str, Any]], usage: Mapping[str, Any], reason: str | None = None
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": "scripted",
        "responseId": f"scripted-{number:04}",
    }


def _thoughts(turn: ScriptedTurn) -> list[dict[str, Any]]:
    return [{"text": text, "thought": True} for text in turn.thoughts]


def _calls(turn: ScriptedTurn, number: int) -> list[dict[str, Any]]:
    """Parts of calls, the first of them signed."""
    parts: list[dict[str, Any]] = []
    for index, call in enumerate(turn.calls):
        ident = call.id or f"call_scripted_{number:04}_{index:04}"
        part: dict[str, Any] = {"functionCall": {"id": ident, "name": call.name, "args": json.loads(call.text)}}
        parts.append(part if index else {**part, "thoughtSignature": signature(number)})
    return parts


def _usage(turn: ScriptedTurn) -> dict[str, Any]:
    """Usage in round numbers, so that a test can tell the usage of one response from the sum over several."""
    output = 10 + 10 * len(turn.calls)
    return {
        "promptTokenCount": 100,
        "candidatesTokenCount": output,
        "totalTokenCount": 100 + output,
        "cachedContentTokenCount": 40,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}],
    }


def _error(code: int, message: str) -> bytes:
    status = _STATUSES.get(code, "INTERNAL")
    return json.dumps({"error": {"code": code, "message": message, "status": status}}).encode()
