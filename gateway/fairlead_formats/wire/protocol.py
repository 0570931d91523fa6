"""Interfaces of wire formats: requests, answers and streams of a model API. Pure module.

Each family of providers implements `WireFormat` in its folder of `providers`. A pair of two formats implements it as
well, for a client whose format is not the provider's: it reads the client's request, sends the provider's format and
writes answers in the client's format.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.losses import TranslationLosses

EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"


class BadRequest(ValueError):
    """A client's request that cannot be read; `param` names the member. `status` and `code` are those of the error."""

    def __init__(
        self, message: str, param: str | None = None, *, status: int = 400, code: str = "invalid_request"
    ) -> None:
        super().__init__(message)
        self.param = param
        self.status = status
        self.code = code


class BadAnswer(ValueError):
    """A provider's whole answer that is not in the provider's format."""


class BadStream(ValueError):
    """An event of a stream that is not in the provider's format. `error` is the error object that the provider sent in
    its stream; None where it sent none.
    """

    def __init__(self, message: str, error: bytes | None = None) -> None:
        super().__init__(message)
        self.error = error


SIGNED_REASONING: Final = "thinking"
REASONING_ITEM: Final = "reasoning"
REASONING_KEYS: Final = (SIGNED_REASONING, REASONING_ITEM)
"""Values of `CallKey.name` for a turn without calls, which is stored under a key taken from its reasoning."""


class CallKey(msgspec.Struct, frozen=True):
    """Key of a stored turn: id and name of a call that the client sees. A turn without such a call is stored under the
    signature (Anthropic) or item id (Responses) of its reasoning.
    """

    id: str
    name: str


class AnswerRange(msgspec.Struct, frozen=True):
    """The messages of a request that make up one answer of the model, and the keys of that answer's stored turn."""

    start: int
    """Index of the first message."""
    end: int
    """Index after the last message."""
    calls: tuple[CallKey, ...]


class StoredTurn(msgspec.Struct, frozen=True, array_like=True):
    """Messages of one turn that the gateway removed from the client's answer and restores in the next request."""

    format: str
    """Name of the messages' wire format."""
    before: list[bytes]
    """Messages of earlier rounds, then the message with the calls."""
    results: list[bytes]
    """Messages with the results of the calls that the gateway ran."""


class InnerCall(msgspec.Struct, frozen=True):
    """A call of another tool, named in the arguments of a call of `execute_tool`."""

    name: str
    arguments: bytes
    """JSON object."""


class RunningCall(msgspec.Struct, frozen=True):
    """A call that the gateway is about to run, for clients that display such calls."""

    id: str
    name: str
    """As the model wrote it."""
    arguments: bytes
    """JSON, as the model wrote it."""


class FinishedCall(RunningCall, frozen=True):
    """A call that the gateway has run."""

    result: Mapping[str, Any]
    """`CallToolResult` of MCP."""
    seconds: float = 0


class ModelRound(msgspec.Struct, frozen=True):
    """Additions of the loop to the client's request in one round."""

    model: str
    """Name of the model at the provider."""
    added_messages: Sequence[bytes] = ()
    """Messages after the client's messages."""
    injected: Sequence[bytes] = ()
    """Tool definitions after the client's tools."""
    usage: bool = False
    """Whether to request token usage in a stream."""
    first: bool = True
    """Whether to send a `tool_choice` of the client that forces a call. Later rounds send `auto` in its place."""
    last: bool = False
    """Whether to forbid calls."""


class ProviderEvent(Protocol):
    """One event of a provider's stream."""

    @property
    def data(self) -> bytes:
        """JSON, or text that only marks the end of a stream."""


class ProviderEventParser(Protocol):
    """Incremental parser of a provider's stream."""

    def feed(self, chunk: bytes, /) -> Sequence[ProviderEvent]:
        """Events that a chunk completes. Raises TooLarge, BadStream."""


