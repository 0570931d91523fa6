"""Bodies of the REST API with too many calls, definitions or values are refused before they are decoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_mcp.read_bounds import MAX_ITEMS, MAX_VALUES
from gatewayworld import catalog, running
from restworld import post, problem
from toolservers import modern_server

MANY = MAX_ITEMS + 1
TOOL = {"type": "function", "function": {"name": "a", "parameters": {}}}
BETWEEN = {"from": "openai-chat", "to": "anthropic"}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/tool-calls": {"format": "openai-chat", "message": {"role": "assistant", "tool_calls": [{"id": "1"}] * MANY}},
    "/v1/tool-calls/predict": {"format": "openai-chat", "stream": [{}] * MANY},
    "/v1/tools": {"format": "openai-chat", "tools": [TOOL] * MANY},
    "/v1/convert": {**BETWEEN, "tools": [TOOL] * MANY},
    "/v1/convert/messages": {**BETWEEN, "message": {"role": "assistant", "tool_calls": [{"id": "1"}] * MANY}},
    "/v1/plan": {"models": ["gpt-5-mini"], "messages": [{"role": "user", "content": "x"}] * MANY},
    "/v1/executions": {"name": "demo__a", "arguments": {"x": [1] * MAX_VALUES}},
}


@pytest.mark.parametrize("path", BODIES)
async def test_a_body_with_more_items_or_values_than_are_read_is_refused(tmp_path: Path, path: str) -> None:
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, ["a"]), rest_processes=0) as gateway,
    ):
        answer = await post(gateway, path, json.dumps(BODIES[path]).encode())
    assert answer.status == 400
    assert problem(answer) == (400, "INVALID_ARGUMENTS")
    assert answer.message["detail"].startswith("the body has more than ")
