"""Google's own client gets the same answers with the gateway in between as without it.

The client uses httpx2, and if it is asynchronous preferably aiohttp.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import StreamingResponse

from fairlead_formats.providers.gemini.stream import GeminiStream
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from geminiworld import KIND, gemini_world
from provider_ids import with_provider_ids
from toolservers import serve_asgi
from transcripts import with_and_without

genai = pytest.importorskip("google.genai", reason="Google's client is not installed (fairlead[dev])")
UNCLOSED = "ignore:Inheritance class AiohttpClientSession:DeprecationWarning"
"""Warning of aiohttp about a class in the client."""


@dataclass
class Told:
    """Chunks that the client returns, and the error that it raises after them."""

    chunks: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    def take(self, response: Any) -> None:
        self.chunks.append(response.model_dump(mode="json", exclude_none=True, exclude={"sdk_http_response"}))

    def fail(self, error: Exception) -> None:
        code = getattr(error, "code", None)
        message = getattr(error, "message", "")
        self.error = f"{type(error).__name__} {code} {message}"

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Parts of the first candidates."""
        candidates = [chunk["candidates"][0] for chunk in self.chunks if chunk.get("candidates")]
        return [part for each in candidates for part in (each.get("content") or {}).get("parts") or []]

    @property
    def joined_message(self) -> dict[str, Any]:
        """The message in the chunks: joined texts, and all other parts in order."""
        texts = dict.fromkeys((False, True), "")
        for part in self.parts:
            texts[bool(part.get("thought"))] += part.get("text", "")
        others = [part for part in self.parts if "text" not in part]
        last = self.chunks[-1]
        ends = [chunk["candidates"][0].get("finish_reason") for chunk in self.chunks if chunk.get("candidates")]
        return {
            "text": texts[False],
            "thoughts": texts[True],
            "others": others,
            "usage": last.get("usage_metadata"),
            "id": {chunk.get("response_id") for chunk in self.chunks},
            "ends": [end for end in ends if end],
        }


def _client(url: str) -> Any:
    return genai.Client(api_key="none", http_options=genai.types.HttpOptions(base_url=url))


def _request(members: dict[str, Any]) -> dict[str, Any]:
    return {"model": "scripted", "contents": "Hi", **members}


async def over_httpx(url: str, *, stream: bool = True, **members: Any) -> Told:
    """Make a request with the blocking client."""
    return await asyncio.to_thread(_ask_blocking, url, stream, members)


def _ask_blocking(url: str, stream: bool, members: dict[str, Any]) -> Told:
    told = Told()
    with _client(url) as client:
        try:
            if not stream:
                told.take(client.models.generate_content(**_request(members)))
                return told
            for chunk in client.models.generate_content_stream(**_request(members)):
                told.take(chunk)
        except Exception as error:  # noqa: BLE001 # whatever it raises is compared
            told.fail(error)
    return told


async def over_aiohttp(url: str, *, stream: bool = True, **members: Any) -> Told:
    """Make a request with the asynchronous client."""
    told = Told()
    async with _client(url).aio as client:
        try:
            if not stream:
                told.take(await client.models.generate_content(**_request(members)))
                return told
            async for chunk in await client.models.generate_content_stream(**_request(members)):
                told.take(chunk)
        except Exception as error:  # noqa: BLE001 # whatever it raises is compared
            told.fail(error)
    return told


pytestmark = pytest.mark.filterwarnings(UNCLOSED)
CLIENTS: dict[str, Callable[..., Awaitable[Told]]] = {"httpx2": over_httpx, "aiohttp": over_aiohttp}
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
CLIENT_CALL = ScriptedCall("theirs", {"q": "ä"})
TOOLS = {"tools": [{"function_declarations": [{"name": "theirs", "description": "The caller's"}]}]}
BY_HAND = {"automatic_function_calling": {"disable": True}}
USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 5, "thoughtsTokenCount": 3, "totalTokenCount": 15}


def sign_part(part: Mapping[str, Any], signature: str) -> dict[str, Any]:
    return {**part, "thoughtSignature": base64.b64encode(signature.encode()).decode()}


