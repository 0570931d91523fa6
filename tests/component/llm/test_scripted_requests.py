"""Hostile requests to the scripted model of `fairlead up --llm`: they are refused with short messages, and do not block
the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import pytest

from fairlead_llm.scripted_assistant import ScriptedAssistant
from fairlead_llm.scripted_requests import MAX_BYTES, MAX_VALUES
from toolservers import serve_asgi

PATH = "/v1/chat/completions"
HI = {"role": "user", "content": "Say hi"}
LONGEST = 3_000
"""Maximum number of characters of an error message."""


def tools(*schemas: Any, name: str = "say") -> dict[str, Any]:
    functions = [{"name": f"{name}_{number}", "parameters": schema} for number, schema in enumerate(schemas)]
    return {"messages": [HI], "tools": [{"type": "function", "function": function} for function in functions]}


def schema(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": members}}


def nest_body(depth: int) -> bytes:
    return b'{"messages":' + b"[" * depth + b"]" * depth + b"}"


BAD: dict[str, bytes | Mapping[str, Any]] = {
    "nothing": b"",
    "no JSON": b"hello",
    "half of it": b'{"messages": [',
    "a list": b"[]",
    "bytes that are not UTF-8": b'{"messages": [{"role": "\xff"}]}',
    "deep lists": nest_body(100_000),
    "a deep object": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "messages that are a text": {"messages": "Hi"},
    "a message that is a number": {"messages": [1]},
    "a role that is an object": {"messages": [{"role": {}}]},
    "calls without an id": {"messages": [HI, {"role": "assistant", "tool_calls": [{}]}]},
    "a tool that is a number": {"messages": [HI], "tools": [1]},
    "a function without a name": {"messages": [HI], "tools": [{"type": "function", "function": {}}]},
    "a schema that is a list": tools([]),
    "100,000 messages": {"messages": [HI] * 100_000},
    "too many values": {"messages": [HI], "metadata": {"a": list(range(MAX_VALUES + 1))}},
    "a name of a megabyte": tools(schema(), name="a b" * 300_000),
    "a call of a megabyte without an answer": {
        "messages": [HI, {"role": "assistant", "tool_calls": [{"id": "x" * 1_000_000}]}, HI]
    },
    "20,000 wrong patterns": tools(
        {"type": "object", "properties": {f"p{n}": {"pattern": "("} for n in range(20_000)}}
    ),
    "a schema that no draft allows": tools(schema(type="x" * 1_000_000)),
    "4,000 names that are none": tools(*[schema()] * 4_000, name="a b"),
}
GOOD: dict[str, Mapping[str, Any]] = {
    "a pattern of a megabyte": tools(schema(type="string", pattern="(a|b)*c" * 150_000)),
    "patterns that take exponential time": tools(*[schema(type="string", pattern="(a+)+$")] * 100),
    "references to themselves": tools({**schema(**{"$ref": "#/$defs/x"}), "$defs": {"x": {"$ref": "#/$defs/x"}}}),
    "an enumeration and a question of many words": {
        "messages": [{"role": "user", "content": "say " * 500_000}],
        "tools": tools({**schema(enum=[f"v{n}" for n in range(40_000)]), "required": ["a"]})["tools"],
    },
    "members of a schema that are of other types": tools({"type": "object", "properties": {}, "required": ["a"]}),
}


@contextlib.asynccontextmanager
async def assistant(*, strict: bool = True) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        serve_asgi(ScriptedAssistant(strict=strict)) as port,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        yield client


async def post(client: httpx2.AsyncClient, body: bytes | Mapping[str, Any], kind: str = "application/json") -> Any:
    content = body if isinstance(body, bytes) else json.dumps({"model": "m", **body}).encode()
    return await client.post(PATH, content=content, headers={"content-type": kind})


@pytest.mark.parametrize("what", BAD)
async def test_a_scripted_model_refuses_a_hostile_request_in_few_words(what: str) -> None:
    async with assistant() as client:
        answer = await post(client, BAD[what])
        assert answer.status_code == 400
        assert 20 < len(answer.json()["error"]["message"]) < LONGEST
        assert (await post(client, {"messages": [HI]})).status_code == 200


@pytest.mark.parametrize("what", GOOD)
async def test_a_scripted_model_answers_a_request_that_is_costly_to_judge(what: str) -> None:
    async with assistant() as client:
        assert (await post(client, GOOD[what])).status_code == 200


@pytest.mark.parametrize("what", [what for what, body in BAD.items() if not isinstance(body, bytes)])
async def test_a_scripted_model_that_is_not_strict_survives_hostile_requests(what: str) -> None:
    async with assistant(strict=False) as client:
        assert (await post(client, BAD[what])).status_code in (200, 400)


async def test_a_scripted_model_reads_json_of_bounded_size_only() -> None:
    async with assistant() as client:
        for kind in ("text/plain", "multipart/form-data; boundary=x", "application/json, text/html", "", "a" * 5_000):
            assert (await post(client, {"messages": [HI]}, kind)).status_code == 415
        assert (await post(client, b" " * (MAX_BYTES + 1))).status_code == 413
        long = {"messages": [{"role": "user", "content": "x" * (MAX_BYTES - 1000)}]}
        assert (await post(client, long)).status_code == 200


async def test_a_scripted_model_judges_outside_of_the_event_loop() -> None:
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    names = {f"p{n}": {"type": "string", "pattern": "(a|b)*c" * 100} for n in range(1_000)}
    costly = ScriptedAssistant(strict=True)
    body = json.dumps({"model": "m", **tools({"type": "object", "properties": names})}).encode()
    request = {"type": "http", "method": "POST", "path": PATH, "query_string": b""}
    request["headers"] = [(b"content-type", b"application/json")]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    watching = asyncio.create_task(watch())
    began = time.process_time()
    await costly(request, receive, send)
    spent = time.process_time() - began
    watching.cancel()
    assert sent[0]["status"] == 200
    assert longest < spent / 5, "seconds of the loop's thread, beside those of the process"
