"""A gateway as a registry's server: its names, and the distinction of its refusals from errors of tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_client import AsyncToolRegistry, ExecutionError, InvalidArguments, Retry, Server
from gatewayworld import catalog, running
from toolservers import legacy_server, modern_server, tool


async def test_a_gateways_tools_keep_their_names_and_its_refusals_are_execution_errors(tmp_path: Path) -> None:
    async with modern_server([tool("a")]) as server:
        there = catalog("there", server.url, ["a"])
        gone = catalog("gone", "http://127.0.0.1:1/mcp", ["b"])
        async with (
            running(tmp_path, there, gone) as gateway,
            AsyncToolRegistry([Server(name="g", url=f"http://127.0.0.1:{gateway.port}/mcp", prefix="")]) as registry,
        ):
            assert [tool.name for tool in registry.tools] == ["gone__b", "there__a"]
            assert (await registry.execute("there__a", {"n": 1})).text == '{"n":1}'
            outcome = await registry.execute("gone__b")
            assert isinstance(outcome.error, ExecutionError)
            assert (outcome.error.code, outcome.error.retryable) == ("CONNECTION_LOST", False)
            again = await registry.execute("gone__b", retry=Retry(attempts=2, first=0, repeatable=True))
            assert (again.attempts, again.ok) == (2, False)


@pytest.mark.parametrize(
    ("error", "kind", "retryable", "after"),
    [
        ({"code": "RATE_LIMITED", "message": "m", "retryAfterMs": 1500}, ExecutionError, True, 1.5),
        ({"code": "BREAKER_OPEN", "message": "m"}, ExecutionError, True, None),
        ({"code": "UPSTREAM_ERROR", "message": "m"}, ExecutionError, False, None),
        ({"code": "INVALID_ARGUMENTS", "message": "m"}, InvalidArguments, False, None),
    ],
)
async def test_a_refusal_says_whether_to_try_again(
    error: dict[str, Any], kind: type, retryable: bool, after: float | None
) -> None:
    result = {"content": [{"type": "text", "text": "m"}], "isError": True, "_meta": {"fairlead.dev/error": error}}
    async with (
        legacy_server([tool("a")], call=lambda request: result) as server,
        AsyncToolRegistry([Server(name="s", url=server.url)]) as registry,
    ):
        outcome = await registry.execute("s__a")
    assert outcome.error is not None
    assert type(outcome.error) is kind
    assert str(outcome.error) == "m"
    assert (outcome.error.retryable, outcome.error.retry_after, outcome.result) == (retryable, after, result)
