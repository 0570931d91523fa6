"""Handshakes and lists that violate MCP but have a clear meaning, over each transport and in both eras."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_mcp.errors import McpError, NotMcp
from fairlead_mcp.session import McpSession
from scriptedserver import ERAS, TOOLS, TRANSPORTS, Results, handshake, scripted_session

each_way = pytest.mark.parametrize(
    ("transport", "era"),
    [(transport, era) for transport in TRANSPORTS for era in ERAS if (transport, era) != ("sse", "2026-07-28")],
)


def page_of(*names: str, **more: Any) -> dict[str, Any]:
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names], **more}


async def names_of(session: McpSession, method: str = "tools/list") -> list[str]:
    return [json.loads(bytes(item))["name"] for item in await session.list_all(method)]


HANDSHAKES: dict[str, tuple[dict[str, Any], str]] = {
    "capabilities-list": ({"capabilities": []}, "the server's capabilities are [], not an object"),
    "capabilities-null": ({"capabilities": None}, "the server's capabilities are null, not an object"),
    "capabilities-true": ({"capabilities": True}, "the server's capabilities are true, not an object"),
    "capability-null": ({"capabilities": {"tools": None, "prompts": None, "resources": False}}, ""),
    "server-info-list": ({"serverInfo": []}, "the server's serverInfo is [], not an object"),
    "server-info-null": ({"serverInfo": None}, "the server's serverInfo is null, not an object"),
    "server-info-text": ({"serverInfo": "php 8"}, 'the server\'s serverInfo is "php 8", not an object'),
    "version-null": ({"serverInfo": {"name": "scripted", "version": None}}, ""),
    "instructions-list": ({"instructions": ["a"]}, 'the server\'s instructions are ["a"], not a string'),
    "instructions-null": ({"instructions": None}, ""),
    "meta-list": ({"_meta": []}, ""),
}


@each_way
@pytest.mark.parametrize("how", HANDSHAKES)
async def test_a_handshake_with_members_of_another_shape_costs_no_tool(transport: str, era: str, how: str) -> None:
    members, remark = HANDSHAKES[how]
    async with scripted_session(transport, handshake(era, **members)) as session:
        assert await names_of(session) == ["fine"]
        assert session.protocol_version == era
        assert [line for line in session.remarks if not line.startswith(remark)] == []
        assert len(session.remarks) == bool(remark)
        assert not session.offers("prompts")
        assert not session.offers("resources")


CURSORS: dict[str, tuple[list[Any], list[str], str]] = {
    "constant": ([page_of("a", nextCursor="x")], ["a"], "repeats a page that was read already"),
    "empty": ([page_of("a", nextCursor="")], ["a"], "repeats a page that was read already"),
    "empty-and-refused": ([page_of("a", nextCursor=""), "no such cursor"], ["a"], "an empty cursor and refuses it"),
    "empty-and-served": ([page_of("a", nextCursor=""), page_of("b")], ["a", "b"], ""),
    "number": ([page_of("a", nextCursor=5)], ["a"], "has 5 as nextCursor"),
    "zero": ([page_of("a", nextCursor=0)], ["a"], "has 0 as nextCursor"),
    "false": ([page_of("a", nextCursor=False)], ["a"], "has false as nextCursor"),
    "object": ([page_of("a", nextCursor={})], ["a"], "has {} as nextCursor"),
    "null": ([page_of("a", nextCursor=None)], ["a"], ""),
    "new-cursors-one-page": (
        [page_of("a", nextCursor=f"page-{number}") for number in range(5)],
        ["a"],
        "repeats a page that was read already",
    ),
    "back-to-an-old-cursor": (
        [page_of("a", nextCursor="x"), page_of("b", nextCursor="y"), page_of("c", nextCursor="x")],
        ["a", "b", "c"],
        "names the cursor 'x' again",
    ),
    "back-to-the-first-page": (
        [page_of("a", nextCursor="x"), page_of("b", nextCursor="y"), page_of("a", nextCursor="z")],
        ["a", "b"],
        "repeats a page that was read already",
    ),
    "empty-pages-between": ([page_of(nextCursor="x"), page_of(nextCursor="y"), page_of("a")], ["a"], ""),
}


@each_way
@pytest.mark.parametrize("how", CURSORS)
async def test_a_walk_that_leads_nowhere_ends_with_what_was_read(transport: str, era: str, how: str) -> None:
    pages, names, remark = CURSORS[how]
    async with scripted_session(transport, {**handshake(era), "tools/list": pages}) as session:
        assert await names_of(session) == names
        assert len(session.remarks) == bool(remark)
        assert all(remark in line and line.startswith("tools/list ") for line in session.remarks)


@each_way
@pytest.mark.parametrize(("page", "shown"), [({"tools": None}, "null"), ({"tools": {}}, "{}"), ({}, "absent")])
async def test_a_list_of_nothing_by_another_name_is_an_empty_list(
    transport: str, era: str, page: dict[str, Any], shown: str
) -> None:
    async with scripted_session(transport, {**handshake(era), "tools/list": [page]}) as session:
        assert await names_of(session) == []
        assert session.remarks == (f"tools/list has tools {shown}: it counts as an empty list",)


@each_way
@pytest.mark.parametrize("page", [{"tools": {"a": {}}}, {"tools": "a"}, {"tools": 5}, {"prompts": []}, [], None])
async def test_a_list_that_is_not_clear_in_meaning_is_refused_at_once(transport: str, era: str, page: Any) -> None:
    async with scripted_session(transport, {**handshake(era), "tools/list": [page]}) as session:
        with pytest.raises(NotMcp, match="the answer to tools/list has"):
            await names_of(session)


async def test_a_page_that_is_refused_by_its_cursor_alone_fails_the_listing() -> None:
    results: Results = {**handshake("2025-11-25"), "tools/list": [page_of("a", nextCursor="x"), "no such cursor"]}
    async with scripted_session("stdio", results) as session:
        with pytest.raises(McpError, match="no such cursor"):
            await names_of(session)


async def test_the_remarks_of_a_list_are_those_of_its_last_walk() -> None:
    results: Results = {**handshake("2025-11-25"), "tools/list": [page_of("a", nextCursor=5), TOOLS]}
    async with scripted_session("stdio", results) as session:
        assert await names_of(session) == ["a"]
        assert session.remarks
        assert await names_of(session) == ["fine"]
        assert session.remarks == ()
