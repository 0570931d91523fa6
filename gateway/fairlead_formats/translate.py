"""Conversion of tool calls and their results from one format to another, through MCP's form.

Pure module. Formats are given by their name or alias in `registry`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead_formats.messages.base import TEXT
from fairlead_formats.messages.call import (
    DEFAULT_CARRY,
    Carry,
    McpResult,
    ModelCall,
    ResultLoss,
    ToolResult,
    WrittenMessages,
)
from fairlead_formats.messages.losses import losses_of_answers, losses_of_message
from fairlead_formats.messages.open_calls import OpenCalls
from fairlead_formats.names import Names
from fairlead_formats.registry import message_format
from fairlead_formats.tool_format import Action
from fairlead_mcp.sse import EventParser


def parse_stream(events: object, name: str, names: Names | None = None) -> list[ModelCall]:
    """The calls of a streamed message. `events` is a list of events, each decoded or as the text of its data, or the
    whole body of the stream as text. Raises `registry.UnknownFormat`. Never raises for the events' content.
    """
    if isinstance(events, str):
        events = _data(events)
    assembler = message_format(name).assembler(names)
    calls: list[ModelCall] = []
    for event in events if isinstance(events, list) else [events]:
        calls += assembler.feed(event)
    return calls + assembler.close()


def _data(body: str) -> list[str]:
    """Data of the server-sent events in the body of a stream, without an incomplete last event. A body of JSON lines is
    accepted as well.
    """
    if body.lstrip().startswith("{"):
        return body.splitlines()
    data = body.encode("utf-8", "replace") + b"\n\n"
    events = EventParser(len(data)).feed(data)
    return [event.data.decode("utf-8", "replace") for event in events]


def translate_message(
    message: object, source: str, target: str, *, read: Names | None = None, write: Names | None = None
) -> WrittenMessages:
    """Convert a model's message to another format: its calls, and its text if that format has a place for text next to
    calls. The report lists everything else. `read` and `write` are the `Names` of the source's and the target's
    request. Invalid calls are left out; `parse_calls` has their reasons. Between formats with equal messages the
    message is returned unchanged unless a call is invalid. Raises `registry.UnknownFormat`.
    """
    source_format, target_format = message_format(source), message_format(target)
    calls = source_format.parse_calls(message, read)
    if source_format is target_format and read == write and calls and all(call.valid for call in calls):
        return WrittenMessages(tuple(target_format.request_messages(message)))
    parts = list(source_format.parts(message))
    text = "\n\n".join(part.text for part in parts if part.what == TEXT and part.text)
    report = losses_of_message(parts, calls, target_format)
    return WrittenMessages(
        tuple(target_format.write_calls(calls, write, text if target_format.holds_text else "")), report
    )


def translate_results(
    calls: Sequence[ModelCall], messages: object, source: str, target: str, *, carry: Carry = DEFAULT_CARRY
) -> WrittenMessages:
    """Convert messages with the results of `calls`. A call without a result stays pending; a result without a call is
    left out and reported. Raises `registry.UnknownFormat`.
    """
    source_format, target_format = message_format(source), message_format(target)
    answers = list(source_format.answers(messages))
    results = [answer.result for answer in answers if answer.result is not None]
    matched_results, unmatched_results = match(calls, results)
    written_messages = target_format.write_results(calls, matched_results, carry)
    if source_format is target_format and not unmatched_results:
        same_messages = messages if isinstance(messages, list) else [messages] if isinstance(messages, dict) else []
        return WrittenMessages(tuple(same_messages), (), written_messages.pending)
    unmatched_losses = tuple(
        ResultLoss(result.id or result.name, "", "block", Action.DROPPED, "no call of the message has this id")
        for result in unmatched_results
    )
    other_losses = losses_of_answers(answers)
    return msgspec.structs.replace(written_messages, report=written_messages.report + unmatched_losses + other_losses)


def match(calls: Sequence[ModelCall], results: Sequence[ToolResult]) -> tuple[list[McpResult | None], list[ToolResult]]:
    """Match results with calls, by id or else by name and order. Returns the results in the order of the calls, None
    for a call without a result, and the results without a call.
    """
    call_results, unmatched_results = OpenCalls(calls).take(results)
    matched_results: list[McpResult | None] = [None] * len(calls)
    for matched_result in call_results:
        matched_results[matched_result.index] = matched_result.result.result
    return matched_results, unmatched_results
