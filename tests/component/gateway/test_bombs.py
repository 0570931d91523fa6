"""Small definitions and messages that would cause a great deal of work, sent through a real gateway.

Each is answered or refused, and meanwhile a harmless call of somebody else succeeds. The limits are those of
`validation.intricacy`, `validation.checker`, `formats.schema.bounds` and the decoders, which have tests of their own.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from gatewayworld import Answer, Ask, ask, calling, catalog, modern, running
from restworld import get, post
from toolservers import modern_server

FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "gemini-live", "bedrock-converse")


def tool(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": "d", "inputSchema": {"type": "object", **schema}}


def nest_schema(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubling_schema(levels: int, keyword: str) -> dict[str, Any]:
    """Thirty definitions of two lines that expand to a billion subschemas."""
    defs: dict[str, Any] = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(levels)
    }
    defs[f"d{levels}"] = {"type": "object", "properties": {"x": {"const": 1}}}
    return {"$defs": defs, "$ref": "#/$defs/d0"}


BOMBS: dict[str, dict[str, Any]] = {
    "references_in_a_circle": {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    "reference_to_itself": {"properties": {"child": {"$ref": "#"}, "other": {"$ref": "#"}}},
    "exponential_allof": doubling_schema(30, "allOf"),
    "exponential_anyof": doubling_schema(30, "anyOf"),
    "nested_deeply": nest_schema(28),
    "catastrophic_pattern": {"properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}},
    "catastrophic_names": {"patternProperties": {"^(([a-z])+.)+[A-Z]([a-z])+$": {}}},
    "pattern_of_counts": {"properties": {"x": {"type": "string", "pattern": "((a{0,1000}){0,1000}){0,1000}"}}},
    "huge_bounds": {"properties": {"x": {"type": "integer", "maximum": 10**300, "minLength": 10**18}}},
    "many_required": {"required": [f"r{n}" for n in range(20_000)]},
    "many_alternatives": {"properties": {"x": {"enum": [str(n) for n in range(20_000)]}}},
}
ARGUMENTS: list[dict[str, Any]] = [
    {"x": "a" * 50_000 + "!"},
    {"a" * 5_000 + "!": 1},
    {"child": {"child": {"child": {}}}},
    {"x": list(range(5_000))},
]


async def still_answers(gateway: Any) -> None:
    answer = await ask(gateway, calling("demo__fine", {}))
    assert "error" not in answer.message
    assert "isError" not in answer.message["result"]


@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_definition_that_unfolds_is_listed_converted_and_called_in_bounded_time(
    tmp_path: Path, bomb: str
) -> None:
    """With MAX_NODES and MAX_BYTES a million times larger, the exponential definitions would not end before the test's
    time-out.
    """
    tools = [tool("fine", {}), tool("bomb", BOMBS[bomb])]
    async with (
        modern_server(call=lambda request: {"content": []}) as server,
        running(tmp_path, catalog("demo", server.url, tools), rest_processes=0) as gateway,
    ):
        listed = await ask(gateway, modern("tools/list"))
        assert [each["name"] for each in listed.message["result"]["tools"]] == ["demo__bomb", "demo__fine"]
        for target in FORMATS:
            answer = await get(gateway, f"/v1/tools?format={target}")
            assert answer.status == 200, (target, answer.body[:500])
            assert "fine" in json.dumps(answer.message)
            assert len(answer.body) < 4 << 20, target
        for arguments in ARGUMENTS:
            answer = await ask(gateway, calling("demo__bomb", arguments))
            assert answer.status == 200
        await still_answers(gateway)


DEEP = "[" * 100_000 + "]" * 100_000
OBJECTS = '{"a":' * 50_000 + "1" + "}" * 50_000
DIGITS = "1" + "0" * 100_000
MESSAGES = {
    "deep lists": f'{{"tools":{DEEP}}}',
    "deep objects": f'{{"tools":[{OBJECTS}]}}',
    "a huge integer": f'{{"tools":[],"target":{DIGITS}}}',
    "a huge exponent": '{"tools":[],"target":1e999999}',
    "many members of one name": '{"tools":[],' + ",".join('"a":1' for _ in range(100_000)) + "}",
    "half of it": '{"tools":[{"name":',
    "no UTF-8": '{"tools":"\\ud800"}',
    "only spaces": " " * 1_000_000,
}


@pytest.mark.parametrize("message", MESSAGES)
async def test_a_body_that_is_hard_to_read_is_refused_and_costs_nobody_else_anything(
    tmp_path: Path, message: str
) -> None:
    """In `json.loads`, the deep bodies cause a RecursionError; converting the huge integer to text would fail."""
    body = MESSAGES[message].encode()
    async with (
        modern_server(call=lambda request: {"content": []}) as server,
        running(tmp_path, catalog("demo", server.url, [tool("fine", {})]), rest_processes=0) as gateway,
    ):
        for path in ("/v1/convert", "/v1/tools", "/v1/plan", "/v1/tool-calls", "/v1/tier"):
            answer, _ = await asyncio.gather(post(gateway, path, body), still_answers(gateway))
            assert 400 <= answer.status < 500, (path, answer.status, answer.body[:300])
            assert len(answer.body) < 10_000
        for answer in [
            await post(gateway, "/mcp", body, mcp_protocol_version="2026-07-28"),
            await as_arguments(gateway, body),
        ]:
            assert answer.status < 500
            assert len(answer.body) < 10_000
        await still_answers(gateway)


async def as_arguments(gateway: Any, body: bytes) -> Answer:
    """A call with a bomb as its arguments."""
    request = calling("demo__fine", {"x": "HERE"})
    whole = json.dumps(request.message).encode().replace(b'"HERE"', body)
    return await ask(gateway, Ask(body=whole, headers=request.headers, target=request.target))


async def test_arguments_that_are_nested_too_deeply_to_be_explained_are_invalid_and_logged_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    pay = tool("pay", {"required": ["sum"]})
    async with modern_server([pay]) as server:
        demo = catalog("demo", server.url, [pay])
        async with running(tmp_path, demo) as gateway:
            answer = await ask(gateway, calling("demo__pay", {"x": deep}))
            assert answer.refusal == "INVALID_ARGUMENTS", answer.body
            body = {
                "format": "anthropic",
                "message": {"content": [{"type": "tool_use", "id": "1", "name": "demo__pay", "input": {"x": deep}}]},
            }
            over_rest = await post(gateway, "/v1/tool-calls", body)
    assert over_rest.message["calls"][0]["code"] == "INVALID_ARGUMENTS"
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
