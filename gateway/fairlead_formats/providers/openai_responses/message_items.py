"""Reads items of OpenAI Responses and Realtime as calls, results and other parts.

Pure module. A Realtime event holds items in the form that Responses uses, so both formats share these readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fairlead_formats.messages.base import (
    BLOCK,
    SERVER_TOOL,
    TEXT,
    THINKING,
    AnswerPart,
    Part,
    call_part,
    extras,
    with_paths,
)
from fairlead_formats.messages.call import CUSTOM, Draft, ToolResult, freeform, items, member, text_of
from fairlead_formats.messages.reading import result_of
from fairlead_formats.providers.openai_chat.tools import blocks_of_parts
from fairlead_formats.providers.openai_responses.items import CALL, CUSTOM_CALL, OUTPUT

CUSTOM_OUTPUT: Final = "custom_tool_call_output"
ARGUMENTS_DONE: Final = "response.function_call_arguments.done"
_CALLS: Final = (CALL, ARGUMENTS_DONE, CUSTOM_CALL)
_ENVELOPE_MEMBERS: Final = (
    "type",
    "id",
    "object",
    "status",
    "call_id",
    "item_id",
    "event_id",
    "output_index",
    "response_id",
)
_EVENT_PREFIXES: Final = (
    "response.",
    "conversation.",
    "session.",
    "input_audio_buffer.",
    "output_audio_buffer.",
    "rate_limits.",
)


def entries(message: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Each item in a response, an event, or a list of items or events, with its JSON Pointer; an item yields itself."""
    for entry_path, entry in with_paths(path, message) if isinstance(message, list) else [(path, message)]:
        response = member(entry, "response")
        output = member(response or entry, "output")
        if isinstance(output, list) and member(entry, "type") not in (OUTPUT, CUSTOM_OUTPUT):
            yield from with_paths(f"{entry_path}/response/output" if response else f"{entry_path}/output", output)
            continue
        item = member(entry, "item")
        yield (f"{entry_path}/item", item) if item else (entry_path, entry)


def parts_of_item(item: object, path: str) -> Iterator[Part]:
    """The parts of one item; no parts for an event without an item, such as a delta."""
    kind = text_of(member(item, "type"))
    if kind in _CALLS and member(item, "status") != "in_progress":
        yield call_part(path, draft_of(item), extras(item, *_ENVELOPE_MEMBERS, "name", "arguments", "input"))
    elif kind == "message" and member(item, "role") in (None, "assistant"):
        for part_path, part in with_paths(f"{path}/content", items(member(item, "content"))):
            yield _content_part(part, part_path)
        if isinstance(text := member(item, "content"), str):
            yield Part(f"{path}/content", TEXT, text_of(text))
    elif not kind.startswith(_EVENT_PREFIXES):
        is_server_tool = kind.endswith("_call") or kind.startswith("mcp_")
        yield Part(
            path, THINKING if kind == "reasoning" else SERVER_TOOL if is_server_tool and kind not in _CALLS else BLOCK
        )


def draft_of(item: object) -> Draft:
    """The unchecked call of an item."""
    ident = member(item, "call_id", "id")
    if member(item, "type") == CUSTOM_CALL:
        return Draft(ident, member(item, "name"), freeform(member(item, "input") or ""), CUSTOM)
    return Draft(ident, member(item, "name"), member(item, "arguments"))


def answer_of(entry: Any, path: str) -> AnswerPart:
    """The result of an item."""
    if member(entry, "type") not in (OUTPUT, CUSTOM_OUTPUT):
        return AnswerPart(path)
    result = result_of(blocks_of_parts(entry.get("output")), is_error=False)
    return AnswerPart(
        path, ToolResult(text_of(entry.get("call_id")), "", result), extras(entry, *_ENVELOPE_MEMBERS, "output")
    )


def _content_part(part: object, path: str) -> Part:
    """A part of an assistant message; for audio, its transcript."""
    text = member(part, "text", "refusal", "transcript")
    if not isinstance(text, str):
        return Part(path, BLOCK)
    return Part(path, TEXT, text_of(text), extras=extras(part, "type", "text", "refusal", "transcript"))
