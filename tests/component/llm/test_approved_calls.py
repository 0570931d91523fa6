"""Approved calls run only if it is certain that the model gets their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairlead_formats.providers.openai_responses.mcp_tools import APPROVAL_ID
from fairlead_formats.scripted_turns import ScriptedTurn
from responsesworld import respond, responses_world

TOOL_WITH_APPROVAL = {
    "type": "mcp",
    "server_label": "sums",
    "server_url": "fairlead://demo",
    "require_approval": "always",
}
APPROVED: list[dict[str, Any]] = [
    {"role": "user", "content": "Add"},
    {
        "type": "mcp_approval_request",
        "id": f"{APPROVAL_ID}call_1",
        "name": "demo__add",
        "arguments": '{"a":2,"b":40}',
        "server_label": "sums",
    },
    {"type": "mcp_approval_response", "approval_request_id": f"{APPROVAL_ID}call_1", "approve": True},
]


async def test_no_other_model_gets_the_request_after_an_approved_call_ran(tmp_path: Path) -> None:
    scripts = [[ScriptedTurn("", status=500)], [ScriptedTurn("Well.")]]
    async with responses_world(tmp_path, *scripts) as world:
        answer = await respond(world, APPROVED, model="fairlead/all", store=False, tools=[TOOL_WITH_APPROVAL])
    assert len(world.called) == 1
    assert answer.status == 500
    assert answer.headers["x-should-retry"] == "false"
    assert not world.models[1].requests


async def test_no_approved_call_runs_when_the_tokens_of_the_day_are_spent(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Hi"), ScriptedTurn("42"), agent_tokens_per_day=1) as world:
        first = await respond(world, "Hi", store=False, fairlead={"tools": "none"})
        refused = await respond(world, APPROVED, store=False, tools=[TOOL_WITH_APPROVAL])
    assert (first.status, refused.status) == (200, 429)
    assert not world.called
