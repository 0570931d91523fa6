"""Validation of arguments and results by the tool's schemas, on the real path of a call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gatewayworld import LEGACY, MODERN, ask, calling, catalog, modern, running, scrape
from toolservers import legacy_server, modern_server

ERAS = (MODERN, LEGACY)
SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}


def tool(**more: Any) -> dict[str, Any]:
    return {"name": "get", "description": "d", "inputSchema": SCHEMA, **more}


@pytest.mark.parametrize("client", ERAS)
async def test_arguments_that_do_not_fit_come_back_with_what_to_mend_and_go_nowhere(
    tmp_path: Path, client: str
) -> None:
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, [tool()])) as gateway:
        answer = await ask(gateway, calling("demo__get", {"item": 3}, era=client))
        assert (answer.status, answer.refusal) == (200, "INVALID_ARGUMENTS")
        result = answer.message["result"]
        text = "The arguments do not match the tool's inputSchema:\n- item: expected string, got a number"
        assert result["content"] == [{"type": "text", "text": text}]
        assert result["_meta"]["fairlead.dev/error"] == {"code": "INVALID_ARGUMENTS", "message": text}
        assert ("resultType" in result) is (client == MODERN)
        assert server.seen == []
        assert "isError" not in (await ask(gateway, calling("demo__get", {"item": "rope"}, era=client))).message
        assert len(server.seen) == 1
        assert 'error_type="INVALID_ARGUMENTS"' in await scrape(gateway)


async def test_a_call_with_progress_is_checked_as_well(tmp_path: Path) -> None:
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, [tool()])) as gateway:
        answer = await ask(gateway, calling("demo__get", {}, progressToken="p"))
        assert answer.refusal == "INVALID_ARGUMENTS"
        assert server.seen == []


@pytest.mark.parametrize("members", [{"minProperties": "x"}, {"$ref": "http://127.0.0.1:1/x"}, {}])
async def test_a_schema_that_cannot_be_used_is_in_nobodys_way(tmp_path: Path, members: dict[str, Any]) -> None:
    schema = {"type": "object", **members}
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, [tool(inputSchema=schema)])) as gateway,
    ):
        assert "error" not in (await ask(gateway, calling("demo__get", {"item": 3}))).message
        assert len(server.seen) == 1
        left_out = "fairlead_schemas_left_out_total{" in await scrape(gateway)
        assert left_out is bool(members)


async def test_checks_can_be_turned_off(tmp_path: Path) -> None:
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, [tool()]), validate=False) as gateway,
    ):
        await ask(gateway, calling("demo__get", {"item": 3}))
        assert len(server.seen) == 1


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}])
@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_a_result_that_does_not_fit_is_passed_on_marked_and_counted(
    tmp_path: Path, client: str, server_era: str, more: dict[str, str]
) -> None:
    demanding = tool(inputSchema={"type": "object"}, outputSchema={"type": "object", "required": ["n"]})
    tools = [demanding, tool(name="plain")]
    async with (
        modern_server() if server_era == MODERN else legacy_server() as server,
        running(tmp_path, catalog("demo", server.url, tools, version=server_era)) as gateway,
    ):
        meta = more if client == MODERN else {}
        answer = await ask(gateway, calling("demo__get", {"item": "x"}, era=client, **meta))
        message = answer.message if answer.body.startswith(b"{") else answer.events[-1]
        result = message["result"]
        assert "isError" not in result or result["isError"] is False
        assert result["_meta"]["fairlead.dev/warning"]["code"] == "OUTPUT_SCHEMA_MISMATCH"
        assert "structuredContent" in result["_meta"]["fairlead.dev/warning"]["message"]
        plain = (await ask(gateway, calling("demo__plain", {"item": "x"}, era=client))).message["result"]
        assert plain["content"] == result["content"]
        assert "fairlead.dev/warning" not in plain.get("_meta", {})
        assert 'fairlead_output_mismatches_total{fairlead_server="default/demo"} 1.0' in await scrape(gateway)


async def test_a_listing_shows_the_schema_byte_for_byte_all_the_same(tmp_path: Path) -> None:
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, [tool()])) as gateway:
        await ask(gateway, calling("demo__get", {"item": "rope"}))
        listed = (await ask(gateway, modern("tools/list"))).body
        assert json.dumps(SCHEMA).encode() in listed
