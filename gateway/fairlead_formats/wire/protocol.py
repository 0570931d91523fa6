"""Wire formats of model APIs, as the loop of model and tools sees them. Pure module.

A `WireFormat` is in a family's folder of `providers`. A pair of formats, where a client speaks another one than the
provider, is a `WireFormat` as well: it reads the client's request, speaks the provider's format, and writes the
client's answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.losses import TranslationLosses
from fairlead_formats.wire.provider_api import ProviderKind

EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"


class BadRequest(ValueError):
    """A request that cannot be read; `param` names the member."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class BadAnswer(ValueError):
    """A whole answer of a provider that is not in its format."""


class BadStream(ValueError):
    """An event that is not in the provider's format. `error` is the provider's own error object, where it tells of one
    in its stream.
    """

    def __init__(self, message: str, error: bytes | None = None) -> None:
        super().__init__(message)
        self.error = error


SIGNED_THOUGHT: Final = "thinking"
REASONING_ITEM: Final = "reasoning"
MARKED_THOUGHTS: Final = (SIGNED_THOUGHT, REASONING_ITEM)
"""Names in the keys of turns that are found by the random mark of a thought."""


class CallKey(msgspec.Struct, frozen=True):
    """Id and name of a call that the caller gets: the key of a kept turn. Where an answer has none, a thought
    stands in, by its signature (Anthropic) or item id (Responses).
    """

    id: str
    name: str


class CallPlace(msgspec.Struct, frozen=True):
    """Range of messages of a request with one answer of the model, and the keys that its kept turn is found by."""

    start: int
    """Place of the first message that holds them."""
    end: int
    """Place behind the last one."""
    calls: tuple[CallKey, ...]


class KeptTurn(msgspec.Struct, frozen=True, array_like=True):
    """Part of a turn that the caller has not seen."""

    format: str
    """Name of the wire format of its messages."""
    before: list[bytes]
    """Messages of earlier rounds, and that with the calls."""
    results: list[bytes]
    """Messages with the results of the calls that were run here."""


class InnerCall(msgspec.Struct, frozen=True):
    """Call that the arguments of a call of `execute_tool` name."""

    name: str
    arguments: bytes
    """JSON object."""


class RunningCall(msgspec.Struct, frozen=True):
    """One call that is run here, for clients that ask to see them."""

    id: str
    name: str
    """As the model wrote it."""
    arguments: bytes
    """JSON, as the model wrote it."""


class FinishedCall(RunningCall, frozen=True):
    """One call that was run here."""

    result: Mapping[str, Any]
    """In MCP's form."""
    seconds: float = 0


class ModelRound(msgspec.Struct, frozen=True):
    """One round of a request: additions of the loop to what the client sent."""

    model: str
    """As the provider calls it."""
    more: Sequence[bytes] = ()
    """Messages behind the caller's."""
    injected: Sequence[bytes] = ()
    """Definitions behind the caller's tools."""
    usage: bool = False
    """Whether a stream is asked for its usage."""
    first: bool = True
    """Whether a `tool_choice` of the caller's that forces a call holds; it is `auto` in later rounds."""
    last: bool = False
    """Whether the model must not call a tool."""


class WireRequest(Protocol):
    """One request of a client. What is not understood goes out as it came."""

    model: str
    """As the client named it."""
    stream: bool
    own: Raw
    """The member `fairlead`: wishes for the gateway, which do not go out."""
    no_injection: bool
    """Whether the request takes no injected tools, such as with `n` > 1 or `functions`."""
    client_messages: Sequence[bytes | Raw]
    """Messages as they came."""
    messages: Sequence[bytes | Raw]
    """Messages as they go out."""

    @property
    def tool_names(self) -> frozenset[str]:
        """Names of the caller's own tools."""

    @property
    def tools(self) -> bytes:
        """The caller's definitions as a raw JSON array."""

    @property
    def system(self) -> bytes:
        """The system prompt that stands beside the messages, as raw JSON; `null` where there is none."""

    @property
    def losses(self) -> TranslationLosses | None:
        """Codes of members that the provider's format lacks; None where the client speaks that format."""

    @property
    def restored_bytes(self) -> int:
        """Bytes that kept turns add to the messages of the client's request."""

    def body(self, model_round: ModelRound) -> bytes:
        """The request of one round to the provider."""


