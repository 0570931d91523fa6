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
    assembling = message_format(name).assembler(names)
    calls: list[ModelCall] = []
    for event in events if isinstance(events, list) else [events]:
        calls += assembling.feed(event)
    return calls + assembling.close()


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
    from_, to = message_format(source), message_format(target)
    calls = from_.parse_calls(message, read)
    if from_ is to and read == write and calls and all(call.valid for call in calls):
        return WrittenMessages(tuple(to.request_messages(message)))
    parts = list(from_.parts(message))
    text = "\n\n".join(part.text for part in parts if part.what == TEXT and part.text)
    report = losses_of_message(parts, calls, to)
    return WrittenMessages(tuple(to.write_calls(calls, write, text if to.holds_text else "")), report)


def translate_results(
    calls: Sequence[ModelCall], messages: object, source: str, target: str, *, carry: Carry = DEFAULT_CARRY
) -> WrittenMessages:
    """Convert messages with the results of `calls`. A call without a result stays pending; a result without a call is
    left out and reported. Raises `registry.UnknownFormat`.
    """
    from_, to = message_format(source), message_format(target)
    answers = list(from_.answers(messages))
    results = [answer.result for answer in answers if answer.result is not None]
    matched, strays = match(calls, results)
    written = to.write_results(calls, matched, carry)
    if from_ is to and not strays:
        unchanged = messages if isinstance(messages, list) else [messages] if isinstance(messages, dict) else []
        return WrittenMessages(tuple(unchanged), (), written.pending)
    dropped = tuple(
        ResultLoss(stray.id or stray.name, "", "block", Action.DROPPED, "no call of the message has this id")
        for stray in strays
    )
    other_losses = losses_of_answers(answers)
    return msgspec.structs.replace(written, report=written.report + dropped + other_losses)


def match(calls: Sequence[ModelCall], results: Sequence[ToolResult]) -> tuple[list[McpResult | None], list[ToolResult]]:
    """Match results with calls, by id or else by name and order. Returns the results in the order of the calls, None
    for a call without a result, and the results without a call.
    """
    taken, strays = OpenCalls(calls).take(results)
    matched: list[McpResult | None] = [None] * len(calls)
    for each in taken:
        matched[each.index] = each.result.result
    return matched, strays