class WireRequest(Protocol):
    """One request of a client. Members that the gateway does not interpret reach the provider unchanged."""

    model: str
    """Name of the model in the client's request."""
    stream: bool
    gateway_options: Raw
    """The member `fairlead` with options for the gateway, which is not sent to the provider."""
    no_injection: bool
    """Whether no tools can be injected, for example with `n` > 1."""
    single_call: bool
    """Whether a message of the client's API has one call at most, as with `functions`."""
    client_messages: Sequence[bytes | Raw]
    """Messages as the client sent them."""
    messages: Sequence[bytes | Raw]
    """Messages for the provider, with stored turns restored."""

    @property
    def tool_names(self) -> frozenset[str]:
        """Names of the tools in the client's request."""

    @property
    def tools(self) -> bytes:
        """The tool definitions of the client's request as a JSON array."""

    @property
    def system(self) -> bytes:
        """The system prompt outside of the messages, as JSON; `null` without one."""

    @property
    def losses(self) -> TranslationLosses | None:
        """Codes of members that the provider's format does not support; None where the client uses that format."""

    @property
    def restored_bytes(self) -> int:
        """Number of bytes that restored turns add to the client's messages."""

    def body(self, model_round: ModelRound) -> bytes:
        """Body of the request to the provider for one round."""


class WireAnswer(Protocol):
    """The provider's whole answer in one round."""

    @property
    def message(self) -> Mapping[str, Any]:
        """The decoded message with its calls, for the message format of the same name."""

    @property
    def usage(self) -> Mapping[str, Any]:
        """Token usage in the provider's form; empty where the provider sends none."""

    @property
    def request_messages(self) -> Sequence[bytes]:
        """The model's message, as the next request repeats it."""

    @property
    def malformed_call(self) -> bool:
        """Whether the answer consists of one unreadable call (Gemini's `MALFORMED_FUNCTION_CALL`), after which the
        gateway repeats the request once.
        """

    def unwrap(self, calls: Mapping[str, InnerCall]) -> None:
        """Replace calls of `execute_tool`, by id, with the calls that they name, which the client has to run."""

    def turn_key(self, before: Sequence[WireAnswer]) -> CallKey | None:
        """Key of a turn of several rounds that is stored although the client has no call to answer: the API requires
        all of it in the next request, for example for signed reasoning. `before`: answers of the earlier rounds. None
        if the turn need not be stored.
        """

    def write(self, loop: LoopResult) -> bytes:
        """The client's one answer for all rounds, of which this is the last."""


class LoopResult(msgspec.Struct, frozen=True):
    """Additions of the loop to the last answer, for the one answer that the client receives."""

    before: Sequence[WireAnswer] = ()
    """Answers of the earlier rounds."""
    usage: Mapping[str, Any] = {}
    """Sum over all rounds, in the provider's form."""
    client_tools: Collection[str] | None = None
    """Names of tools whose calls the client receives; None for all tools."""
    ran: Sequence[FinishedCall] = ()
    """Calls that the client is shown in the form of the provider's hosted tools."""
    extra_members: Mapping[str, Any] = {}
    """Members to add to the answer."""


class WireStream(Protocol):
    """One client's stream over all rounds, which merges the events of several answers into those of one."""

    @property
    def done(self) -> bool:
        """Whether the provider marked the end of its stream; its connection may still be open."""

    @property
    def usage(self) -> Mapping[str, Any]:
        """Sum over the finished rounds."""

    @property
    def ended(self) -> bool:
        """Whether the provider marked the end of the current round's answer."""

    @property
    def malformed_call(self) -> bool:
        """`WireAnswer.malformed_call` for the current round."""

    @property
    def message(self) -> Mapping[str, Any]:
        """`WireAnswer.message` for the current round."""

    @property
    def request_messages(self) -> Sequence[bytes]:
        """`WireAnswer.request_messages` for the current round."""

    @property
    def turn_key(self) -> CallKey | None:
        """`WireAnswer.turn_key` for the turn so far."""

    def feed(self, data: bytes) -> bytes:
        """Bytes for the client from one event of the provider; possibly empty. Raises BadStream."""

    def end_round(self) -> bytes:
        """End the round and return the events of the client's calls, which were held back until now."""

    def unwrap(self, calls: Mapping[str, InnerCall]) -> bytes:
        """Events of the calls that replace those of `execute_tool`, after `end_round`; see `WireAnswer.unwrap`."""

    def show_running(self, calls: Sequence[RunningCall]) -> bytes:
        """Events that announce calls which the gateway is about to run, in the form of the provider's hosted tools."""

    def show_results(self, calls: Sequence[FinishedCall]) -> bytes:
        """Events with the results of calls. They also announce each call that `show_running` has not announced."""

    def next_round(self) -> None:
        """Begin the next round."""

    def finish(self, extra_members: Mapping[str, Any]) -> bytes:
        """Events that end the stream. The last event that can carry `extra_members` carries them."""

    def write_error(self, error: LlmError, raw: bytes | None = None) -> bytes:
        """Events that report an error and end the stream. `raw` is the provider's error object, if there is one."""

    def keep_alive(self) -> bytes:
        """Bytes that clients of the format ignore, sent while there is nothing else to send."""


