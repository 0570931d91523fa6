"""The tools of a registry in providers' formats, and in requests to providers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairlead_client import AsyncToolRegistry, Server, UnknownFormat
from fairlead_formats.registry import FORMATS
from fairlead_formats.tool_format import Action
from oddproperties import ARGUMENTS, under_other_names
from oddproperties import TOOL as OF_ODD_PROPERTIES
from rawserver import Request
from toolservers import modern_server, tool

PLAIN = tool("plain", inputSchema={"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
OPEN = tool("open", inputSchema={"type": "object", "additionalProperties": {"type": "string"}})
ODD = tool("odd.name/x")


@asynccontextmanager
async def world() -> AsyncIterator[AsyncToolRegistry]:
    async with (
        modern_server([PLAIN, OPEN, ODD]) as server,
        AsyncToolRegistry([Server(name="s", url=server.url)]) as registry,
    ):
        yield registry


async def test_openai_tools_are_strict_one_by_one_where_that_loses_nothing() -> None:
    async with world() as registry:
        offered = await registry.get_openai_tools()
        strict = {definition["function"]["name"]: definition["function"].get("strict", False) for definition in offered}
        assert strict == {"s__plain": True, "s__open": False, "s__odd_name_x": True}
        assert Action.NON_STRICT in {loss.action for loss in offered.report_of("s__open")}
        lax = await registry.get_openai_tools(strict=False)
        assert not any(definition["function"].get("strict") for definition in lax)


@pytest.mark.parametrize("provider", sorted(FORMATS))
async def test_every_format_is_served_as_a_list_that_stands_in_a_request(provider: str) -> None:
    async with world() as registry:
        offered = await registry.get_tool_definitions(provider.upper())
        assert offered.format == provider
        assert offered.member in ("/tools", "/functions", "/session/tools", "/toolConfig/tools", "/setup/tools")
        assert json.loads(json.dumps(offered)) == list(offered)
        assert "plain" in json.dumps(offered)


async def test_an_unknown_format_names_the_known_ones() -> None:
    async with world() as registry:
        with pytest.raises(UnknownFormat, match=f"use one of: {', '.join(FORMATS)}"):
            await registry.get_tool_definitions("cohere")
        error = await registry.get_tool_definitions_safe("cohere")
        assert isinstance(error, UnknownFormat)
        assert "anthropic" in error.known


async def test_a_tool_is_called_by_the_name_that_its_provider_was_given() -> None:
    async with world() as registry:
        offered = await registry.get_tool_definitions("gemini")
        assert offered.names.original_name("s__odd_name_x") == "s__odd.name/x"
        for name in ("s__odd_name_x", "s__odd.name/x", "mcp.s.odd.name/x"):
            outcome = await registry.execute(name, {"n": 1})
            assert (outcome.tool, outcome.text) == ("s__odd.name/x", '{"n":1}')


@pytest.mark.parametrize(
    ("request_", "member"),
    [
        ({"model": "gpt-5", "messages": []}, "tools"),
        ({"model": "gpt-5", "input": "hello"}, "tools"),
        ({"model": "gpt-4", "messages": [], "functions": []}, "functions"),
    ],
)
async def test_tools_are_added_to_each_of_openais_requests(request_: dict[str, Any], member: str) -> None:
    before = json.dumps(request_)
    async with world() as registry:
        full = await registry.add_to_openai_request(request_)
    assert len(full[member]) == 3
    assert ("function" in full[member][0]) is ("messages" in request_ and member == "tools")
    assert json.dumps(request_) == before
    assert {name: value for name, value in full.items() if name != member} == {
        name: value for name, value in request_.items() if name != member
    }


async def test_the_requests_own_tools_stay_first_and_keep_their_names(caplog: pytest.LogCaptureFixture) -> None:
    own = {"type": "function", "function": {"name": "s__plain", "parameters": {"type": "object", "properties": {}}}}
    search = {"type": "web_search"}
    async with world() as registry:
        full = await registry.add_to_azure_request({"messages": [], "tools": [search, own]})
        assert full["tools"][:2] == [search, own]
        assert [definition["function"]["name"] for definition in full["tools"][2:]] == ["s__odd_name_x", "s__open"]
        assert "are not added, because the request already has tools of these names: s__plain" in caplog.text
        with pytest.raises(ValueError, match="tools of the request is str, not a list"):
            await registry.add_to_openai_request({"messages": [], "tools": "all"})


async def test_arguments_under_names_that_a_provider_takes_reach_the_server_under_its_own() -> None:
    called: list[Any] = []

    def call(request: Request) -> dict[str, Any]:
        called.append(request.params["arguments"])
        return {"content": [{"type": "text", "text": "found"}]}

    async with (
        modern_server([OF_ODD_PROPERTIES], call=call) as server,
        AsyncToolRegistry([Server(name="s", url=server.url)]) as registry,
    ):
        (offered,) = await registry.get_tool_definitions("anthropic")
        given = under_other_names(ARGUMENTS)
        assert given.keys() == offered["input_schema"]["properties"].keys()
        assert (await registry.execute("s__odd", given)).ok
    assert called == [ARGUMENTS]
