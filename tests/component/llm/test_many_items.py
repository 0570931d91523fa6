"""Requests to models with too many messages, parts or calls are refused before they are parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_mcp.read_bounds import MAX_ITEMS
from llmworld import llm_world
from restworld import post

MANY = MAX_ITEMS + 1
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}] * MANY},
    "/v1/responses": {"input": [{"type": "mcp_approval_response", "approval_request_id": "a"}] * MANY},
    "/v1/messages": {"max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "tool_result"}] * MANY}]},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "x"}] * MANY},
    "/v1beta/models/gpt-5-mini:generateContent": {"contents": [{"role": "user", "parts": [{"text": "x"}] * MANY}]},
}


@pytest.mark.parametrize("path", BODIES)
async def test_a_request_with_more_items_than_a_conversation_has_is_refused_in_the_form_of_its_api(
    tmp_path: Path, path: str
) -> None:
    async with llm_world(tmp_path) as world:
        answer = await post(world.gateway, path, {"model": "gpt-5-mini", **BODIES[path]})
    assert answer.status == 400
    assert answer.message["error"]["message"] == "the body has more than 10,000 messages, parts and calls: send fewer"
