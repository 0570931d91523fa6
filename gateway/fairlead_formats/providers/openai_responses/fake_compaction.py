"""Fake of OpenAI's compaction endpoint, answered by the scripted model. It rejects the requests that the real endpoint
rejects. Pure module.

Source: OpenAI's API reference, `POST /v1/responses/compact`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead_formats.providers.openai_chat.fake import openai_error
from fairlead_formats.providers.openai_responses.fake_rules import StoredItems, encrypted_content, fault
from fairlead_formats.providers.openai_responses.request_rules import RESPONSES_RULES
from fairlead_formats.request_rules.rule import SchemaCheck, accept_any_schema
from fairlead_formats.scripted_turns import CREATED, ScriptedTurn
from fairlead_formats.wire.protocol import EVENT_STREAM

MEMBERS: Final = frozenset(
    {
        "image",
        "input",
        "instructions",
        "model",
        "previous_response_id",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "service_tier",
    }
)
"""Members that a request may have."""


class CompactionApi:
    """`POST /responses/compact`."""

    stream_type = EVENT_STREAM

    def __init__(self, stored_items: StoredItems, check_schema: SchemaCheck = accept_any_schema) -> None:
        self._stored = stored_items
        self._check_schema = check_schema

    def write_error(self, turn: ScriptedTurn) -> bytes:
        error = {"message": turn.text or "scripted error", "type": "invalid_request_error", "param": None}
        return json.dumps({"error": {**error, "code": "scripted"}}).encode()

    def asks_for_stream(self, path: str, request: Mapping[str, Any]) -> bool:
        return False

    def count_tokens(self, path: str, request: Mapping[str, Any]) -> bytes | None:
        return None

    def stream_event(self, data: str) -> str:
        raise NotImplementedError("compaction has no streams")

    def events(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> Iterator[str]:
        raise NotImplementedError("compaction has no streams")

    def refusal(self, path: str, request: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[int, bytes] | None:
        unknown_name = next((name for name in request if name not in MEMBERS), None)
        if unknown_name is not None:
            return openai_error(RESPONSES_RULES.broken_rule("responses-member", name=unknown_name))
        fault_of_request = fault(request, self._stored, self._check_schema)
        return None if fault_of_request is None else openai_error(fault_of_request)

    def whole_body(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any]) -> bytes:
        """All messages of users, and one item in place of all other items."""
        previous_response = self._stored.responses.get(str(request.get("previous_response_id")))
        client_input = request.get("input") or []
        items = (
            [{"type": "message", "role": "user", "content": client_input}]
            if isinstance(client_input, str)
            else client_input
        )
        messages = [
            item
            for item in (*(previous_response[1] if previous_response else ()), *items)
            if item.get("role") == "user"
        ]
        user_messages = [
            _output_message(item, f"msg_scripted_{number:04}_{index:04}") for index, item in enumerate(messages)
        ]
        compaction_item = {
            "id": f"cmp_scripted_{number:04}",
            "type": "compaction",
            "encrypted_content": encrypted_content(number),
        }
        usage = {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 110,
        }
        return json.dumps(
            {
                "id": f"resp_scripted_{number:04}",
                "object": "response.compaction",
                "created_at": CREATED + number,
                "output": [*user_messages, compaction_item],
                "usage": usage,
            }
        ).encode()


def _output_message(item: Mapping[str, Any], ident: str) -> dict[str, Any]:
    """A user's message as an item of the output."""
    content = item.get("content")
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return {"id": ident, "type": "message", "status": "completed", "role": "user", "content": parts}
