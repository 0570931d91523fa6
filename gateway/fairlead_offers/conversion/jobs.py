"""Converts, counts and measures: functions from bytes to bytes, so that another process can do them.

Pure module without the web framework: a worker process imports it in a tenth of a second. Where a piece is small, the
thread of `worker` calls the same functions.
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
from fairlead_offers.job import ConvertedBody, Job

TWICE: Final = "the body: a member comes twice in an object, and parsers differ in which one they read; send it once"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ConvertBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Tools to convert: a list, one tool, or a request that holds them."""

    source: str = msgspec.field(name="from")
    to: str
    tools: Any
    strict: bool = False
    model: str | None = None
    """Who reads the tools, where rules differ within a format."""
    gemini_field: GeminiField = GEMINI_JSON_SCHEMA


class MessagesBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A model's message with calls, and the messages that answer them, to say in another format."""

    source: str = msgspec.field(name="from")
    to: str
    message: Any
    """As the provider sent it, or as it stands in a request."""
    results: Any = None
    """The messages behind it."""


class ConvertedMessages(msgspec.Struct, frozen=True, rename="camel"):
    """One turn of a conversation in the target's form."""

    format: str
    messages: list[JsonObject]
    """The model's message: its text and calls."""
    results: tuple[JsonObject, ...]
    """The messages that answer them, in the order of the calls."""
    pending: tuple[str, ...]
    """Ids of calls that no result was given for."""
    invalid: dict[str, str]
    """Ids of calls that cannot be read and are left out, with the reason."""
    report: tuple[ResultLoss, ...]
    """Parts that the target does not hold as they were."""


class Declined(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why there is no `ConvertedBody`."""

    unreadable: str = ""
    """Sentence about an unreadable body; empty where it was read."""
    unknown_format: str = ""


class RawTool(msgspec.Struct, frozen=True):
    """One definition of a tool, raw."""

    name: str
    definition: Raw
    short: bool = False
    """To be converted with shortened descriptions."""

    def decoded(self) -> JsonObject:
        return decode_definition(bytes(self.definition), self.name)


class Preparation(msgspec.Struct, frozen=True):
    """Definitions to convert."""

    format: str
    options: Options = DEFAULT
    definitions: list[RawTool] = []


UNREADABLE: Final = (registry.UnknownFormat, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
AS_IT_CAME: Final = Raw(b"null")


class Measured(msgspec.Struct, frozen=True):
    """A conversation's tokens, and the request without it."""

    tokens: ConversationTokens
    rest: Raw = AS_IT_CAME
    """Not None for that: an optional Raw cannot be decoded."""
    repeats: bool = False
    """Whether a member comes twice in the request."""


def decode_definition(definition: bytes, name: str) -> JsonObject:
    """A definition as JSON. One that is nested too deeply to be read keeps its name, and is refused by that."""
    try:
        return _decode(definition)
    except (msgspec.DecodeError, RecursionError):
        return {"name": name, "inputSchema": None}


def convert(
    body: bytes, *, pace: Callable[[Iterable[JsonObject]], Iterable[JsonObject]] = iter
) -> ConvertedBody | Declined:
    """`ConvertBody` to the answer of `/v1/convert`."""
    try:
        request = msgspec.json.decode(body, type=ConvertBody)
        if members.has_repeated_member(body):
            return Declined(unreadable=TWICE)
        source, target = registry.find(request.source), registry.find(request.to)
    except UNREADABLE as error:
        return _unreadable(error)
    options = Options(strict=request.strict, model=request.model, gemini_field=request.gemini_field)
    return ConvertedBody([_encode(between(request.tools, source, target, options, pace=pace))])


def convert_messages(body: bytes) -> ConvertedBody | Declined:
    """`MessagesBody` to the answer of `/v1/convert/messages`."""
    try:
        request = msgspec.json.decode(body, type=MessagesBody)
        if members.has_repeated_member(body):
            return Declined(unreadable=TWICE)
        source, target = registry.canonical(request.source), registry.canonical(request.to)
    except UNREADABLE as error:
        return _unreadable(error)
    every = registry.message_format(source).parse_calls(request.message)
    calls = [call for call in every if call.valid]
    results = [] if request.results is None else request.results
    written = translate_results(calls, results, source, target)
    message = translate_message(request.message, source, target)
    invalid = {call.id: call.arguments.reason for call in every if isinstance(call.arguments, InvalidCall)}
    report = message.report + written.report
    answer = ConvertedMessages(target, list(message.messages), written.messages, written.pending, invalid, report)
    return ConvertedBody([_encode(answer)])


def _unreadable(error: Exception) -> Declined:
    """Problem for an exception that was raised while a body was read."""
    if isinstance(error, registry.UnknownFormat):
        return Declined(unknown_format=error.name)
    if isinstance(error, RecursionError):
        return Declined(unreadable="the body is nested too deeply")
    return Declined(unreadable=f"the body: {error}")


def prepare(work: bytes) -> list[PreparedTool]:
    """`Preparation` to one outcome per definition."""
    preparation = msgspec.json.decode(work, type=Preparation)
    format_ = registry.find(preparation.format)
    assert isinstance(format_, ToolFormat), "MCP's own form takes no preparing"
    whole = ((each, each.decoded()) for each in preparation.definitions)
    return [format_.prepare(shorten(tool) if each.short else tool, preparation.options) for each, tool in whole]


def count(work: bytes) -> list[Size]:
    """Raw definitions, a list of them, to their sizes."""
    sizes = Sizes(best_counter(), limit=1)
    return [sizes.of(bytes(raw)) for raw in msgspec.json.decode(work, type=list[Raw])]


def measure(body: bytes) -> Measured:
    """A request with `messages` and `system` to their tokens and the request without them. Anything but an object
    comes back as it is, and its decoder reports it.
    """
    try:
        request = _decode(body)
        if members.has_repeated_member(body):
            return Measured(ConversationTokens(0, 0), repeats=True)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Measured(ConversationTokens(0, 0))
    messages, system = request.pop("messages", None), request.pop("system", None)
    if messages is None and system is None:
        return Measured(ConversationTokens(0, 0))
    return Measured(measure_conversation(messages, system, best_counter()), Raw(_encode(request)))


def repeats(body: bytes) -> bool:
    """Whether a member comes twice in a body; False for one that cannot be read, which the decoder reports."""
    try:
        return members.has_repeated_member(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


CONVERT: Final = Job[ConvertedBody | Declined]("convert", Declined)
MESSAGES: Final = Job[ConvertedBody | Declined]("messages", Declined)
PREPARE: Final = Job[list[PreparedTool]]("prepare", list[PreparedTool])
COUNT: Final = Job[list[Size]]("count", list[Size])
MEASURE: Final = Job[Measured]("measure", Measured)
REPEATS: Final = Job[bool]("repeats", bool)
