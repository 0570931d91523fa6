"""Transcripts of Anthropic Messages, event by event, according to its documentation and the types of its SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fairlead_formats.scripted_turns import ScriptedTurn

USAGE = {"input_tokens": 9, "output_tokens": 1}
START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**USAGE, "cache_read_input_tokens": 3, "service_tier": "standard"},
    },
}
PING = {"type": "ping"}
STOP = {"type": "message_stop"}


def block(index: int, start: Mapping[str, Any], *deltas: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Events of one block."""
    between = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    begin = {"type": "content_block_start", "index": index, "content_block": start}
    return [begin, *between, {"type": "content_block_stop", "index": index}]


def text(index: int, *pieces: str, **more: Any) -> list[dict[str, Any]]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": "", **more}, *deltas)


def call_events(index: int, name: str, *pieces: str, kind: str = "tool_use", **more: Any) -> list[dict[str, Any]]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {"type": kind, "id": f"toolu_{index}", "name": name, "input": {}, **more}, *deltas)


def end_events(reason: str, usage: Mapping[str, Any] | None = None, **delta: Any) -> list[dict[str, Any]]:
    fields = {"stop_reason": reason, "stop_sequence": None, **delta}
    return [{"type": "message_delta", "delta": fields, "usage": usage or {"output_tokens": 12}}, STOP]


def turn(*parts: Any, ascii_only: bool = True, **more: Any) -> ScriptedTurn:
    """A turn with exactly these events; each of `parts` is an event or a list of events."""
    events = [each for part in parts for each in (part if isinstance(part, list) else [part])]
    return ScriptedTurn(events=[json.dumps(event, ensure_ascii=ascii_only) for event in events], **more)


SIGNED = [{"type": "thinking_delta", "thinking": piece} for piece in ("Let me ", "think. \U0001faa2")]
FOUND = {"type": "web_search_result", "url": "https://a", "title": "A", "encrypted_content": "x+/=", "page_age": None}
CITED = {
    "type": "web_search_result_location",
    "url": "https://a",
    "title": "A",
    "encrypted_index": "y",
    "cited_text": "c",
}
TRANSCRIPTS: dict[str, ScriptedTurn] = {
    "text": turn(START, PING, text(0, "Hel", "lo"), end_events("end_turn")),
    "text that is not ASCII": turn(
        START,
        text(0, "Gr\u00fc\u00dfe, \u4e16", "\u754c \u2028\u0085", "\U0001faa2"),
        end_events("end_turn"),
        ascii_only=False,
    ),
    "escaped text that is not ASCII": turn(START, text(0, "Gr\u00fc\u00dfe \U0001faa2 \u2028"), end_events("end_turn")),
    "a ping first": turn(PING, START, PING, text(0, "Hi"), PING, end_events("end_turn")),
    "parallel calls": turn(
        START,
        text(0, "Both."),
        call_events(1, "theirs", '{"q"', ": 1}"),
        call_events(2, "theirs", '{"q": 2}'),
        end_events("tool_use"),
    ),
    "input split anywhere": turn(
        START,
        call_events(0, "theirs", "", *'{"q": "\u00e4 \\u00e4 \\\\", "n": [1.0, 1e3, -0]}'),
        end_events("tool_use"),
    ),
    "a call without input": turn(START, call_events(0, "theirs"), end_events("tool_use")),
    "a call with an empty piece of input": turn(START, call_events(0, "theirs", ""), end_events("tool_use")),
    "input that comes at once": turn(START, call_events(0, "theirs", input={"q": 1}), end_events("tool_use")),
    "thinking with its signature": turn(
        START,
        block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            *SIGNED,
            {"type": "signature_delta", "signature": "EqQB+/=="},
        ),
        text(1, "So."),
        end_events("end_turn"),
    ),
    "thinking that is left out, and its signature": turn(
        START,
        block(
            0, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "signature_delta", "signature": "EqQB"}
        ),
        call_events(1, "theirs"),
        end_events("tool_use"),
    ),
    "redacted thinking": turn(
        START, block(0, {"type": "redacted_thinking", "data": "Emw+/="}), text(1, "So."), end_events("end_turn")
    ),
    "a refusal": turn(
        START,
        text(0, "I"),
        end_events("refusal", stop_details={"type": "refusal", "category": "cyber", "explanation": "No."}),
    ),
    "cut by length": turn(START, text(0, "Half"), end_events("max_tokens")),
    "cut by length in a call": turn(START, call_events(0, "theirs", '{"q": "ha'), end_events("max_tokens")),
    "a stop sequence": turn(START, text(0, "Half"), end_events("stop_sequence", stop_sequence="END")),
    "a server's tool and its result": turn(
        START,
        call_events(0, "web_search", '{"query": "x"}', kind="server_tool_use"),
        block(1, {"type": "web_search_tool_result", "tool_use_id": "toolu_0", "content": [FOUND]}),
        block(
            2,
            {"type": "text", "text": "", "citations": []},
            {"type": "citations_delta", "citation": CITED},
            {"type": "text_delta", "text": "Found."},
        ),
        end_events("end_turn", {"input_tokens": 99, "output_tokens": 5, "server_tool_use": {"web_search_requests": 1}}),
    ),
    "a paused turn": turn(
        START, call_events(0, "web_search", '{"query": "x"}', kind="server_tool_use"), end_events("pause_turn")
    ),
    "blocks, deltas and events that nobody knows": turn(
        START,
        {"type": "weather", "mood": 1},
        block(0, {"type": "hologram", "beams": [1.0]}, {"type": "beam", "n": 1}),
        text(1, "Hi", sparkle="x"),
        end_events("end_turn", container={"id": "c", "expires_at": "2026-01-01T00:00:00Z"}),
    ),
    "an error in the stream": turn(
        START, text(0, "Ha"), {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    ),
    "an error before anything": ScriptedTurn("slow down", status=429, headers={"request-id": "req_7"}),
    "overload before anything": ScriptedTurn("overloaded", status=529),
}
