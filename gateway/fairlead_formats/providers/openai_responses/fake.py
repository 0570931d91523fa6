"""Fake of OpenAI's Responses API, answered by the scripted model. It rejects the requests that the real API rejects.
Pure module.

Source: OpenAI's API reference, `POST /v1/responses` and below it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead_formats.providers.openai_chat.fake import openai_error
from fairlead_formats.providers.openai_responses.fake_rules import StoredItems, encrypted_content, fault
from fairlead_formats.providers.openai_responses.request_rules import RESPONSES_RULES
from fairlead_formats.request_rules.rule import SchemaCheck, accept_any_schema
from fairlead_formats.scripted_turns import CREATED, ScriptedTurn, pieces
from fairlead_formats.wire.protocol import EVENT_STREAM

COUNT_MEMBERS: Final = frozenset(
    {
        "conversation",
        "input",
        "instructions",
        "model",
        "parallel_tool_calls",
        "personality",
        "previous_response_id",
        "reasoning",
        "text",
        "tool_choice",
        "tools",
        "truncation",
    }
)
"""Members of a request to count tokens."""
_COUNTING: Final = "/input_tokens"
_BYTES_PER_TOKEN: Final = 4


class ResponsesApi:
    """`POST /responses` and `/responses/input_tokens`, and requests about stored responses."""

    stream_type = EVENT_STREAM

    def __init__(self, check_schema: SchemaCheck = accept_any_schema) -> None:
        self._check_schema = check_schema
        self._stored = StoredItems()

    def write_error(self, turn: ScriptedTurn) -> bytes:
        return _error(turn.text or "scripted error", "scripted")

    def asks_for_stream(self, path: str, request: Mapping[str, Any]) -> bool:
        return bool(request.get("stream"))

    def count_tokens(self, path: str, request: Mapping[str, Any]) -> bytes | None:
        if not path.endswith(_COUNTING):
            return None
        counted_members = {name: request[name] for name in ("input", "instructions", "tools") if name in request}
        tokens = len(json.dumps(counted_members)) // _BYTES_PER_TOKEN
        return json.dumps({"object": "response.input_tokens", "input_tokens": tokens}).encode()

    @property
    def stored_items(self) -> StoredItems:
        """The stored responses."""
        return self._stored

    def stream_event(self, data: str) -> str:
        kind = json.loads(data).get("type", "message") if data.startswith("{") else "message"
        return f"event: {kind}\ndata: {data}\n\n"

    def refusal(self, path: str, request: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[int, bytes] | None:
        unknown_name = (
            next((name for name in request if name not in COUNT_MEMBERS), None) if path.endswith(_COUNTING) else None
        )
        if unknown_name is not None:
            return openai_error(RESPONSES_RULES.broken_rule("responses-member", name=unknown_name))
        fault_of_request = fault(request, self._stored, self._check_schema)
        return None if fault_of_request is None else openai_error(fault_of_request)

    def whole_body(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> bytes:
        return json.dumps(self._answer(turn, number, request)).encode()

    def _answer(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> dict[str, Any]:
        response = self._response(turn, number, request, "completed")
        if request.get("background"):
            response["status"], response["output"] = "queued", []
        if request.get("store", True):
            self._stored.responses[response["id"]] = (response, _input(request))
        return response

    def events(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> Iterator[str]:
        start_response = {**self._response(turn, number, request, "in_progress"), "output": [], "usage": None}
        sent_events: list[tuple[str, dict[str, Any]]] = [
            ("response.created", {"response": start_response}),
            ("response.in_progress", {"response": start_response}),
        ]
        final_response = self._answer(turn, number, request)
        for index, item in enumerate(final_response["output"]):
            sent_events += [(kind, {"output_index": index, **members}) for kind, members in _item_events(item)]
        if not (turn.cut or turn.breaks):
            sent_events.append((f"response.{final_response['status']}", {"response": final_response}))
        for sequence, (kind, members) in enumerate(sent_events):
            yield json.dumps({"type": kind, "sequence_number": sequence, **members})

    def _response(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any], status: str) -> dict[str, Any]:
        reason = turn.finish_reason
        if reason is not None and status == "completed":
            status = "failed" if reason == "failed" else "incomplete"
        output = 10 + 10 * len(turn.calls)
        return {
            "id": f"resp_scripted_{number:04}",
            "object": "response",
            "created_at": CREATED + number,
            "status": status,
            "error": {"code": "server_error", "message": turn.text} if status == "failed" else None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "instructions": request.get("instructions"),
            "model": request.get("model"),
            "output": [] if status == "failed" else self._output(turn, number, status),
            "parallel_tool_calls": True,
            "previous_response_id": request.get("previous_response_id"),
            "tools": request.get("tools", []),
            "tool_choice": request.get("tool_choice", "auto"),
            "metadata": request.get("metadata", {}),
            "usage": {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0},
                "output_tokens": output,
                "output_tokens_details": {"reasoning_tokens": 5},
                "total_tokens": 100 + output,
            },
        }

    def _output(self, turn: ScriptedTurn, number: int, status: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        thoughts = f"rs_scripted_{number:04}"
        if turn.thoughts:
            summary = [{"type": "summary_text", "text": thought} for thought in turn.thoughts]
            items.append(
                {
                    "type": "reasoning",
                    "id": thoughts,
                    "summary": summary,
                    "encrypted_content": encrypted_content(number),
                }
            )
        items += [dict(item) for item in turn.items]
        if turn.text:
            content = [{"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}]
            item_status = "incomplete" if status == "incomplete" else "completed"
            items.append(
                {
                    "type": "message",
                    "id": f"msg_scripted_{number:04}",
                    "role": "assistant",
                    "status": item_status,
                    "content": content,
                }
            )
        for index, (ident, call) in enumerate(zip(_ids(turn, number), turn.calls, strict=True)):
            item_id = f"fc_scripted_{number:04}_{index:04}"
            if turn.thoughts:
                self._stored.reasoning[item_id] = thoughts
            items.append(
                {
                    "type": "function_call",
                    "id": item_id,
                    "call_id": ident,
                    "name": call.name,
                    "arguments": call.text,
                    "status": "incomplete" if status == "incomplete" and call is turn.calls[-1] else "completed",
                }
            )
        return items

    def answer_stored(self, method: str, path: str) -> tuple[int, bytes]:
        """Status and body of the answer to a request about a stored response."""
        ident, _, action = path.partition("/responses/")[2].partition("/")
        stored_items = self._stored.responses.get(ident)
        if stored_items is None:
            return 404, _error(f"Response with id '{ident}' not found.")
        response, input_items = stored_items
        answer: dict[str, Any] = response
        if method == "DELETE":
            del self._stored.responses[ident]
            answer = {"id": ident, "object": "response", "deleted": True}
        elif action == "cancel":
            response["status"] = "cancelled"
        elif action == "input_items":
            item_list = [
                {"id": f"in_{index}", **item} for index, item in enumerate(input_items) if isinstance(item, dict)
            ]
            answer = {"object": "list", "data": item_list, "has_more": False}
        return 200, json.dumps(answer).encode()


def _error(message: str, code: str | None = None) -> bytes:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return json.dumps({"error": error}).encode()


def _ids(turn: ScriptedTurn, number: int) -> list[str]:
    return [call.id or f"call_scripted_{number:04}_{index:04}" for index, call in enumerate(turn.calls)]


def _input(request: Mapping[str, Any]) -> list[Any]:
    client_input = request.get("input") or []
    return (
        [{"type": "message", "role": "user", "content": client_input}]
        if isinstance(client_input, str)
        else list(client_input)
    )


def _item_events(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Type and members of each event of one item."""
    ident, kind = item["id"], item["type"]
    start: dict[str, dict[str, Any]] = {
        "message": {"content": [], "status": "in_progress"},
        "reasoning": {"summary": []},
        "function_call": {"arguments": "", "status": "in_progress"},
    }
    yield "response.output_item.added", {"item": {**item, **start.get(kind, {})}}
    if kind == "message":
        for index, part in enumerate(item["content"]):
            position = {"item_id": ident, "content_index": index}
            yield "response.content_part.added", {**position, "part": {**part, "text": ""}}
            for piece in pieces(part["text"]):
                yield "response.output_text.delta", {**position, "delta": piece, "logprobs": []}
            yield "response.output_text.done", {**position, "text": part["text"], "logprobs": []}
            yield "response.content_part.done", {**position, "part": part}
    elif kind == "reasoning":
        for index, part in enumerate(item["summary"]):
            position = {"item_id": ident, "summary_index": index}
            yield "response.reasoning_summary_part.added", {**position, "part": {**part, "text": ""}}
            for piece in pieces(part["text"]):
                yield "response.reasoning_summary_text.delta", {**position, "delta": piece}
            yield "response.reasoning_summary_text.done", {**position, "text": part["text"]}
            yield "response.reasoning_summary_part.done", {**position, "part": part}
    elif kind == "function_call":
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {"item_id": ident, "delta": piece}
        arguments = {"item_id": ident, "name": item["name"], "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", arguments
    yield "response.output_item.done", {"item": item}
