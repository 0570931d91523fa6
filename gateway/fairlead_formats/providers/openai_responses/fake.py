"""OpenAI's Responses API of the scripted model, with the rules by which the real one refuses requests: an output for
each call, thoughts in front of what they led to, and earlier answers that it has.

Source: OpenAI's API reference, `POST /v1/responses` and below it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fairlead_formats.scripted_turns import CREATED, ScriptedTurn, pieces


class ResponsesApi:
    """`POST /responses`, and requests about those that one model keeps."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[dict[str, Any], list[Any]]] = {}
        """By id: the response and its input."""
        self._thoughts: dict[str, str] = {}
        """By id of a call: that of the thoughts that led to it."""

    def failed(self, turn: ScriptedTurn) -> bytes:
        return _error(turn.text or "scripted error", "scripted")

    def asks_for_stream(self, path: str, asked: Mapping[str, Any]) -> bool:
        return bool(asked.get("stream"))

    def counted(self, path: str, asked: Mapping[str, Any]) -> bytes | None:
        return None

    def framed(self, data: str) -> str:
        kind = json.loads(data).get("type", "message") if data.startswith("{") else "message"
        return f"event: {kind}\ndata: {data}\n\n"

    def refusal(self, asked: Mapping[str, Any], headers: Mapping[str, str]) -> bytes | None:
        found = self._fault(asked)
        return None if found is None else _error(found)

    def _fault(self, asked: Mapping[str, Any]) -> str | None:
        before = asked.get("previous_response_id")
        if before is not None and before not in self._kept:
            return f"Previous response with id '{before}' not found."
        items = [item for item in _input(asked) if isinstance(item, dict)]
        earlier = self._kept[before][0]["output"] if before is not None else []
        calls = [item for item in [*earlier, *items] if item.get("type") == "function_call"]
        outputs = {item.get("call_id") for item in items if item.get("type") == "function_call_output"}
        for call in calls:
            if call["call_id"] not in outputs:
                return f"No tool output found for function call {call['call_id']}."
        for strange in outputs - {call["call_id"] for call in calls}:
            if "conversation" not in asked:
                return f"No tool call found for function call output with call_id {strange}."
        return self._out_of_place(items)

    def _out_of_place(self, items: list[dict[str, Any]]) -> str | None:
        ids = {item.get("id") for item in items}
        for item, following in zip(items, [*items[1:], {}], strict=True):
            kind = item.get("type")
            led = following.get("type", "message")
            leads = following and led not in ("reasoning", "function_call_output") and following.get("role") != "user"
            if kind == "reasoning" and not leads:
                return f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
            if self._thoughts.get(str(item.get("id")), item.get("id")) not in ids:
                return f"Item '{item.get('id')}' of type 'function_call' was provided without its required 'reasoning'."
        return None

    def whole(self, turn: ScriptedTurn, number: int, asked: Mapping[str, Any]) -> bytes:
        return json.dumps(self._answer(turn, number, asked)).encode()

    def _answer(self, turn: ScriptedTurn, number: int, asked: Mapping[str, Any]) -> dict[str, Any]:
        found = self._response(turn, number, asked, "completed")
        if asked.get("background"):
            found["status"], found["output"] = "queued", []
        if asked.get("store", True):
            self._kept[found["id"]] = (found, _input(asked))
        return found

    def events(self, turn: ScriptedTurn, number: int, asked: Mapping[str, Any]) -> Iterator[str]:
        begun = {**self._response(turn, number, asked, "in_progress"), "output": [], "usage": None}
        told: list[tuple[str, dict[str, Any]]] = [
            ("response.created", {"response": begun}),
            ("response.in_progress", {"response": begun}),
        ]
        final = self._answer(turn, number, asked)
        for place, item in enumerate(final["output"]):
            told += [(kind, {"output_index": place, **members}) for kind, members in _item_events(item)]
        if not (turn.cut or turn.breaks):
            told.append((f"response.{final['status']}", {"response": final}))
        for sequence, (kind, members) in enumerate(told):
            yield json.dumps({"type": kind, "sequence_number": sequence, **members})

    def _response(self, turn: ScriptedTurn, number: int, asked: Mapping[str, Any], status: str) -> dict[str, Any]:
        reason = turn.finish_reason
        if reason is not None and status == "completed":
            status = "failed" if reason == "failed" else "incomplete"
        said = 10 + 10 * len(turn.calls)
        return {
            "id": f"resp_scripted_{number:04}",
            "object": "response",
            "created_at": CREATED + number,
            "status": status,
            "error": {"code": "server_error", "message": turn.text} if status == "failed" else None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "instructions": asked.get("instructions"),
            "model": asked.get("model"),
            "output": [] if status == "failed" else self._output(turn, number, status),
            "parallel_tool_calls": True,
            "previous_response_id": asked.get("previous_response_id"),
            "tools": asked.get("tools", []),
            "tool_choice": asked.get("tool_choice", "auto"),
            "metadata": asked.get("metadata", {}),
            "usage": {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0},
                "output_tokens": said,
                "output_tokens_details": {"reasoning_tokens": 5},
                "total_tokens": 100 + said,
            },
        }

    def _output(self, turn: ScriptedTurn, number: int, status: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        thoughts = f"rs_scripted_{number:04}"
        if turn.thoughts:
            summary = [{"type": "summary_text", "text": thought} for thought in turn.thoughts]
            found.append(
                {"type": "reasoning", "id": thoughts, "summary": summary, "encrypted_content": f"sealed-{number}"}
            )
        found += [dict(item) for item in turn.items]
        if turn.text:
            content = [{"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}]
            done = "incomplete" if status == "incomplete" else "completed"
            found.append(
                {
                    "type": "message",
                    "id": f"msg_scripted_{number:04}",
                    "role": "assistant",
                    "status": done,
                    "content": content,
                }
            )
        for place, (ident, call) in enumerate(zip(_ids(turn, number), turn.calls, strict=True)):
            known = f"fc_scripted_{number:04}_{place:04}"
            if turn.thoughts:
                self._thoughts[known] = thoughts
            found.append(
                {
                    "type": "function_call",
                    "id": known,
                    "call_id": ident,
                    "name": call.name,
                    "arguments": call.text,
                    "status": "completed",
                }
            )
        return found

    def stored(self, method: str, path: str) -> tuple[int, bytes]:
        """Status and body of the answer to a request about a response that was kept."""
        ident, _, what = path.partition("/responses/")[2].partition("/")
        found = self._kept.get(ident)
        if found is None:
            return 404, _error(f"Response with id '{ident}' not found.")
        response, asked = found
        answer: dict[str, Any] = response
        if method == "DELETE":
            del self._kept[ident]
            answer = {"id": ident, "object": "response", "deleted": True}
        elif what == "cancel":
            response["status"] = "cancelled"
        elif what == "input_items":
            listed = [{"id": f"in_{place}", **item} for place, item in enumerate(asked) if isinstance(item, dict)]
            answer = {"object": "list", "data": listed, "has_more": False}
        return 200, json.dumps(answer).encode()


def _error(message: str, code: str | None = None) -> bytes:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return json.dumps({"error": error}).encode()


def _ids(turn: ScriptedTurn, number: int) -> list[str]:
    return [call.id or f"call_scripted_{number:04}_{place:04}" for place, call in enumerate(turn.calls)]


def _input(asked: Mapping[str, Any]) -> list[Any]:
    given = asked.get("input") or []
    return [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else list(given)


def _item_events(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Type and members of the events that tell of one item."""
    ident, kind = item["id"], item["type"]
    begun: dict[str, dict[str, Any]] = {
        "message": {"content": [], "status": "in_progress"},
        "reasoning": {"summary": []},
        "function_call": {"arguments": "", "status": "in_progress"},
    }
    yield "response.output_item.added", {"item": {**item, **begun.get(kind, {})}}
    if kind == "message":
        for place, part in enumerate(item["content"]):
            at = {"item_id": ident, "content_index": place}
            yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
            for piece in pieces(part["text"]):
                yield "response.output_text.delta", {**at, "delta": piece, "logprobs": []}
            yield "response.output_text.done", {**at, "text": part["text"], "logprobs": []}
            yield "response.content_part.done", {**at, "part": part}
    elif kind == "reasoning":
        for place, part in enumerate(item["summary"]):
            at = {"item_id": ident, "summary_index": place}
            yield "response.reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
            for piece in pieces(part["text"]):
                yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
            yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
            yield "response.reasoning_summary_part.done", {**at, "part": part}
    elif kind == "function_call":
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {"item_id": ident, "delta": piece}
        arguments = {"item_id": ident, "name": item["name"], "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", arguments
    yield "response.output_item.done", {"item": item}
