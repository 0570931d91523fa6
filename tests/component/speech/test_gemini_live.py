"""Gemini Live through the gateway: the client's messages, the gateway's tools, and who may open a session."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fairlead_app.authentication import Trust
from fairlead_speech.scripted import SpokenCall, SpokenReply
from liveworld import BLOCKS, NEW, OLD, PATH, live_world, own_function
from policyworld import Vouching, anybody
from waiting import eventually

ADD = SpokenCall("demo__add", {"a": 2, "b": 3}, "call_add")


def outcomes(world: Any) -> dict[str, int]:
    return {outcome: count for (_, outcome), count in world.metrics.sessions.items()}


async def refusal_of(url: str, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """Status and error of a refused request for a session."""
    asks = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    async with aiohttp.ClientSession() as http, http.get(url, headers={**asks, **headers}) as answer:
        return answer.status, json.loads(await answer.read())["error"]


@pytest.mark.parametrize("model", [NEW, OLD, BLOCKS])
async def test_a_spoken_call_is_run_and_its_result_is_spoken(tmp_path: Path, model: str) -> None:
    replies = SpokenReply("One moment.", (ADD,)), SpokenReply("It is five.")
    async with live_world(tmp_path, *replies, model=model) as world, world.client() as client:
        await client.speak()
        await client.turns(1)
        assert [call["arguments"] for call in world.called] == [{"a": 2, "b": 3}]
        assert [(each["id"], each["response"]) for each in world.session.results()] == [("call_add", {"output": "5"})]
        assert client.transcript() == "One moment. It is five. "
        assert not [message for message in client.frames if b"call_add" in message or b"toolCall" in message]
        behaviors = {function.get("behavior") for function in world.session.functions.values()}
        assert behaviors == ({None} if model == BLOCKS else {"BLOCKING"})


async def test_the_clients_and_the_gateways_tools_make_one_setup(tmp_path: Path) -> None:
    setup = {"tools": [own_function(), {"googleSearch": {}}], "systemInstruction": {"parts": [{"text": "Be brief."}]}}
    async with live_world(tmp_path) as world, world.client(setup=setup):
        assert world.session.tool_names == ["theirs", "demo__add", "demo__fail"]
        assert world.session.tools[:2] == setup["tools"]
        assert world.session.setup["systemInstruction"] == setup["systemInstruction"]


async def test_messages_in_snake_case_are_understood(tmp_path: Path) -> None:
    tools = [{"function_declarations": [{"name": "demo__add", "description": "The client's"}]}]
    call = SpokenCall("demo__add", {}, "call_own")
    async with (
        live_world(tmp_path, SpokenReply("", (call,)), SpokenReply("Done.")) as world,
        world.client(setup={"tools": tools}) as client,
    ):
        assert world.session.tool_names == ["demo__add", "demo__fail"]
        turns = [{"parts": [{"text": "Hello"}]}]
        await client.send(client_content={"turns": turns, "turn_complete": True})
        (called,) = await client.until("toolCall")
        assert called["functionCalls"][0]["id"] == "call_own"
        response = {"id": "call_own", "name": "demo__add", "response": {"output": 1}}
        await client.send(tool_response={"function_responses": [response]})
        await client.turns(2)
        assert world.called == []


async def test_a_client_replaces_only_its_own_tools(tmp_path: Path) -> None:
    async with live_world(tmp_path) as world, world.client(setup={"tools": [own_function()]}) as client:
        await client.send(contextUpdate={"tools": {"tools": [own_function("other")]}})
        await eventually(lambda: world.session.tool_names == ["other", "demo__add", "demo__fail"])
        await client.send(context_update={"tools": {"tools": []}, "system_instruction": {"parts": []}})
        await eventually(lambda: world.session.tool_names == ["demo__add", "demo__fail"])


async def test_audio_passes_byte_for_byte_and_in_the_kind_of_its_message(tmp_path: Path) -> None:
    message = '{"realtime_input" : {"audio": {"data": "AQEB", "mime_type": "audio/pcm;rate=16000"}}}'
    async with live_world(tmp_path, SpokenReply("one two three"), binary=True) as world, world.client() as client:
        await client.socket.send_str(message)
        await client.socket.send_bytes(message.encode())
        await client.speak()
        await client.turns(1)
        assert [len(each) for each in world.session.received_audio] == [3, 3, 640, 640]
        assert len(client.audio()) == 3 * 1920
        assert client.kinds == {aiohttp.WSMsgType.BINARY}
        audio = [message for message in client.frames if b"inlineData" in message]
        assert all(message.startswith(b'{"serverContent":{"modelTurn":{"parts":[{"inlineData"') for message in audio)


async def test_handles_are_sent_to_the_client_that_requests_them(tmp_path: Path) -> None:
    async with live_world(tmp_path, SpokenReply("Hello")) as world:
        async with world.client() as client:
            await client.speak()
            await client.turns(1)
            await eventually(lambda: bool(world.provider.handles))
            assert not client.of_type("sessionResumptionUpdate")
        async with world.client(setup={"sessionResumption": {}}) as client:
            await client.speak()
            handles = await client.until("sessionResumptionUpdate", 2)
            assert [each["resumable"] for each in handles] == [False, True]


async def test_a_live_session_that_cannot_be_opened_is_closed_with_the_reason(tmp_path: Path) -> None:
    mcp = {"mcpServers": [{"name": "x", "streamableHttpTransport": {"url": "https://x.example"}}]}
    async with live_world(tmp_path) as world:
        for setup, code, words in (
            ({"model": "models/other"}, 1008, "no provider serves a model 'other'"),
            ({"model": ""}, 1007, "the first message must be a setup"),
            ({"tools": [mcp]}, 1008, "mcpServers"),
            ({"systemInstruction": {"parts": [{"text": "x" * (1 << 20)}]}}, 1009, "a setup may have at most 1 MiB"),
            ({"tools": [{"functionDeclarations": [{"name": "1 bad"}]}]}, 1007, "bad function declaration"),
        ):
            async with world.client(setup=setup, ready=False) as client:
                close_code, reason = await client.end()
                assert (close_code, words in reason) == (code, True), reason
        async with world.client("x-fairlead-tier=none", ready=False) as client:
            assert (await client.end())[0] == 1008
        await eventually(lambda: not world.metrics.active["gemini-live"])


async def test_the_caller_sends_its_key_as_the_sdks_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVE_KEY", "key-of-provider")
    trust = Trust((Vouching(anybody("ada")),))
    async with live_world(tmp_path, key="key-of-provider", provider={"keyEnv": "LIVE_KEY"}, trust=trust) as world:
        async with world.client(headers={"x-goog-api-key": "ada"}):
            assert world.session.headers["x-goog-api-key"] == "key-of-provider"
        async with world.client("key=ada"):
            assert (world.session.query, "ada" in json.dumps(world.session.headers)) == ({}, False)
        status, error = await refusal_of(world.url(), {"x-goog-api-key": "eve"})
        assert (status, error["status"]) == (401, "UNAUTHENTICATED")


async def test_other_paths_and_versions(tmp_path: Path) -> None:
    async with live_world(tmp_path) as world, aiohttp.ClientSession() as http:
        base = f"http://127.0.0.1:{world.gateway.port}"
        async with http.ws_connect(base + PATH.replace("v1beta", "v1")) as socket:
            await socket.send_json({"setup": {"model": f"models/{NEW}"}})
            assert "setupComplete" in await socket.receive_json()
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(base + PATH.replace("BidiGenerateContent", "BidiGenerateMusic"))


async def test_a_route_reaches_its_model(tmp_path: Path) -> None:
    async with live_world(tmp_path) as world, world.client(setup={"model": "models/fairlead/speech"}):
        assert world.session.setup["model"] == f"models/{NEW}"


async def test_usage_of_a_live_session_is_counted_and_no_word_of_it_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "audit.log"
    replies = SpokenReply("A secret answer.", (ADD,)), SpokenReply("Five.")
    async with live_world(tmp_path, *replies, audit="all", audit_file=log) as world:
        async with world.client() as client:
            await client.speak()
            await client.turns(1)
        await eventually(lambda: outcomes(world) == {"ok": 1})
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (session,) = [line for line in lines if "model" in line]
    assert "secret" not in log.read_text() + caplog.text
    assert "20" in json.dumps(session), "tokens that were read"


async def test_a_gateway_that_stops_says_so_in_the_providers_way(tmp_path: Path) -> None:
    async with live_world(tmp_path) as world, world.client() as client:
        await world.gateway.stop(5)
        (notice,) = client.of_type("goAway")
        assert notice["timeLeft"].endswith("s")
        assert (await client.end())[0] == 1001


async def test_a_handle_belongs_to_the_principal_that_it_was_issued_to(tmp_path: Path) -> None:
    trust = Trust((Vouching(anybody("ada"), anybody("eve")),))
    async with live_world(tmp_path, SpokenReply("Hello"), trust=trust) as world:
        async with world.client("key=ada", setup={"sessionResumption": {}}) as client:
            await client.ask("Hello")
            *_, update = await client.until("sessionResumptionUpdate", 2)
        handle = {"sessionResumption": {"handle": update["newHandle"]}}
        assert update["newHandle"] not in world.provider.handles
        for other in (handle, {"sessionResumption": {"handle": next(iter(world.provider.handles))}}):
            async with world.client("key=eve", setup=other, ready=False) as client:
                code, reason = await client.end()
                assert (code, "not issued to this client" in reason) == (1008, True)
        await eventually(lambda: world.session.closed)
        async with world.client("key=ada", setup=handle):
            assert world.session.setup["sessionResumption"]["handle"] in world.provider.handles


async def test_an_anonymous_client_resumes_with_no_handle_that_it_did_not_get(tmp_path: Path) -> None:
    """A provider's own handle may be guessed, or read in its logs."""
    async with live_world(tmp_path, SpokenReply("Hello")) as world:
        async with world.client(setup={"sessionResumption": {}}) as client:
            await client.ask("Hello")
            *_, update = await client.until("sessionResumptionUpdate", 2)
        (own,) = world.provider.handles
        assert update["newHandle"] != own
        for guessed in (own, f"fairlead-of.{'0' * 32}.{own}"):
            async with world.client(setup={"sessionResumption": {"handle": guessed}}, ready=False) as client:
                code, reason = await client.end()
                assert (code, "not issued to this client" in reason) == (1008, True), (guessed, code)
        async with world.client(setup={"sessionResumption": {"handle": update["newHandle"]}}):
            assert world.session.setup["sessionResumption"]["handle"] == own


