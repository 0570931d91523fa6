"""Converts definitions and messages, and counts tokens, by functions from bytes to bytes that worker processes can run.

The module does no I/O and does not import the web framework, so that a worker process imports it in a tenth of a
second. For small inputs, the gateway calls these functions in its worker thread instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats import registry
from fairlead_formats.messages.call import InvalidCall, ResultLoss
from fairlead_formats.tokens.conversation import ConversationTokens, measure_conversation
from fairlead_formats.tokens.counting import best_counter
from fairlead_formats.tokens.shorten import shorten
from fairlead_formats.tokens.sizes import Size, Sizes
from fairlead_formats.tool_format import DEFAULT, GEMINI_JSON_SCHEMA, GeminiField, JsonObject, Options
from fairlead_formats.tools.between import between
from fairlead_formats.tools.definitions import PreparedTool, ToolFormat
from fairlead_formats.translate import translate_message, translate_results
from fairlead_mcp import members
from fairlead_mcp.misread_values import explain_misreading
from fairlead_offers.job import ConvertedBody, Job

TWICE: Final = (
    "an object has a member twice, and parsers differ in which of the two values they read: send each member once"
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ConvertBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Body of a conversion of tools: a list of tools, one tool, or a request that contains tools."""

    source: str = msgspec.field(name="from")
    to: str
    tools: Any
    strict: bool = False
    model: str | None = None
    """Name of the model that reads the tools, because rules differ between models of one format."""
    gemini_field: GeminiField = GEMINI_JSON_SCHEMA


class MessagesBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Body of a conversion of messages: a model's message with calls, and the messages with their results."""

    source: str = msgspec.field(name="from")
    to: str
    message: Any
    """The model's message, as the provider sent it or as it is in a request."""
    results: Any = None
    """Messages with the results of the calls, which follow the model's message."""


class ConvertedMessages(msgspec.Struct, frozen=True, rename="camel"):
    """One turn of a conversation in the target format."""

    format: str
    messages: list[JsonObject]
    """The model's message, with text and calls."""
    results: tuple[JsonObject, ...]
    """Messages with the results, in the order of the calls."""
    pending: tuple[str, ...]
    """Ids of calls without a result."""
    invalid: dict[str, str]
    """Reasons why calls cannot be read and were left out, by id of the call."""
    report: tuple[ResultLoss, ...]
    """Parts that the target format cannot represent without a change."""


class ConversionFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Reason why a conversion failed. Exactly one member is not empty."""

    unreadable: str = ""
    """Message about an unreadable body; empty if the body was read."""
    unknown_format: str = ""
    """Name of the unknown format; empty if both formats are known."""


class RawTool(msgspec.Struct, frozen=True):
    """Raw definition of a tool."""

    name: str
    definition: Raw
    short: bool = False
    """Whether the definition is converted with shortened descriptions."""

    def decode(self) -> JsonObject:
        return decode_definition(bytes(self.definition), self.name)


class Preparation(msgspec.Struct, frozen=True):
    """Work of a conversion process: definitions, and the format into which they are converted."""

    format: str
    options: Options = DEFAULT
    definitions: list[RawTool] = []


UNREADABLE: Final = (registry.UnknownFormat, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
UNCHANGED: Final = Raw(b"null")


class MeasuredRequest(msgspec.Struct, frozen=True):
    """Token counts of a request's conversation, and the rest of the request."""

    tokens: ConversationTokens
    rest: Raw = UNCHANGED
    """Request without `messages` and `system`; UNCHANGED if the request has neither. The constant stands for None,
    because msgspec cannot decode an optional Raw.
    """
    repeats: bool = False
    """Whether an object of the request has a member twice."""


def decode_definition(definition: bytes, name: str) -> JsonObject:
    """Decode a definition. A definition that is nested too deeply is reduced to its name and an invalid schema, so that
    the conversion refuses this tool by name instead of failing for all tools.
    """
    try:
        return _decode(definition)
    except (msgspec.DecodeError, RecursionError):
        return {"name": name, "inputSchema": None}


