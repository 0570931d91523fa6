"""Bodies of the REST API with a duplicate member are refused, because parsers differ in which one they read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatewayworld import Answer, Ask, Reachable, ask, catalog, running
from restworld import MESSAGES, get, problem
from toolservers import modern_server, tool

MESSAGE = MESSAGES["mcp"]([("1", "demo__add", {"a": 1})])
BODIES: dict[str, dict[str, Any]] = {
    "/v1/tool-calls": {"format": "mcp", "message": MESSAGE},
    "/v1/tool-calls/predict": {"format": "mcp", "message": MESSAGE},
    "/v1/tools": {"tools": [tool("mine")], "format": "openai-chat"},
    "/v1/tier": {"text": "now"},
    "/v1/plan": {"models": ["gpt-4o"], "messages": [{"role": "user", "content": "x"}]},
    "/v1/executions": {"name": "demo__add", "arguments": {"a": 1}},
    "/v1/convert": {"from": "mcp", "to": "anthropic", "tools": [tool("add")]},
    "/v1/convert/messages": {"from": "mcp", "to": "anthropic", "message": MESSAGE},
    "/v1/keys": {"name": "editor"},
    "/v1/servers/{server}/approve": {"hash": "0" * 64},
    "/v1/servers/{server}/sign-in": {"key": "k"},
}
VERBS = {"/v1/servers/{server}/sign-in": "PUT"}
STATUSES = {"/v1/tier": 404, "/v1/keys": 403, "/v1/servers/{server}/approve": 409, "/v1/servers/{server}/sign-in": 404}
"""Statuses other than 200 for valid bodies: there are no tiers, nobody may create keys, nothing is held back, and the
server needs no keys.
"""
LARGE = " " * 70_000  # padded with white space, so that another process scans these bodies


def ways(text: str) -> Iterator[str]:
    """Variants of the body: its first member twice, the second one also with an escape, and a duplicate at depth."""
    yield text[:-1] + "," + text[1:]
    yield text[:-1] + f',"\\u{ord(text[2]):04x}' + text[3:]
    if '"name": ' in text:
        yield text.replace('"name": ', '"name": "other", "name": ', 1)


async def send(gateway: Reachable, route: str, text: str) -> Answer:
    """Send a body to a route of the server `demo`."""
    headers = {"content-type": "application/json"}
    target = route.replace("{server}", "demo")
    return await ask(gateway, Ask(verb=VERBS.get(route, "POST"), target=target, body=text.encode(), headers=headers))


@pytest.mark.parametrize("processes", [0, 1])
async def test_a_body_with_a_member_twice_is_a_problem_on_every_route(tmp_path: Path, processes: int) -> None:
    async with (
        modern_server(call=lambda request: {"content": []}) as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), rest_processes=processes) as gateway,
    ):
        for route, body in BODIES.items():
            text = json.dumps(body)
            for space in ("", LARGE):
                fine = await send(gateway, route, space + text)
                assert fine.status == STATUSES.get(route, 200), (route, fine.body[:300])
                called = len(server.seen)
                for twice in ways(text):
                    answer = await send(gateway, route, space + twice)
                    assert problem(answer) == (400, "INVALID_ARGUMENTS"), twice
                    assert "an object has a member twice" in answer.message["detail"], twice
                assert len(server.seen) == called


async def test_every_route_with_a_body_is_asked_here(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:1/mcp", ["add"]), rest_processes=0) as gateway:
        document = (await get(gateway, "/openapi.json")).message
        with_bodies = {
            path
            for path, verbs in document["paths"].items()
            for verb in verbs.values()
            if isinstance(verb, dict) and "requestBody" in verb
        }
        assert with_bodies == BODIES.keys()
