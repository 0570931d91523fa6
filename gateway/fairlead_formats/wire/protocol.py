"""Interfaces of wire formats: requests, answers and streams of a model API. Pure module.

Each family of providers implements `WireFormat` in its folder of `providers`. For a client whose format is not the
provider's, a pair of two formats (`pairs.pair`) implements `WireFormat` as well.

The gateway answers a client's request in a loop of rounds. A round is one request to the provider and its answer. If
the model calls tools of the gateway, the gateway runs them and begins another round with the results. The client gets
one answer for all rounds. `execute_tool` is the gateway's tool that runs another tool by name, an inner call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from fairlead_formats.wire.errors import LlmError

MAX_CODES: Final = 24
"""Maximum number of codes that are reported by name; further codes are only counted."""
MAX_CODE: Final = 40
"""Maximum number of characters of a code."""
_UNSAFE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")
EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"
SIGNED_REASONING: Final = "thinking"
REASONING_ITEM: Final = "reasoning"
REASONING_KEYS: Final = (SIGNED_REASONING, REASONING_ITEM)
"""Values of `CallKey.name` for a turn without calls. The key of such a turn is taken from its reasoning."""


class TranslationLosses:
    """Short codes for what a translation lost because the other wire format lacks it: distinct, in the order in which
    they were added.
    """

    def __init__(self, codes: Iterable[str] = ()) -> None:
        self._codes = dict.fromkeys(codes)
        self._further_total = 0

    def add(self, code: str) -> None:
        """Add a code, such as the name of a member. It is truncated to `MAX_CODE` and made safe for a header."""
        safe_code = _UNSAFE_CHARACTERS.sub("_", code)[:MAX_CODE] or "_"
        if safe_code in self._codes:
            return
        if len(self._codes) >= MAX_CODES:
            self._further_total += 1
        else:
            self._codes[safe_code] = None

    def update(self, codes: Iterable[str]) -> None:
        """Add all of these codes."""
        for code in codes:
            self.add(code)

    def __iter__(self) -> Iterator[str]:
        yield from self._codes
        if self._further_total:
            yield f"and_{self._further_total}_more"


class BadRequest(ValueError):
    """A client's request that cannot be read. `param` names the member; the error response has `status` and `code`."""

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
    """A provider's stream that cannot be continued: an event is not in the provider's format, or reports an error.

    `error`: the error object that the provider sent in the stream; None if it sent none.
    """

    def __init__(self, message: str, error: bytes | None = None) -> None:
        super().__init__(message)
        self.error = error


class CallKey(msgspec.Struct, frozen=True):
    """Key of a stored turn: id and name of a call in the client's answer. For a turn without such a call, `id` is taken
    from its reasoning, the signature (Anthropic) or the item id (Responses), and `name` is one of `REASONING_KEYS`.
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
    """Keys under which the turn may be stored."""


class StoredTurn(msgspec.Struct, frozen=True, array_like=True):
    """Messages of one turn that the client did not receive. The gateway stores them and restores them in the client's
    next request.
    """

    format: str
    """Name of the wire format in which the messages are."""
    messages: list[bytes]
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
    """Name of the tool, as the model wrote it."""
    arguments: bytes
    """Arguments as JSON, as the model wrote them."""


class FinishedCall(RunningCall, frozen=True):
    """A call that the gateway has run."""

    result: Mapping[str, Any]
    """`CallToolResult` of MCP."""
    seconds: float = 0
    """Duration of the call."""


class ModelRound(msgspec.Struct, frozen=True):
    """Additions of one round to the client's request, and changes in it."""

    model: str
    """Name of the model at the provider."""
    added_messages: Sequence[bytes] = ()
    """Messages of earlier rounds, to send after the client's messages."""
    injected_tools: Sequence[bytes] = ()
    """Tool definitions of the gateway, to send after the client's tools."""
    requests_usage: bool = False
    """Whether to request token usage in a stream."""
    sends_forced_choice: bool = True
    """Whether a `tool_choice` of the client that forces a call is sent. Later rounds send `auto` in its place."""
    forbids_calls: bool = False
    """Whether calls are forbidden, so that this round is the last."""


class ProviderEvent(Protocol):
    """One event of a provider's stream."""

    @property
    def data(self) -> bytes:
        """Data of the event: JSON, or a text that marks the end of a stream, such as `[DONE]`."""


class ProviderEventParser(Protocol):
    """Incremental parser of a provider's stream."""

    def feed(self, chunk: bytes, /) -> Sequence[ProviderEvent]:
        """Events that a chunk completes. Raises TooLarge, BadStream."""


class WireRequest(Protocol):
    """One request of a client. Members that the gateway does not interpret reach the provider unchanged."""

    model: str
    """Name of the model in the client's request."""
    stream: bool
    """Whether the client requests a stream."""
    gateway_options: Raw
    """The member `fairlead` with options for the gateway, which is not sent to the provider."""
    no_injection: bool
    """Whether the gateway must not add tools to this request, for example with `n` > 1."""
    single_call: bool
    """Whether a message in the client's API can have only one call, as with OpenAI's `functions`."""
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
        """The system prompt that is outside of the messages, as JSON; `null` without a system prompt."""

    @property
    def losses(self) -> TranslationLosses | None:
        """Codes of members that the provider's format does not support; None if the client uses that format."""

    @property
    def restored_bytes(self) -> int:
        """Number of bytes that restored turns add to the client's messages."""

    def body(self, model_round: ModelRound) -> bytes:
        """Body of the request to the provider for one round."""