def piece(*parts: Mapping[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
    """One response. `candidate`: additional members of the candidate."""
    candidate = {"content": {"parts": [*parts], "role": "model"}, "index": 0, **more.pop("candidate", {})}
    if reason is not None:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": "scripted", "responseId": "r1", **more}


def turn(*pieces: Mapping[str, Any], raw: bool = False, **more: Any) -> ScriptedTurn:
    return ScriptedTurn(events=[json.dumps(each, ensure_ascii=not raw) for each in pieces], **more)


def call(**members: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "theirs", "args": {"q": 1}, **members}}


CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}
GROUNDED = {
    "groundingMetadata": {
        "webSearchQueries": ["rope"],
        "groundingChunks": [{"web": {"uri": "https://example.com", "title": "Rope"}}],
    }
}
SAFE = {"safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}]}
TRANSCRIPTS: dict[str, ScriptedTurn] = {
    "text": ScriptedTurn("It is 42, as ever."),
    "text of many alphabets": turn(piece({"text": "Grüße, 世"}), piece({"text": "界 — 🪢"}, reason="STOP"), raw=True),
    "line ends that JSON knows not": turn(piece({"text": "a\u2028b\u0085c\u2029d"}), piece(reason="STOP"), raw=True),
    "parallel calls, the first signed": turn(
        piece(sign_part(call(id="c1"), "s1"), call(id="c2"), reason="STOP"),
    ),
    "calls in several pieces": turn(
        piece({"text": "Look."}), piece(sign_part(call(id="c1"), "s1")), piece(call(id="c2")), piece(reason="STOP")
    ),
    "thoughts": ScriptedTurn("So.", thoughts=["Hm, ", "well."]),
    "a signature on an empty text": turn(piece({"text": "Hi"}), piece(sign_part({"text": ""}, "s1"), reason="STOP")),
    "an answer that is not safe": turn(piece({"text": "Well, "}), piece(reason="SAFETY", candidate=SAFE)),
    "no content at the end": turn(
        piece({"text": "Well, "}),
        {"candidates": [{"finishReason": "RECITATION", "index": 0}], "usageMetadata": USAGE, "responseId": "r1"},
    ),
    "a prompt that is not safe": turn({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": USAGE}),
    "too long": turn(piece({"text": "Half"}), piece(reason="MAX_TOKENS")),
    "nothing but thoughts, and too long": turn(
        {"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS", "index": 0}], "responseId": "r1"}
    ),
    "code that was run": turn(piece(CODE), piece(RAN), piece({"text": "It is 1."}, reason="STOP")),
    "search results": turn(piece({"text": "Rope."}, candidate=GROUNDED), piece(reason="STOP", candidate=GROUNDED)),
    "an image": turn(piece({"inlineData": {"mimeType": "image/png", "data": "aGk="}}, reason="STOP")),
    "usage behind the end": turn(piece({"text": "Hi"}, reason="STOP"), {"usageMetadata": USAGE, "responseId": "r1"}),
    "a reason that is not known": turn(piece({"text": "Hi"}, reason="OTHER")),
    "an error in the stream": turn(
        piece({"text": "Hi"}), {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    ),
    "a refusal": ScriptedTurn("not today", status=429),
}


@pytest.mark.parametrize("client", CLIENTS)
async def test_chunks_are_the_same_with_the_gateway_and_without(tmp_path: Path, client: str) -> None:
    async def ask(url: str) -> dict[str, Told]:
        return {name: await CLIENTS[client](url, config={**TOOLS, **BY_HAND}) for name in TRANSCRIPTS}

    bare, ours = await with_and_without(tmp_path, [*TRANSCRIPTS.values()], ask, provider=KIND)
    for name, told in bare.items():
        assert with_provider_ids(vars(ours[name])) == vars(told), name
        assert told.chunks or told.error, name


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_call_without_an_id_differs_only_in_the_missing_id(tmp_path: Path, client: str) -> None:
    ask = CLIENTS[client]
    scripted = turn(piece(sign_part(call(), "s1")), piece(call(), reason="STOP"))
    bare, ours = await with_and_without(
        tmp_path, [scripted], lambda url: ask(url, config={**TOOLS, **BY_HAND}), provider=KIND
    )
    ids = [part["function_call"].pop("id") for part in ours.parts]
    assert with_provider_ids(vars(ours)) == vars(bare)
    assert len(set(ids)) == 2


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("broken", ["cut", "breaks"])
async def test_a_cut_connection_is_an_error_after_the_text_that_was_sent(
    tmp_path: Path, client: str, broken: str
) -> None:
    ask = CLIENTS[client]
    scripted = ScriptedTurn("Half a sentence", cut=True, breaks=broken == "breaks")
    bare, ours = await with_and_without(tmp_path, [scripted], ask, provider=KIND)
    assert ours.chunks == bare.chunks
    assert ours.error.startswith("ServerError 502")
    # without the gateway, the client takes a closed connection for the end
    assert bool(bare.error) == (broken == "breaks")


@pytest.mark.parametrize("client", CLIENTS)
async def test_keep_alive_comments_are_not_chunks(client: str) -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        stream = GeminiStream(set())
        pieces = [piece({"text": "Wait"}), piece({"text": "."}), piece(reason="STOP")]
        out = [stream.keep_alive() + stream.feed(json.dumps(each).encode()) for each in pieces]
        body = b"".join([*out, stream.keep_alive(), stream.finish({}), stream.keep_alive()])
        await StreamingResponse(iter([body]), media_type="text/event-stream")(scope, receive, send)

    async with serve_asgi(silent) as port:
        told = await CLIENTS[client](f"http://127.0.0.1:{port}")
    message = told.joined_message
    assert (message["text"], message["ends"], len(told.chunks), told.error) == ("Wait.", ["STOP"], 3, "")


ROUNDS: dict[str, Sequence[ScriptedTurn]] = {
    "one call": [ScriptedTurn("", [ADD]), ScriptedTurn("42")],
    "text in every round": [ScriptedTurn("First.", [ADD]), ScriptedTurn("Second.", [ADD]), ScriptedTurn("Third.")],
    "thoughts in every round": [
        ScriptedTurn("", [ADD], thoughts=["Hm."]),
        ScriptedTurn("So.", [ADD], thoughts=["Oh."]),
        ScriptedTurn("42", thoughts=["Ah."]),
    ],
    "parallel calls": [ScriptedTurn("", [ADD, ADD]), ScriptedTurn("84")],
    "ours, then the caller's": [ScriptedTurn("", [ADD]), ScriptedTurn("Yours.", [CLIENT_CALL])],
    "ours and the caller's at once": [ScriptedTurn("Both.", [ADD, CLIENT_CALL])],
    "a call that nobody can read": [
        ScriptedTurn("", [ADD]),
        ScriptedTurn("", thoughts=["Hm."], finish_reason="MALFORMED_FUNCTION_CALL"),
        ScriptedTurn("42"),
    ],
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ROUNDS)
async def test_a_stream_of_several_rounds_is_the_whole_answer(tmp_path: Path, name: str, client: str) -> None:
    ask = CLIENTS[client]
    told = []
    for stream in (True, False):
        async with gemini_world(tmp_path, *ROUNDS[name]) as world:
            url = f"http://127.0.0.1:{world.gateway.port}"
            told.append(await ask(url, stream=stream, config={**TOOLS, **BY_HAND}))
        assert len(world.called) == sum(made is ADD for each in ROUNDS[name] for made in each.calls)
    streamed, whole = told
    assert with_provider_ids(streamed.joined_message) == with_provider_ids(whole.joined_message)
    assert len(whole.joined_message["ends"]) == 1
    assert not streamed.error


@pytest.mark.parametrize("stream", [False, True])
async def test_functions_that_the_client_runs_by_itself_stand_beside_our_tools(tmp_path: Path, stream: bool) -> None:
    queries: list[str] = []

    def theirs(q: str) -> str:
        """Answer a question."""
        queries.append(q)
        return "from the caller"

    turns = [
        ScriptedTurn("", [ADD], thoughts=["Hm."]),
        ScriptedTurn("Both.", [ADD, CLIENT_CALL, CLIENT_CALL]),
        ScriptedTurn("", [CLIENT_CALL]),
        ScriptedTurn("All done."),
    ]
    async with gemini_world(tmp_path, *turns) as world:
        told = await over_httpx(f"http://127.0.0.1:{world.gateway.port}", stream=stream, config={"tools": [theirs]})
    assert told.error == ""
    assert told.joined_message["text"].endswith("All done.")
    assert queries == ["ä"] * 3
    assert len(world.called) == 2
    contents = world.model.requests[-1]["contents"]
    assert [content["role"] for content in contents] == ["user", *["model", "user"] * 3]
    names = [
        [part["functionResponse"]["name"] for part in content["parts"] if "functionResponse" in part]
        for content in contents
    ]
    assert names[2::2] == [["demo__add"], ["demo__add", "theirs", "theirs"], ["theirs"]]


async def test_the_client_counts_tokens(tmp_path: Path) -> None:
    async with gemini_world(tmp_path) as world:
        options = genai.types.HttpOptions(base_url=f"http://127.0.0.1:{world.gateway.port}")
        async with genai.Client(api_key="none", http_options=options).aio as client:
            counted = await client.models.count_tokens(model="scripted", contents="Hi")
    assert counted.total_tokens > 40
