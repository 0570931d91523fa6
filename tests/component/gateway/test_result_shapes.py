"""Malformed results over each transport, for clients of both eras, REST and Python: each executed call gets a
result."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from fairlead_app.gateway import Gateway
from fairlead_client import AsyncToolRegistry, Server
from fairlead_mcp.host import ChildHost
from gatewayworld import LEGACY, MODERN, ask, calling, catalog, entry, running
from rawserver import raw_server
from restworld import post
from resultcorpus import refusals
from shapeserver import INFO, TRANSPORTS, answer_json, serving
from toolservers import tool

ERAS = (LEGACY, MODERN)
TEXT = {"type": "text", "text": "x"}


@contextlib.asynccontextmanager
async def odd_gateway(folder: Path, transport: str, version: str, **more: Any) -> AsyncIterator[Gateway]:
    """A gateway with a server whose tool returns the result that its arguments contain."""
    children = ChildHost()
    try:
        async with serving(transport, version) as reached:
            document = catalog("odd", reached, [entry(tool("give", **more))], version=version)
            async with running(folder, document, children=children, shared_children=False) as gateway:
                yield gateway
    finally:
        await children.aclose()


async def result_of(gateway: Gateway, given: Any, era: str) -> Any:
    message = (await ask(gateway, calling("odd__give", {"result": given}, era=era))).message
    assert "result" in message, message
    return message["result"]


@pytest.mark.parametrize(("transport", "version"), TRANSPORTS)
async def test_a_result_of_another_shape_reaches_each_client_in_that_of_its_schema(
    tmp_path: Path, transport: str, version: str
) -> None:
    cases: list[tuple[Any, list[dict[str, Any]]]] = [
        ({"content": [TEXT], "structuredContent": [1]}, [TEXT]),
        ({"_meta": None, "content": [TEXT], "structuredContent": None, "isError": False}, [TEXT]),
        ({"structuredContent": {"a": 1}}, [{"type": "text", "text": '{"a": 1}'}]),
        ({"temperature": 20}, [{"type": "text", "text": '{"temperature": 20}'}]),
        ({"content": "x"}, [TEXT]),
        ({"content": [{**TEXT, "annotations": None}, None]}, [TEXT]),
        ({"content": [{"type": "video"}]}, [{"type": "text", "text": '{"type": "video"}'}]),
    ]
    async with odd_gateway(tmp_path, transport, version) as gateway:
        for given, content in cases:
            for era in ERAS:
                made = await result_of(gateway, given, era)
                assert refusals(made, era) == [], given
                assert (made["content"], made.get("isError", False)) == (content, False)
                structured = given.get("structuredContent")
                if structured is not None and (era == MODERN or structured != [1]):
                    assert made["structuredContent"] == structured
                elif era == LEGACY:
                    assert "structuredContent" not in made
        for era in ERAS:
            for given in ([], "x", 7):
                assert (
                    await ask(gateway, calling("odd__give", {"result": given}, era=era))
                ).refusal == "UPSTREAM_ERROR"
            assert (await result_of(gateway, {"content": "no", "isError": "yes"}, era))["isError"] is True


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ({"inputRequests": None, "requestState": "s", "_meta": None}, True),
        ({"inputRequests": [], "requestState": "s"}, True),
        ({"inputRequests": {"a": 7}}, False),
        ({"requestState": 7}, False),
    ],
)
async def test_a_request_for_input_is_in_the_form_that_its_client_knows_or_refused(
    tmp_path: Path, given: dict[str, Any], passed: bool
) -> None:
    async with odd_gateway(tmp_path, "http", MODERN) as gateway:
        made = await result_of(gateway, {"resultType": "input_required", **given}, MODERN)
        if passed:
            assert (made.keys(), made["resultType"]) == ({"resultType", "requestState"}, "input_required")
        else:
            assert made["_meta"]["fairlead.dev/error"]["code"] == "UPSTREAM_ERROR"


async def test_results_that_are_mended_are_told_once_for_each_tool(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with odd_gateway(tmp_path, "http", MODERN) as gateway:
        await result_of(gateway, {"content": [TEXT], "structuredContent": [1]}, LEGACY)
        assert caplog.messages == [], "2026-07-28 has lists"
        for _ in range(3):
            await result_of(gateway, {"content": [{**TEXT, "annotations": None}]}, LEGACY)
    (line,) = [line for line in caplog.messages if "repaired" in line]
    assert line.startswith("default/odd: results of give violate the MCP schema")
    assert "$.content[0].annotations" in line


async def test_rest_has_odd_results_in_the_form_of_mcp_and_lists_as_they_are(tmp_path: Path) -> None:
    async with odd_gateway(tmp_path, "http", LEGACY) as gateway:
        for given, content, structured in (
            ({"content": "x"}, [TEXT], None),
            ({"structuredContent": [1]}, [{"type": "text", "text": "[1]"}], [1]),
            ({"_meta": None, "content": [TEXT], "structuredContent": None}, [TEXT], None),
            ({"content": [{"type": "video"}]}, [{"type": "text", "text": '{"type": "video"}'}], None),
        ):
            params = {"name": "odd__give", "arguments": {"result": given}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            answer = await post(gateway, "/v1/tool-calls", {"format": "mcp", "message": message})
            (called,) = answer.message["messages"]
            assert (called["result"]["content"], called["result"].get("structuredContent")) == (content, structured)


async def test_the_python_client_has_odd_results_in_the_form_of_mcp() -> None:
    async with (
        raw_server(answer_json) as server,
        AsyncToolRegistry([Server(name="odd", url=server.url)]) as registry,
    ):
        for given, value, text in (
            ({"content": "x"}, "x", "x"),
            ({"structuredContent": [1]}, [1], "[1]"),
            ({"_meta": None, "content": [{**TEXT, "annotations": None}], "structuredContent": None}, "x", "x"),
            ({"temperature": 20}, '{"temperature": 20}', '{"temperature": 20}'),
        ):
            outcome = await registry.execute("odd__give", {"result": given})
            assert (outcome.ok, outcome.value, outcome.text) == (True, value, text)
            assert not refusals({"resultType": "complete", **(outcome.result or {})}, MODERN)
        failed = await registry.execute("odd__give", {"result": {"content": "no", "isError": "true"}})
        assert (failed.ok, str(failed.error)) == (False, "no")
        unreadable = await registry.execute("odd__give", {"result": []})
        assert unreadable.error is not None
        assert unreadable.error.code == "UPSTREAM_ERROR"


@pytest.mark.parametrize("era", ERAS)
async def test_a_list_that_an_older_client_cannot_take_is_not_held_against_the_output_schema(
    tmp_path: Path, era: str
) -> None:
    async with odd_gateway(tmp_path, "http", MODERN, outputSchema={"type": "array"}) as gateway:
        made = await result_of(gateway, {"content": [TEXT], "structuredContent": [1]}, era)
        assert "fairlead.dev/warning" not in made.get("_meta", {})


@pytest.mark.parametrize("info", [{}, {"name": "s", "version": None}, {**INFO, "icons": None}, {**INFO, "title": 7}])
async def test_a_server_with_an_odd_name_is_not_named_in_results(tmp_path: Path, info: dict[str, Any]) -> None:
    async with serving("http", LEGACY) as reached:
        document = catalog("odd", reached, ["give"], version=LEGACY, server_info=Raw(json.dumps(info).encode()))
        async with running(tmp_path, document) as gateway:
            assert refusals(await result_of(gateway, {"content": [TEXT]}, MODERN), MODERN) == []
