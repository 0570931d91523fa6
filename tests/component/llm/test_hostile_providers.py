"""Answers of a provider that try to harm the gateway, or to reveal its key."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.providers.gemini.format import GEMINI_EVENTS
from fairlead_formats.providers.gemini.stream import GeminiStream
from fairlead_formats.scripted_turns import ScriptedTurn
from fairlead_mcp.read_bounds import MAX_VALUES
from fairlead_models.provider_requests import (
    MAX_ANSWER,
    MAX_REFUSAL,
    ProviderAnswer,
    ProviderClient,
    ProviderRequest,
    ProviderUnavailable,
)
from fairlead_models.providers import Provider
from llmworld import chunks, llm_world
from toolservers import serve_asgi

KEY = "sk-the-providers-own-key"
PLAIN = (b"content-type", b"application/json")


def application_with(status: int, body: bytes, *headers: tuple[bytes, bytes]) -> Any:
    """An application with one answer to all requests."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": status, "headers": [PLAIN, *headers]})
            await send({"type": "http.response.body", "body": body})

    return app


async def answer_from(app: Any, passed_on: tuple[str, ...] = ()) -> tuple[ProviderAnswer, bytes]:
    client = ProviderClient()
    async with serve_asgi(app) as port:
        provider = Provider(f"http://127.0.0.1:{port}", kind="gemini")
        answer = await client.send(provider, ProviderRequest("/x", b"{}", answer_headers=passed_on), KEY)
        try:
            return answer, await answer.read_whole()
        finally:
            answer.close()
            await client.aclose()


async def test_headers_that_no_client_can_read_are_not_forwarded() -> None:
    headers = [(b"x-goog-a", "é€".encode()), (b"x-goog-b", b"fine"), (b"x-goog-c", b"a\tb"), (b"x-goog-d", b"\xff")]
    answer, _ = await answer_from(application_with(200, b"{}", *headers), GEMINI_EVENTS.answer_headers)
    assert answer.headers == {"x-goog-b": "fine"}


async def test_a_key_in_a_header_or_a_refusal_is_not_forwarded() -> None:
    told = json.dumps({"error": {"code": 403, "message": f"no access for {KEY}"}}).encode()
    headers = [(b"x-goog-api-key", KEY.encode()), (b"x-request-id", f"for {KEY}".encode())]
    answer, body = await answer_from(application_with(403, told, *headers), GEMINI_EVENTS.answer_headers)
    assert answer.headers == {}
    assert json.loads(body) == {"error": {"code": 403, "message": "no access for [key]"}}


async def test_a_body_that_unpacks_to_more_than_the_bound_is_refused() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join([*(packer.compress(bytes(1 << 20)) for _ in range((MAX_ANSWER >> 20) + 1)), packer.flush()])
    assert len(packed) < 64 << 10
    with pytest.raises(ProviderUnavailable, match="more than"):
        await answer_from(application_with(200, packed, (b"content-encoding", b"gzip")))


@pytest.mark.parametrize("part", [b"7", b"null", b'"x"', b"[]"])
def test_parts_that_are_not_objects_pass_through_a_stream(part: bytes) -> None:
    stream = GeminiStream(frozenset({"theirs"}))
    stream.feed(b'{"candidates":[{"content":{"parts":[%s]},"finishReason":"STOP"}]}' % part)
    assert json.loads(stream.request_messages[0])["parts"] == [json.loads(part)]


async def test_an_answer_of_a_million_values_is_refused(tmp_path: Path) -> None:
    whole = '{"choices":[{"message":{"content":"x"}}],"more":[' + "1," * (1 << 20) + "1]}"
    async with llm_world(tmp_path, ScriptedTurn(whole=whole)) as world:
        answer = await world.chat("Hi")
    assert answer.status == 502
    assert "values" in answer.message["error"]["message"]


async def test_a_request_of_a_million_values_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hello")) as world:
        answer = await world.chat("Hi", more=[1] * (1 << 20))
        text = await world.chat("1, 2, " * 1000)
    assert answer.status == 400
    assert "values" in answer.message["error"]["message"]
    assert text.status == 200
    assert len(world.model.requests) == 1


async def test_a_refusal_of_megabytes_is_read_by_its_status_alone() -> None:
    short = b'{"error":{"message":"no"}}'
    long = b'{"error":{"message":"no","x":[' + b"{}," * MAX_REFUSAL + b"1]}}"
    assert (await answer_from(application_with(400, short)))[1] == short
    assert (await answer_from(application_with(400, long)))[1] == b""
    assert (await answer_from(application_with(200, long)))[1] == long


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_or_an_event_of_more_values_than_are_read_is_refused(tmp_path: Path, stream: bool) -> None:
    values = [1] * (MAX_VALUES + 1)
    chunk = json.dumps({"choices": [{"index": 0, "delta": {"content": "x"}}], "x": values})
    turn = ScriptedTurn(events=[chunk]) if stream else ScriptedTurn(whole=json.dumps({"choices": [], "x": values}))
    async with llm_world(tmp_path, turn) as world:
        answer = await world.chat("Hi", stream=stream)
    assert "more than 200,000 values" in (chunks(answer)[-1] if stream else answer.message)["error"]["message"]
