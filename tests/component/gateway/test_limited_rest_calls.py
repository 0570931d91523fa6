"""Calls over REST beyond a limit: each call reports it, and so does the HTTP status if all calls were refused."""

from __future__ import annotations

from pathlib import Path

from fairlead_app.gateway import Gateway
from gatewayworld import Answer, catalog, running
from restworld import post, problem
from toolservers import modern_server, tool


async def calls(gateway: Gateway, count: int) -> Answer:
    content = [{"type": "tool_use", "id": str(number), "name": "demo__add", "input": {}} for number in range(count)]
    message = {"role": "assistant", "content": content}
    return await post(gateway, "/v1/tool-calls", {"format": "anthropic", "message": message, "strategy": "sequential"})


async def test_where_all_calls_are_too_many_the_answer_is_429_and_says_when_to_come_again(tmp_path: Path) -> None:
    async with (
        modern_server([tool("add")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), agent_calls_per_minute=2) as gateway,
    ):
        some = await calls(gateway, 3)
        assert [each["state"] for each in some.message["calls"]] == ["done", "done", "refused"]
        limited = some.message["calls"][2]
        assert (some.status, limited["code"], 0 < limited["retryAfterMs"] <= 30_000) == (200, "RATE_LIMITED", True)
        assert 1 <= int(some.headers["retry-after"]) <= 30

        none = await calls(gateway, 2)
        assert problem(none) == (429, "RATE_LIMITED")
        assert 0 < none.message["retryAfterMs"] <= 30_000
        assert int(none.headers["retry-after"]) == -(-none.message["retryAfterMs"] // 1000)