class WireFormat(Protocol):
    """Wire format of a model API, or a pair of two."""

    @property
    def name(self) -> str:
        """Name of the provider's format in `fairlead_formats.registry`, which also selects its tool definitions."""

    @property
    def stream_type(self) -> str:
        """Media type of streams to the client."""

    @property
    def needs_call_ids(self) -> bool:
        """Whether clients repeat the id of a call in its result."""

    @property
    def request_headers(self) -> Collection[str]:
        """Lower-case names of request headers that are forwarded to the provider."""

    @property
    def answer_headers(self) -> Sequence[str]:
        """Lower-case names of answer headers that are forwarded to the client; a name that ends with `-` is a prefix of
        several.
        """

    def older_format(self, body: bytes) -> WireFormat | None:
        """The format of a client's request in an older form of the same API; None for a request in this format."""

    def receive(self, body: bytes) -> bytes:
        """The body of a client's request, with call ids restored in formats whose clients do not repeat them."""

    def read(self, body: bytes, model: str | None = None, stream: bool | None = None) -> WireRequest:
        """Read a client's request. `model` and `stream` come from the path in formats that have them there. Raises
        BadRequest.
        """

    def path(self, model: str, *, stream: bool) -> str:
        """Path of a request, relative to the base URL of the provider's API."""

    def event_parser(self, max_event: int) -> ProviderEventParser:
        """Create the parser of a provider's streamed answer, in which an event has at most `max_event` bytes."""

    def answer(self, body: bytes, request: WireRequest) -> WireAnswer:
        """Read a provider's whole answer to a request. Raises BadAnswer."""

    def stream(self, request: WireRequest, client_tools: Collection[str] | None) -> WireStream:
        """Begin the client's stream for a request. `client_tools`: names of tools whose calls the client receives,
        which may include injected tools. None: the gateway runs no tool, and every event passes.
        """

    def whole_events(self, body: bytes) -> Sequence[bytes]:
        """Data of the stream events that say the same as a provider's whole answer, for a provider that sends a
        document although a stream was requested. Raises BadAnswer.
        """

    def answer_ranges(self, messages: Sequence[bytes | Raw]) -> Sequence[AnswerRange]:
        """Answers of the model with calls among the messages of a request, in order."""

    def role_and_text(self, message: bytes | Raw) -> tuple[str, str]:
        """Role and text of a message. Text is compared because clients rewrite the JSON around it."""

    def restore(self, messages: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
        """The messages with each stored turn in place of the messages at its `AnswerRange.start`. The turns are in the
        same format.
        """

    def error_body(self, error: LlmError) -> bytes:
        """Body of an error of the gateway, in the client's format."""

    def refusal(self, status: int, body: bytes) -> tuple[int, bytes]:
        """Status and body of a provider's error, in the client's format."""

    def remove_thoughts(self, body: bytes, keep_last: int) -> bytes | None:
        """The body of a provider request without encrypted or signed reasoning, which only the model that produced it
        accepts. Reasoning in the last `keep_last` messages stays. None where nothing was removed. Raises
        msgspec.MsgspecError, KeyError, RecursionError, UnicodeDecodeError.
        """

    def error_in(self, body: bytes) -> bytes | None:
        """The error object in a provider's error body, for `WireStream.write_error`; None where there is none."""


class CountFormat(Protocol):
    """Count requests of one model API."""

    @property
    def wire(self) -> WireFormat:
        """Format of the request whose tokens are counted. Providers that accept it can count."""

    def read(self, body: bytes, model: str | None) -> WireRequest:
        """The request whose tokens a client wants to know; `model` is that of the path. Raises BadRequest."""

    def path(self, model: str) -> str:
        """Path of a count request below the base of the provider's API."""

    def body(self, request: bytes, model: str) -> bytes:
        """Body of a count request; `request` is the body whose tokens are counted."""

    def write(self, tokens: int) -> bytes:
        """Body of the answer with a number of tokens."""
