"""Events and messages that the scripted speech providers reject: one for each documented rule of the providers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import pytest

from fairlead_formats.rejected_requests import RULES
from fairlead_formats.request_rules.rule import ApiFamily
from fairlead_speech.gemini.fake import ScriptedLive
from fairlead_speech.realtime.fake import ScriptedRealtime
from fairlead_speech.scripted import SpeechScript, SpokenCall, SpokenReply
from liveworld import BLOCKS, NEW, OLD, PATH

Sent = Mapping[str, Any]
Cases = Mapping[str, Sequence[Sent]]

TOOL = {"type": "function", "name": "find", "parameters": {"type": "object", "properties": {}}}
ASK = {"type": "response.create"}


def update(**session: Any) -> Sent:
    return {"type": "session.update", "session": {"type": "realtime", **session}}


def output(**item: Any) -> Sent:
    return {"type": "conversation.item.create", "item": {"type": "function_call_output", "output": "found", **item}}


REALTIME: Cases = {
    "event-type": [{"type": "session.dance"}],
    "session-type": [{"type": "session.update", "session": {"tools": []}}],
    "model": [update(model="gpt-realtime-3")],
    "voice": [ASK, update(audio={"output": {"voice": "verse"}})],
    "modalities": [update(output_modalities=["audio", "text"])],
    "tool-member": [update(tools=[{**TOOL, "strict": True}])],
    "tool-name": [update(tools=[{**TOOL, "name": "find it"}])],
    "tool-description": [update(tools=[{**TOOL, "description": "d" * 1025}])],
    "schema-root": [update(tools=[{**TOOL, "parameters": {"properties": {}}}])],
    "tool-choice": [update(tools=[TOOL], tool_choice={"type": "function", "name": "seek"})],
    "input-setting": [update(audio={"input": {"noise_reduction": None}})],
    "empty-buffer": [{"type": "input_audio_buffer.commit"}],
    "output-without-call": [output(call_id="call_1")],
    "output-text": [ASK, output(call_id="call_1", output={"found": 1})],
    "active-response": [ASK, ASK],
    "cancel": [{"type": "response.cancel"}],
}


def setup(model: str = NEW, *functions: Sent, **members: Any) -> Sent:
    return {"setup": {"model": f"models/{model}", "tools": [{"functionDeclarations": [*functions]}], **members}}


LIVE: Cases = {
    "setup": [{"clientContent": {}}],
    "model": [{"setup": {"model": "models/llama"}}],
    "member": [setup(), {"dance": {}}],
    "function": [setup(NEW, {"name": "find", "strict": True})],
    "behavior": [setup(BLOCKS, {"name": "find", "behavior": "NON_BLOCKING"})],
    "context-update": [setup(OLD), {"contextUpdate": {"tools": {"tools": []}}}],
    "content-late": [setup(BLOCKS), *[{"clientContent": {"turns": [], "turnComplete": True}}] * 2],
    "activity": [setup(), {"realtimeInput": {"activityStart": {}}}],
    "response-without-call": [setup(), {"toolResponse": {"functionResponses": [{"id": "1", "response": {}}]}}],
    "handle": [setup(sessionResumption={"handle": "another's"})],
    "handle-open": [],
}
"""Messages of a connection, by the rule that the last message breaks."""


def test_each_rule_of_speech_has_a_message_that_breaks_it() -> None:
    for family, cases in ((ApiFamily.REALTIME, REALTIME), (ApiFamily.LIVE, LIVE)):
        prefix = "realtime" if family is ApiFamily.REALTIME else "live"
        assert {f"{prefix}-{name}" for name in cases} == {name for name, rule in RULES.items() if rule.api is family}


@pytest.mark.parametrize("name", REALTIME)
async def test_realtime_answers_a_broken_rule_with_its_error(name: str) -> None:
    rule = RULES[f"realtime-{name}"]
    held = [SpokenReply("Hello", held=asyncio.Event())] if name == "active-response" else []
    script = SpeechScript(*held, *([called_reply()] if name == "output-text" else [SpokenReply("Hello")]))
    provider = ScriptedRealtime(script, refuses=frozenset({"noise_reduction"}))
    async with provider.serving(), aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{provider.port}/v1/realtime?model=gpt-realtime"
        async with http.ws_connect(url) as socket:
            for event in REALTIME[name][:-1]:
                await socket.send_str(json.dumps(event))
                await until(socket, "response.done" if name != "active-response" else "response.created")
            await socket.send_str(json.dumps({**REALTIME[name][-1], "event_id": "mine"}))
            error = (await until(socket, "error"))["error"]
    assert (error["type"], error["code"], error["event_id"]) == (rule.type, rule.code, "mine")
    assert (error["param"] is None) == (rule.param is None)


def called_reply() -> SpokenReply:
    return SpokenReply(calls=(SpokenCall("find", id="call_1"),))


async def until(socket: aiohttp.ClientWebSocketResponse, kind: str) -> dict[str, Any]:
    """Wait for an event of a type."""
    while True:
        event: dict[str, Any] = json.loads(await socket.receive_str(timeout=10))
        if event["type"] == kind:
            return event


@pytest.mark.parametrize("name", [name for name in LIVE if LIVE[name]])
async def test_gemini_live_closes_the_connection_for_a_broken_rule(name: str) -> None:
    rule = RULES[f"live-{name}"]
    provider = ScriptedLive(SpeechScript())
    async with (
        provider.serving(),
        aiohttp.ClientSession() as http,
        http.ws_connect(f"http://127.0.0.1:{provider.port}{PATH}") as socket,
    ):
        for message in LIVE[name]:
            await socket.send_str(json.dumps(message))
        code, reason = await await_close(socket)
    assert code == rule.status
    assert reason.startswith(rule.message.partition("{")[0])


async def test_gemini_live_refuses_the_handle_of_an_open_connection() -> None:
    rule = RULES["live-handle-open"]
    provider = ScriptedLive(SpeechScript(SpokenReply("Hello")))
    async with provider.serving(), aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{provider.port}{PATH}"
        async with http.ws_connect(url) as first, http.ws_connect(url) as second:
            audio = base64.b64encode(b"\1" * 640).decode(), base64.b64encode(bytes(640)).decode()
            await first.send_str(json.dumps(setup(sessionResumption={})))
            for data in audio:
                await first.send_str(json.dumps({"realtimeInput": {"audio": {"data": data}}}))
            handle = ""
            while not handle:
                message = json.loads(await first.receive_str(timeout=10))
                handle = message.get("sessionResumptionUpdate", {}).get("newHandle", "")
            await second.send_str(json.dumps(setup(sessionResumption={"handle": handle})))
            assert await await_close(second) == (rule.status, rule.message)


async def await_close(socket: aiohttp.ClientWebSocketResponse) -> tuple[int | None, str]:
    """Wait for the close. Returns its code and reason."""
    while True:
        message = await socket.receive(timeout=10)
        if message.type is aiohttp.WSMsgType.CLOSE:
            return message.data, message.extra or ""
