"""Messages of speech sessions that parsers read differently, or that take long to parse."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cascadeworld import cascade_world
from fairlead_speech.messages import MAX_BYTES, MAX_VALUES
from fairlead_speech.scripted import SpokenReply
from liveworld import NEW, live_world
from speechworld import SPEECH, speech_world
from waiting import eventually

MCP = '"session":{"type":"realtime","tools":[{"type":"mcp","server_label":"x","server_url":"https://x.example"}]}'
AUDIO = f'"audio":"{SPEECH}"'
APPEND = '"type":"input_audio_buffer.append"'
UPDATE = '"type":"session.update"'
EVENTS = {
    "a second type behind audio": f"{{{APPEND},{UPDATE},{MCP},{AUDIO}}}",
    "a second type in front of audio": f"{{{APPEND},{AUDIO},{UPDATE},{MCP}}}",
    "a second type whose name is escaped": f'{{{APPEND},{AUDIO},"\\u0074ype":"session.update",{MCP}}}',
    "a second type of another case": f'{{{APPEND},{AUDIO},"Type":"session.update",{MCP}}}',
    "a type with a long s": f'{{{APPEND},{AUDIO},"\u017fession":{{}},{MCP}}}',
    "a second list of tools": f'{{{UPDATE},{MCP[:-1]},"tools":[]}}}}',
    "tools of another case": f"{{{UPDATE},{MCP.replace('tools', 'Tools')}}}",
    "a kind of tool of another case": f"{{{UPDATE},{MCP.replace('[{' + chr(34) + 'type', '[{' + chr(34) + 'Type')}}}",
    "NaN beside": f'{{"x":NaN,{UPDATE},{MCP}}}',
    "a byte order mark": f"\ufeff{{{UPDATE},{MCP}}}",
    "half a surrogate beside": f'{{"event_id":"\\ud800",{UPDATE},{MCP}}}',
    "a control character": f'{{"event_id":"\x01",{UPDATE},{MCP}}}',
    "a comment": f"{{/**/{UPDATE},{MCP}}}",
    "a comma too many": f"{{{UPDATE},{MCP},}}",
    "a document behind it": f"{{{APPEND},{AUDIO}}}{{{UPDATE},{MCP}}}",
    "a list": f"[{{{UPDATE},{MCP}}}]",
    "no type": f"{{{MCP}}}",
    "a type that is not a text": f'{{"type":["session.update"],{MCP}}}',
    "nested deeply": f'{{{UPDATE},{MCP},"x":{"[" * 5000}{"]" * 5000}}}',
    "a kind of event that nobody knows": f'{{"type":"session.start",{MCP}}}',
    "tools in an item": f'{{"type":"conversation.item.create","item":{{"type":"message","x":{{{MCP}}}}}}}',
    "nothing": "",
}
BLOB = '{"mimeType":"audio/pcm;rate=16000","data":"AQEB"}'
MEDIA = f'"realtimeInput":{{"audio":{BLOB}}}'
SERVERS = '"tools":[{"mcpServers":[{"name":"x","streamableHttpTransport":{"url":"https://x.example"}}]}]'
CONTEXT = f'"contextUpdate":{{"tools":{{{SERVERS}}}}}'
ESCAPED = CONTEXT.replace("context", "\\u0063ontext")
MESSAGES = {
    "a contextUpdate behind audio": f"{{{MEDIA},{CONTEXT}}}",
    "a contextUpdate in front of audio": f"{{{CONTEXT},{MEDIA}}}",
    "a contextUpdate behind audio, its name escaped": f"{{{MEDIA},{ESCAPED}}}",
    "a second realtimeInput": f'{{{MEDIA},"realtimeInput":{{}}}}',
    "a second blob": f'{{"realtimeInput":{{"audio":{BLOB},"audio":{BLOB}}}}}',
    "two spellings of a message": f'{{"contextUpdate":{{}},{CONTEXT.replace("contextUpdate", "context_update")}}}',
    "two spellings of servers": '{"contextUpdate":{"tools":{"tools":[{"mcpServers":[],"mcp_servers":[{}]}]}}}',
    "servers of another case": f"{{{CONTEXT.replace('mcpServers', 'MCPServers')}}}",
    "NaN beside": f'{{{CONTEXT[:-1]},"x":NaN}}}}',
    "a byte order mark": f"\ufeff{{{CONTEXT}}}",
    "half a surrogate beside": f'{{{CONTEXT[:-1]},"x":"\\udc00"}}}}',
    "a second setup": f'{{"setup":{{"model":"models/{NEW}",{SERVERS}}}}}',
    "a message that nobody knows": f'{{"sessionUpdate":{{{SERVERS}}}}}',
    "a message of another case": f"{{{CONTEXT.replace('contextUpdate', 'ContextUpdate')}}}",
    "a list": f"[{{{CONTEXT}}}]",
    "no message": "{}",
    "nothing": "",
}


@pytest.mark.parametrize("name", EVENTS)
async def test_an_event_that_can_be_read_otherwise_gets_an_error_and_goes_nowhere(tmp_path: Path, name: str) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        before = len(world.session.received)
        await client.socket.send_str(EVENTS[name])
        (error,) = await client.until("error")
        assert error["error"]["code"] in ("invalid_event", "mcp_tools_refused"), error
        await client.send("input_audio_buffer.clear")
        await eventually(lambda: bool(world.session.of_type("input_audio_buffer.clear")))
        assert [each["type"] for each in world.session.received[before:]] == ["input_audio_buffer.clear"]


@pytest.mark.parametrize("kind", ["session.update", "response.create", "session.start"])
async def test_tools_of_the_provider_pass_in_no_event(tmp_path: Path, kind: str) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        await client.socket.send_str(
            f'{{"type":"{kind}",{MCP.replace("session", "response" if kind == "response.create" else "session")}}}'
        )
        await client.send("input_audio_buffer.clear")
        await world.session.until("input_audio_buffer.clear")
        assert [each["type"] for each in world.session.received if "https://x.example" in json.dumps(each)] == []
        assert (await client.until("error"))[0]["error"]["code"] == "mcp_tools_refused"


@pytest.mark.parametrize("name", MESSAGES)
async def test_a_message_that_can_be_read_otherwise_closes_the_session(tmp_path: Path, name: str) -> None:
    async with live_world(tmp_path) as world, world.client() as client:
        before = len(world.session.received)
        await client.socket.send_str(MESSAGES[name])
        code, reason = await client.end()
        assert (code, bool(reason)) == (1007, True), reason
        assert world.session.received[before:] == []
        await eventually(lambda: world.metrics.sessions["gemini-live", "unreadable"] == 1)


IMAGE = base64.b64encode(bytes(range(256)) * (12 << 10)).decode()
"""4 MiB of base64."""
SPOKEN = [{"type": "input_text", "text": "What is this?"}, {"type": "input_audio", "audio": IMAGE}]
SHOWN = [
    {"type": "input_text", "text": "And this?"},
    {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
]
BLOBS = [{"mimeType": "image/jpeg", "data": IMAGE}, {"mimeType": "audio/pcm;rate=16000", "data": IMAGE}]


@pytest.mark.parametrize("spaces", [(",", ":"), (", ", ": ")])
async def test_images_and_audio_of_many_mebibytes_reach_the_provider(tmp_path: Path, spaces: tuple[str, str]) -> None:
    items = [{"type": "message", "role": "user", "content": content} for content in (SPOKEN, SHOWN)]
    async with speech_world(tmp_path) as world, world.client() as client:
        await client.update(audio={"input": {"turn_detection": None}})
        for event in (
            *({"type": "conversation.item.create", "item": item} for item in items),
            {"type": "input_audio_buffer.append", "audio": IMAGE * 3},
            {"audio": IMAGE, "event_id": "mine", "type": "input_audio_buffer.append"},
        ):
            await client.socket.send_str(json.dumps(event, separators=spaces))
        _, last = await world.session.until("input_audio_buffer.append", 2)
        assert last == {"audio": IMAGE, "event_id": "mine", "type": "input_audio_buffer.append"}
        assert [each["item"] for each in world.session.of_type("conversation.item.create")] == items
        assert world.session.of_type("input_audio_buffer.append")[0]["audio"] == IMAGE * 3
        assert client.of_type("error") == []


@pytest.mark.parametrize("outer", ["realtimeInput", "realtime_input"])
async def test_pictures_of_many_mebibytes_reach_gemini(tmp_path: Path, outer: str) -> None:
    turns = [{"role": "user", "parts": [{"text": "What is this?"}, {"inlineData": BLOBS[0]}]}]
    async with live_world(tmp_path) as world, world.client() as client:
        for message in (
            {outer: {"video": BLOBS[0]}},
            {outer: {"mediaChunks": BLOBS}},
            {"clientContent": {"turns": turns, "turnComplete": False}},
        ):
            await client.send(**message)
        (content,) = await world.session.until("clientContent")
        assert content["turns"] == turns
        assert world.session.of_type("realtimeInput") == [{"video": BLOBS[0]}, {"mediaChunks": BLOBS}]
        assert client.closed is None


WORDS = "one, two, [three], {four} and so on. "
VALUES: list[Any] = [{}] * (MAX_VALUES // 2 - 10)
MANY: list[Any] = [{}] * (MAX_VALUES // 2 + 1)
LARGE = WORDS * (MAX_BYTES // len(WORDS) + 1)
LONG = LARGE[: MAX_BYTES - 1000]
"""Message with many commas that does not exceed the limit on size."""


def event(text: str = "", values: Sequence[Any] = ()) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {
        "type": "conversation.item.create",
        "item": {"type": "message", "role": "user", "content": content, "x": [*values]},
    }


def turn(text: str = "", values: Sequence[Any] = ()) -> dict[str, Any]:
    return {
        "clientContent": {"turns": [{"role": "user", "parts": [{"text": text}], "x": [*values]}], "turnComplete": False}
    }


@pytest.mark.parametrize("sent", [event(LARGE), event(values=MANY)], ids=["bytes", "values"])
async def test_an_event_beyond_its_bounds_closes_the_session(tmp_path: Path, sent: dict[str, Any]) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        await client.socket.send_str(json.dumps(sent))
        code, reason = await client.end()
        assert (code, "may" in reason) == (1009, True)
        assert world.session.of_type("conversation.item.create") == []
        await eventually(lambda: world.session.closed)


@pytest.mark.parametrize("sent", [event(LARGE), event(values=MANY)], ids=["bytes", "values"])
async def test_an_event_beyond_its_bounds_reaches_no_cascaded_engine(tmp_path: Path, sent: dict[str, Any]) -> None:
    async with cascade_world(tmp_path) as world, world.client() as client:
        await client.socket.send_str(json.dumps(sent))
        assert (await client.end())[0] == 1009


@pytest.mark.parametrize("sent", [turn(LARGE), turn(values=MANY)], ids=["bytes", "values"])
async def test_a_message_beyond_its_bounds_closes_the_session(tmp_path: Path, sent: dict[str, Any]) -> None:
    async with live_world(tmp_path) as world, world.client() as client:
        await client.send(**sent)
        code, reason = await client.end()
        assert (code, "may" in reason) == (1009, True)
        assert world.session.of_type("clientContent") == []


async def test_messages_within_the_bounds_pass(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        for sent in (event(LONG), event(values=VALUES)):
            await client.socket.send_str(json.dumps(sent))
        items = [each["item"] for each in await world.session.until("conversation.item.create", 2)]
        assert [(each["content"], each["x"]) for each in items] == [
            ([{"type": "input_text", "text": LONG}], []),
            ([{"type": "input_text", "text": ""}], VALUES),
        ]
    async with live_world(tmp_path) as live, live.client() as speaker:
        for sent in (turn(LONG), turn(values=VALUES)):
            await speaker.send(**sent)
        received = await live.session.until("clientContent", 2)
        assert received == [turn(LONG)["clientContent"], turn(values=VALUES)["clientContent"]]


async def test_a_binary_message_ends_a_session_of_text(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        await client.socket.send_bytes(f"{{{APPEND},{AUDIO}}}".encode())
        assert await client.end() == (1003, "messages of this API must be text, not binary")
        assert world.session.of_type("input_audio_buffer.append") == []


DELTA = '{"type":"response.output_audio.delta","event_id":"e","delta":"AAAA"'
BROKEN = {
    "a member twice": f'{DELTA},"type":"response.done"}}',
    "NaN": f'{DELTA},"x":NaN}}',
    "a byte order mark": f"\ufeff{DELTA}}}",
    "no type": '{"delta":"AAAA"}',
    "a list": "[]",
    "no JSON": "hello",
    "too many values": f'{DELTA},"x":[{"0," * 2 * MAX_VALUES}0]}}',
    "too many bytes": f'{DELTA},"x":"{LARGE * 4}"}}',
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_providers_event_that_cannot_be_read_ends_the_session(tmp_path: Path, name: str) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        await world.session._socket.send_str(BROKEN[name])
        code, reason = await client.end()
        assert (code, "the gateway refused a message of the provider" in reason) == (1011, True)
        assert client.types() == ["session.created"]
        await eventually(lambda: world.session.closed)
        await eventually(lambda: world.metrics.sessions["openai-realtime", "unreadable"] == 1)


async def test_half_a_character_of_a_provider_is_replaced_and_the_session_continues(tmp_path: Path) -> None:
    event = {"type": "response.output_text.delta", "event_id": "e", "delta": "Well \ud83c"}
    async with speech_world(tmp_path) as world, world.client() as client:
        await world.session._socket.send_str(json.dumps(event))
        (delta,) = await client.until("response.output_text.delta")
        assert delta["delta"] == "Well \ufffd"


PARTS = '"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":"AAAA"}}]}'
SAID = f'{{"serverContent":{{{PARTS}'


@pytest.mark.parametrize(
    "message",
    [
        f'{SAID},"modelTurn":{{}}}}}}',
        f'{SAID}}},"toolCall":{{}},"toolCall":{{}}}}',
        f'{SAID},"x":NaN}}}}',
        "[]",
        "hello",
    ],
)
async def test_a_message_of_gemini_that_cannot_be_read_ends_the_session(tmp_path: Path, message: str) -> None:
    async with live_world(tmp_path, SpokenReply("Hi")) as world, world.client() as client:
        before = len(client.messages)
        await world.session._socket.send_str(message)
        code, reason = await client.end()
        assert (code, "the gateway refused a message of the provider" in reason) == (1011, True)
        assert len(client.messages) == before