class WireAnswer(Protocol):
    """The whole answer of one round."""

    @property
    def message(self) -> Mapping[str, Any]:
        """Decoded, with its calls, in a form that the message format of the same name reads."""

    @property
    def usage(self) -> Mapping[str, Any]:
        """As the provider counts it; empty where it does not."""

    @property
    def in_request(self) -> Sequence[bytes]:
        """The message as it stands in the next request."""

    @property
    def malformed_call(self) -> bool:
        """Whether the answer is nothing but a call that cannot be read (Gemini's `MALFORMED_FUNCTION_CALL`): the model
        is asked once more.
        """

    def unwrap(self, calls: Mapping[str, InnerCall]) -> None:
        """Put calls, by id, in the place of those of `execute_tool` that name them: the caller gets them."""

    def turn_key(self, before: Sequence[WireAnswer]) -> CallKey | None:
        """Key of a turn of several rounds that the API wants whole in the next request, such as with signed thoughts,
        though no call of it waits for the caller. `before`: answers of the earlier rounds. None where it need not be
        kept.
        """

    def write(self, loop: LoopResult) -> bytes:
        """This last answer as the answer of all rounds, in the client's format."""


class LoopResult(msgspec.Struct, frozen=True):
    """Additions of a loop to its last answer, for the one answer that the client gets."""

    before: Sequence[WireAnswer] = ()
    """Answers of the earlier rounds."""
    usage: Mapping[str, Any] = {}
    """Sum over all rounds."""
    theirs: Collection[str] | None = None
    """Names of tools whose calls the client gets; None: of all."""
    ran: Sequence[FinishedCall] = ()
    """Calls that are shown to the client as the provider shows those of its own hosted tools."""
    more: Mapping[str, Any] = {}
    """Further members of the answer."""


class WireStream(Protocol):
    """One client's stream over all rounds: the events of several answers become those of one."""

    @property
    def done(self) -> bool:
        """Whether the provider said that nothing follows, though its connection may stay open."""

    @property
    def usage(self) -> Mapping[str, Any]:
        """Sum over the rounds that are over."""

    @property
    def ended(self) -> bool:
        """Whether the end of the current round was said."""

    @property
    def malformed_call(self) -> bool:
        """As `WireAnswer.malformed_call`, of the current round."""

    @property
    def message(self) -> Mapping[str, Any]:
        """The message of the current round, as `WireAnswer.message`."""

    @property
    def in_request(self) -> Sequence[bytes]:
        """The message of the current round as it stands in the next request."""

    @property
    def turn_key(self) -> CallKey | None:
        """Key of the turn so far, as `WireAnswer.turn_key`."""

    def feed(self, data: bytes) -> bytes:
        """The client's part of one event, which may be nothing. Raises BadStream."""

    def end_round(self) -> bytes:
        """End the round; the part of the stream that was held of the client's own calls."""

    def unwrap(self, calls: Mapping[str, InnerCall]) -> bytes:
        """As `WireAnswer.unwrap`, behind the end of a round: the part of the stream that has these calls."""

    def show_running(self, calls: Sequence[RunningCall]) -> bytes:
        """Show calls of the round that are about to run here, as the provider shows those of its own hosted tools."""

    def show_results(self, calls: Sequence[FinishedCall]) -> bytes:
        """Show the results of the calls that were shown as `running`; without these, both."""

    def next_round(self) -> None:
        """Go on with the next answer."""

    def finish(self, more: Mapping[str, Any]) -> bytes:
        """The end of the stream, with `more` members in its last event that can hold some."""

    def write_error(self, error: LlmError, raw: bytes | None = None) -> bytes:
        """The event that says that the stream is broken, which is its end. `raw` is the provider's own error object."""

    def keep_alive(self) -> bytes:
        """Bytes that clients of the format skip, for the time in which nothing is said."""


