"""Who may open a speech session, and how sessions end."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fairlead_app.authentication import Trust
from fairlead_speech.scripted import SpokenCall, SpokenReply
from fairlead_speech.session import SpeechBounds
from gatewayworld import Ask, ask
from llmworld import policy
from policyworld import Vouching, anybody
from restworld import post
from speechworld import SPEECH, speech_world
from waiting import eventually


async def refusal_of(url: str, **options: Any) -> tuple[int, dict[str, Any]]:
    """Status and error of a request for a session that is refused."""
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        **options.pop("headers", {}),
    }
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
        return answer.status, json.loads(await answer.read())["error"]


async def test_a_model_that_nobody_has_is_refused_before_the_upgrade(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world:
        status, error = await refusal_of(world.url("model=other"))
        assert (status, error["code"]) == (404, "model_not_found")
        status, error = await refusal_of(world.url("model=gpt-realtime&x-fairlead-tier=none"))
        assert (status, error["code"]) == (404, "UNKNOWN_TIER")
        status, error = await refusal_of(world.url("model=gpt-realtime&x-fairlead-max-tools=many"))
        assert (status, error["code"]) == (400, "invalid_request")


async def test_a_page_from_elsewhere_gets_no_session(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world:
        status, error = await refusal_of(world.url(), headers={"origin": "https://evil.example"})
        assert (status, error["code"]) == (403, "FORBIDDEN_ORIGIN")
        assert not world.provider.sessions


async def test_the_providers_key_goes_out_and_the_callers_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPEECH_KEY", "sk-provider")
    async with speech_world(tmp_path, key="sk-provider", provider={"keyEnv": "SPEECH_KEY"}) as world:
        headers = {"openai-safety-identifier": "someone", "cookie": "a=b"}
        async with world.client(headers=headers, protocols=["realtime"]) as client:
            assert client.socket.protocol == "realtime"
        sent = world.session.headers
        assert sent["authorization"] == "Bearer sk-provider"
        assert sent["openai-safety-identifier"] == "someone"
        assert "cookie" not in sent
        assert "permessage-deflate" not in sent.get("sec-websocket-extensions", "")


async def test_a_provider_that_refuses_its_key_says_no_more_than_that(tmp_path: Path) -> None:
    async with speech_world(tmp_path, key="sk-provider") as world:
        status, error = await refusal_of(world.url())
        assert (status, error["code"]) == (401, "provider_refused")
        assert "bad key" not in error["message"]


async def test_a_route_and_a_sideband_of_a_call_reach_the_provider(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world:
        async with world.client("model=fairlead/speech"):
            assert world.session.query == {"model": "gpt-realtime"}
        async with world.client("call_id=rtc_1"):
            assert world.session.query == {"call_id": "rtc_1"}


async def test_a_close_of_the_provider_reaches_the_client(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        await world.session.close(1001, "Your session hit the maximum duration of 60 minutes.")
        assert await client.end() == (1001, "Your session hit the maximum duration of 60 minutes.")
        await eventually(lambda: outcomes(world) == {"provider_closed": 1})


async def test_a_connection_that_is_cut_is_reported_as_an_error(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        world.session.cut()
        code, _ = await client.end()
        assert code == 1011
        await eventually(lambda: outcomes(world) == {"cut": 1})


async def test_the_calls_of_a_client_that_disconnected_end(tmp_path: Path) -> None:
    begun = asyncio.Event()
    cancelled = asyncio.Event()

    async def slow(_: Any) -> dict[str, Any]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    tool = {"name": "slow", "description": "Slow", "inputSchema": {"type": "object"}}
    reply = SpokenReply("", (SpokenCall("demo__slow", {}, "call_1"),))
    async with speech_world(tmp_path, reply, tools=[tool], answer=slow) as world:
        async with world.client() as client:
            await client.send("response.create")
            await begun.wait()
        await eventually(lambda: not world.gateway.endpoint.context.calls)
        # the task that waits for the call counts it one iteration of the loop later
        await eventually(lambda: world.metrics.calls == {("openai-realtime", "cancelled"): 1})


async def test_a_gateway_that_stops_lets_the_model_finish_and_says_where_to_go(tmp_path: Path) -> None:
    held = asyncio.Event()
    async with speech_world(tmp_path, SpokenReply("Once upon a time", (), held)) as world, world.client() as client:
        await client.speak()
        await client.until("response.output_audio.delta")
        stopping = asyncio.create_task(world.gateway.stop(20))
        held.set()
        await client.until("response.done")
        code, reason = await client.end()
        assert (code, reason) == (1001, "the gateway is restarting: open the session again")
        await stopping


async def test_sessions_are_bounded(tmp_path: Path) -> None:
    bounds: dict[str, Any] = {"speech_sessions": 2, "speech_sessions_each": 2}
    async with speech_world(tmp_path, **bounds) as world, world.client(), world.client():
        status, error = await refusal_of(world.url())
        assert (status, error["code"]) == (503, "unavailable")


async def test_a_message_that_is_too_large_closes_the_session(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        with contextlib.suppress(ConnectionError):  # the client does not read it to its end
            await client.socket.send_str('{"type":"input_audio_buffer.append","audio":"' + "A" * (17 << 20) + '"}')
        await client.end()
        await eventually(lambda: outcomes(world) == {"cut": 1})
        assert world.session.close_code == 1000


async def test_policies_decide_which_tools_are_shown(tmp_path: Path) -> None:
    deny = policy()
    async with speech_world(tmp_path, policies=[deny]) as world, world.client():
        assert world.session.tool_names == ["demo__add", "demo__fail"]


async def test_usage_of_a_live_session_is_counted_and_no_word_of_it_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "audit.log"
    replies = SpokenReply("A secret answer.", (SpokenCall("demo__add", {"a": 1, "b": 1}, "c"),)), SpokenReply("Two.")
    async with speech_world(tmp_path, *replies, audit="all", audit_file=log) as world:
        async with world.client() as client:
            await client.speak()
            await client.until("response.done", 2)
        await eventually(lambda: outcomes(world) == {"ok": 1})
        page = await ask(world.gateway, Ask(verb="GET", target="/v1/models", body=b""))
        assert page.status == 200
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (session,) = [line for line in lines if line.get("path") == "/v1/realtime" or "model" in line]
    assert SPEECH not in log.read_text()
    assert "secret" not in log.read_text() + caplog.text
    assert "40" in json.dumps(session), "tokens that both responses read"


def outcomes(world: Any) -> dict[str, int]:
    return {outcome: count for (_, outcome), count in world.metrics.sessions.items()}


async def test_a_browser_sends_its_key_as_a_subprotocol(tmp_path: Path) -> None:
    async with speech_world(tmp_path, trust=Trust((Vouching(anybody("ada")),))) as world:
        async with world.client(protocols=["realtime", "openai-insecure-api-key.ada"]) as client:
            assert client.socket.protocol == "realtime"
        assert "ada" not in json.dumps(world.session.headers)
        status, error = await refusal_of(world.url(), headers={"sec-websocket-protocol": "openai-insecure-api-key.eve"})
        assert (status, error["code"]) == (401, "UNAUTHENTICATED")


async def test_a_client_that_does_not_read_is_closed_and_holds_its_provider_up(tmp_path: Path) -> None:
    async with speech_world(tmp_path, bounds=SpeechBounds(check_seconds=0.05, stalled_seconds=0.2)) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.gateway.port, limit=1024)
        head = "GET /v1/realtime?model=gpt-realtime HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\n"
        head += "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        writer.write(head.encode())
        await reader.readuntil(b"\r\n\r\n")
        await eventually(lambda: bool(world.provider.sessions))
        sent = 0
        while not outcomes(world):
            await world.session.send("response.output_audio.delta", delta="A" * (1 << 20))
            await asyncio.sleep(0)
            sent += not world.session.closed
        assert outcomes(world) == {"stalled": 1}
        assert sent < 50, "the provider was held up: no more than the buffers of the kernel took"
        writer.transport.abort()


async def test_client_secrets_are_off_unless_allowed(tmp_path: Path) -> None:
    body = {"session": {"type": "realtime", "model": "gpt-realtime"}}
    async with speech_world(tmp_path) as world:
        answer = await post(world.gateway, "/v1/realtime/client_secrets", body)
        assert (answer.status, answer.message["error"]["code"]) == (403, "client_secrets_off")


async def test_a_client_secret_is_the_providers(tmp_path: Path) -> None:
    tools = [{"type": "mcp", "server_label": "x", "server_url": "https://x.example"}]
    async with speech_world(tmp_path, speech_client_secrets=True) as world:
        body = {"session": {"type": "realtime", "model": "fairlead/speech"}}
        answer = await post(world.gateway, "/v1/realtime/client_secrets", body)
        assert (answer.status, answer.message["value"]) == (200, "ek_scripted")
        assert answer.message["session"]["model"] == "gpt-realtime"
        refused = await post(
            world.gateway, "/v1/realtime/client_secrets", {"session": {"model": "gpt-realtime", "tools": tools}}
        )
        assert (refused.status, refused.message["error"]["code"]) == (400, "mcp_tools_refused")
        wrongs: tuple[dict[str, Any], ...] = (
            {"Tools": tools},
            {"tools": [{**tools[0], "Type": "mcp", "type": "function"}]},
        )
        for wrong in wrongs:
            body = {"session": {"model": "gpt-realtime", **wrong}}
            misread = await post(world.gateway, "/v1/realtime/client_secrets", body)
            assert (misread.status, "some parsers read as" in misread.message["error"]["message"]) == (400, True)