async def test_updates_that_are_not_taken_close_the_session(tmp_path: Path) -> None:
    mcp = {"mcpServers": [{"name": "x", "streamableHttpTransport": {"url": "https://x.example"}}]}
    async with live_world(tmp_path) as world:
        for update, code in (
            ({"tools": {"tools": [mcp]}}, 1008),
            ({"systemInstruction": {"parts": [{"text": "x" * (1 << 20)}]}}, 1009),
        ):
            async with world.client() as client:
                await client.send(contextUpdate=update)
                assert (await client.end())[0] == code
                assert not world.session.of_type("contextUpdate")


async def test_sessions_that_open_in_the_same_moment_all_get_their_tools(tmp_path: Path) -> None:
    replies = [SpokenReply("Hello.")] * 72
    async with live_world(tmp_path, *replies, speech_sessions_each=72) as world, AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(world.client()) for _ in range(72)))
        assert outcomes(world) == {}


async def test_turns_that_a_client_marks_itself_reach_the_provider(tmp_path: Path) -> None:
    marked = {"realtimeInputConfig": {"automaticActivityDetection": {"disabled": True}}}
    async with live_world(tmp_path, SpokenReply("Hello"), heard=["hi"]) as world:
        async with world.client(setup=marked) as client:
            await client.send(realtimeInput={"activityStart": {}})
            await client.speak()
            await client.send(realtimeInput={"activityEnd": {}})
            await client.turns(1)
            assert (client.transcript(), len(world.session.received_audio)) == ("Hello ", 2)
        async with world.client() as client:
            await client.send(realtimeInput={"activityStart": {}})
            code, reason = await client.end()
            assert (code, "automatic activity detection is enabled" in reason) == (1007, True)