def convert(
    body: bytes, *, pace: Callable[[Iterable[JsonObject]], Iterable[JsonObject]] = iter
) -> ConvertedBody | ConversionFailure:
    """Convert a `ConvertBody` to the answer of `/v1/convert`. `pace`: wraps the loop over the tools, to add pauses."""
    try:
        request = msgspec.json.decode(body, type=ConvertBody)
        if members.has_repeated_member(body):
            return ConversionFailure(unreadable=TWICE)
        source, target = registry.find(request.source), registry.find(request.to)
    except UNREADABLE as error:
        return _unreadable(error)
    options = Options(strict=request.strict, model=request.model, gemini_field=request.gemini_field)
    return ConvertedBody([_encode(between(request.tools, source, target, options, pace=pace))])


def convert_messages(body: bytes) -> ConvertedBody | ConversionFailure:
    """Convert a `MessagesBody` to the answer of `/v1/convert/messages`."""
    try:
        request = msgspec.json.decode(body, type=MessagesBody)
        if members.has_repeated_member(body):
            return ConversionFailure(unreadable=TWICE)
        source, target = registry.canonical_name(request.source), registry.canonical_name(request.to)
    except UNREADABLE as error:
        return _unreadable(error)
    all_calls = registry.message_format(source).parse_calls(request.message)
    calls = [call for call in all_calls if call.valid]
    results = [] if request.results is None else request.results
    translated_results = translate_results(calls, results, source, target)
    message = translate_message(request.message, source, target)
    invalid = {call.id: call.arguments.reason for call in all_calls if isinstance(call.arguments, InvalidCall)}
    report = message.report + translated_results.report
    answer = ConvertedMessages(
        target, list(message.messages), translated_results.messages, translated_results.pending, invalid, report
    )
    return ConvertedBody([_encode(answer)])


def _unreadable(error: Exception) -> ConversionFailure:
    """Make the answer about a body that could not be read, from the exception."""
    if isinstance(error, registry.UnknownFormat):
        return ConversionFailure(unknown_format=error.name)
    return ConversionFailure(unreadable=explain_misreading(error, "the body"))


def prepare(work: bytes) -> list[PreparedTool]:
    """Convert the definitions of an encoded `Preparation`. Returns one result per definition."""
    preparation = msgspec.json.decode(work, type=Preparation)
    format_ = registry.find(preparation.format)
    assert isinstance(format_, ToolFormat), "MCP's own format needs no preparation"
    tools = ((raw_tool, raw_tool.decode()) for raw_tool in preparation.definitions)
    return [format_.prepare(shorten(tool) if raw_tool.short else tool, preparation.options) for raw_tool, tool in tools]


def count(work: bytes) -> list[Size]:
    """Count the tokens of definitions, which are encoded as a list of raw definitions."""
    sizes = Sizes(best_counter(), limit=1)
    return [sizes.of(bytes(raw)) for raw in msgspec.json.decode(work, type=list[Raw])]


def measure(body: bytes) -> MeasuredRequest:
    """Count the tokens of a request's `messages` and `system`. For an unreadable body the counts are 0: the route
    decodes the body again, and reports the error.
    """
    try:
        request = _decode(body)
        if members.has_repeated_member(body):
            return MeasuredRequest(ConversationTokens(0, 0), repeats=True)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MeasuredRequest(ConversationTokens(0, 0))
    messages, system = request.pop("messages", None), request.pop("system", None)
    if messages is None and system is None:
        return MeasuredRequest(ConversationTokens(0, 0))
    return MeasuredRequest(measure_conversation(messages, system, best_counter()), Raw(_encode(request)))


def repeats(body: bytes) -> bool:
    """Whether an object of a body has a member twice. False for an unreadable body: the route decodes the body again,
    and reports the error.
    """
    try:
        return members.has_repeated_member(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


CONVERT: Final = Job[ConvertedBody | ConversionFailure]("convert", ConversionFailure)
MESSAGES: Final = Job[ConvertedBody | ConversionFailure]("messages", ConversionFailure)
PREPARE: Final = Job[list[PreparedTool]]("prepare", list[PreparedTool])
COUNT: Final = Job[list[Size]]("count", list[Size])
MEASURE: Final = Job[MeasuredRequest]("measure", MeasuredRequest)
REPEATS: Final = Job[bool]("repeats", bool)