class WireFormat(Protocol):
    """Wire format of a model API, or a pair of two."""

    @property
    def name(self) -> str:
        """Name of the provider's format in `fairlead_formats.registry`: of definitions, messages and results."""

    @property
    def stream_type(self) -> str:
        """Media type of the client's streams."""

    @property
    def needs_call_ids(self) -> bool:
        """Whether clients have to send the id of a call back with its result."""

    @property
    def request_headers(self) -> Collection[str]:
        """Headers of a client's request that go on to the provider, in small letters."""

    @property
    def answer_headers(self) -> Sequence[str]:
        """Headers of the provider's answer that go on to the client, in small letters; one that ends with `-` is the
        beginning of several.
        """

    def receive(self, body: bytes) -> bytes:
        """A client's request with ids of calls where they belong, in formats that carry them elsewhere."""

    def read(self, body: bytes, model: str | None = None, stream: bool | None = None) -> WireRequest:
        """A client's request. `model` and `stream` are those of the path, in formats that have them there. Raises
        BadRequest.
        """

    def path(self, model: str, *, stream: bool) -> str:
        """Path of a request below the base of the provider's API."""

    def answer(self, body: bytes, request: WireRequest) -> WireAnswer:
        """A whole answer of the provider to a request. Raises BadAnswer."""

    def stream(self, request: WireRequest, theirs: Collection[str] | None) -> WireStream:
        """The client's stream for a request. `theirs`: names of tools whose calls the caller gets, more than its own
        (`ToolLoop.theirs`). None: nothing is run here, and every event passes.
        """

    def places(self, messages: Sequence[bytes | Raw]) -> Sequence[CallPlace]:
        """Calls of models among the messages of a request, in their order."""

    def role_and_text(self, message: bytes | Raw) -> tuple[str, str]:
        """Role and text of a message of a request. Clients rewrite JSON, so bytes are not compared."""

    def restore(self, messages: Sequence[bytes | Raw], turns: Mapping[int, KeptTurn]) -> list[bytes | Raw]:
        """The messages, those of calls that a turn is kept for (by `CallPlace.start`) replaced by the whole turn. The
        turns are of the same format.
        """

    def error_body(self, error: LlmError) -> bytes:
        """A refusal of the gateway's own in the client's format."""

    def refusal(self, status: int, body: bytes) -> tuple[int, bytes]:
        """A provider's refusal in the client's format."""

    def without_thoughts(self, body: bytes, keep_last: int) -> bytes | None:
        """A request of the provider's without thoughts that only the model which sealed them takes, but for those in
        its last `keep_last` messages; None where there are none. Raises msgspec.MsgspecError, KeyError, RecursionError,
        UnicodeDecodeError.
        """

    def error_in(self, body: bytes) -> bytes | None:
        """The raw error object in a provider's refusal, for `WireStream.failed`; None where there is none."""


class CountFormat(Protocol):
    """Count requests of one model API."""

    @property
    def wire(self) -> WireFormat:
        """Format of the request whose tokens are counted."""

    @property
    def kind(self) -> ProviderKind:
        """Kind of the providers that can count."""

    def read(self, body: bytes, model: str | None) -> WireRequest:
        """The request whose tokens a client wants to know; `model` is that of the path. Raises BadRequest."""

    def path(self, model: str) -> str:
        """Path of a count request below the base of the provider's API."""

    def body(self, request: bytes, model: str) -> bytes:
        """Body of a count request; `request` is the body whose tokens are counted."""

    def write(self, tokens: int) -> bytes:
        """Body of the answer with a number of tokens."""