class WireAnswer(Protocol):
    """The provider's whole answer in one round."""

    @property
    def message(self) -> Mapping[str, Any]:
        """The decoded message with its calls, in the form that the `MessageFormat` of this name reads."""

    @property
    def usage(self) -> Mapping[str, Any]:
        """Token usage in the provider's form; empty if the provider sends none."""

    @property
    def request_messages(self) -> Sequence[bytes]:
        """The model's message, in the form in which the next request repeats it."""

    @property
    def malformed_call(self) -> bool:
        """Whether the answer consists of one unreadable call (Gemini's `MALFORMED_FUNCTION_CALL`), after which the
        gateway repeats the request once.
        """

    def unwrap(self, calls: Mapping[str, InnerCall]) -> None:
        """Replace calls of `execute_tool` with the inner calls, which are of tools that the client has to run. `calls`:
        inner calls, by id of the call of `execute_tool`.
        """

    def turn_key(self, earlier_answers: Sequence[WireAnswer]) -> CallKey | None:
        """Key of a turn of several rounds that has to be stored although it ends without a call for the client; None if
        it need not be stored. Some APIs require all rounds in the next request, for example for signed reasoning.
        `earlier_answers`: answers of the earlier rounds.
        """

    def write(self, loop: LoopResult) -> bytes:
        """The one answer that the client gets for all rounds; called on the answer of the last round."""


class LoopResult(msgspec.Struct, frozen=True):
    """Additions of the loop to the answer of the last round, for the one answer that the client gets."""

    earlier_answers: Sequence[WireAnswer] = ()
    """Answers of the earlier rounds."""
    usage: Mapping[str, Any] = {}
    """Sum of token usage over all rounds, in the provider's form."""
    client_tools: Collection[str] | None = None
    """Names of tools whose calls the client receives; None if it receives all calls, because the gateway runs none."""
    gateway_calls: Sequence[FinishedCall] = ()
    """Calls that the gateway ran and shows to the client, in the form that the API has for tools of the provider."""
    extra_members: Mapping[str, Any] = {}
    """Members to add to the answer."""


class WireStream(Protocol):
    """One client's stream over all rounds, which merges the events of several answers into the events of one answer."""

    @property
    def done(self) -> bool:
        """Whether the provider marked the end of its stream; its connection may still be open."""

    @property
    def usage(self) -> Mapping[str, Any]:
        """Sum of token usage over the finished rounds, in the provider's form."""

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
        """End the round. Returns the events that were held back until now, such as those of calls for the client."""

    def unwrap(self, calls: Mapping[str, InnerCall]) -> bytes:
        """Events of inner calls in place of calls of `execute_tool` (`WireAnswer.unwrap`), after `end_round`."""

    def show_running(self, calls: Sequence[RunningCall]) -> bytes:
        """Events that announce calls which the gateway is about to run, in the form that the API has for tools of the
        provider; empty if the API has no form for these.
        """

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
    """Wire format of a model API: reads requests and answers, and writes them. A pair of two formats is one too."""

    @property
    def name(self) -> str:
        """Name of the provider's format in `fairlead_formats.registry`, which also selects the form of tool
        definitions.
        """

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
        """A provider's whole answer as data of stream events, for a provider that sends a whole answer although a
        stream was requested. Raises BadAnswer.
        """

    def answer_ranges(self, messages: Sequence[bytes | Raw]) -> Sequence[AnswerRange]:
        """The answers of the model in a request that may have a stored turn, in order."""

    def role_and_text(self, message: bytes | Raw) -> tuple[str, str]:
        """Role and text of a message, by which messages are compared: clients rewrite the JSON around the text."""

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
        accepts. Reasoning in the last `keep_last` messages stays. None if nothing was removed. Raises
        msgspec.MsgspecError, KeyError, RecursionError, UnicodeDecodeError.
        """

    def error_in(self, body: bytes) -> bytes | None:
        """The error object in a provider's error body, for `WireStream.write_error`; None if the body has none."""


class CountFormat(Protocol):
    """Format of the requests of one model API that count tokens."""

    @property
    def wire(self) -> WireFormat:
        """Format of the request whose tokens are counted. Providers that accept this format can count."""

    def read(self, body: bytes, model: str | None) -> WireRequest:
        """Read the request whose tokens a client wants to know. `model`: from the path. Raises BadRequest."""

    def path(self, model: str) -> str:
        """Path of a count request, relative to the base URL of the provider's API."""

    def body(self, request: bytes, model: str) -> bytes:
        """Body of a count request; `request` is the body whose tokens are counted."""

    def write(self, tokens: int) -> bytes:
        """Body of the answer with a number of tokens."""
