"""One request with thousands of denied calls, through a real gateway: the resulting lines of the audit log."""

from __future__ import annotations

import json
from pathlib import Path

from fairlead_api.documents.rules import Policy, Rule, Rules
from gatewayworld import catalog, running
from restworld import post
from toolservers import modern_server, tool

CALLS = 3_000


async def test_thousands_of_denied_calls_in_one_request_are_a_few_lines_of_the_audit_log(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    denying = Policy(
        namespace="default",
        name="no-pay",
        every=True,
        rules=(Rule(action="Deny", tools=("pay",)),),
    )
    blocks = [{"type": "tool_use", "id": f"c{n}", "name": "demo__pay", "input": {"n": n}} for n in range(CALLS)]
    body = {"format": "anthropic", "message": {"content": blocks}}
    async with modern_server([tool("pay")]) as server:
        demo = catalog("demo", server.url, ["pay"])
        async with running(tmp_path, demo, Rules(policies=(denying,)), audit_file=log) as gateway:
            assert (await post(gateway, "/v1/tool-calls", body)).status == 200
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(line.get("times", 1) for line in lines) == CALLS
    assert {line["tool"] for line in lines} == {"mcp.demo.pay"}
    assert len(lines) < CALLS // 4, "11 for each second that the request took"
