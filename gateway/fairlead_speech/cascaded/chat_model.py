"""Reads the streamed answers of a cascaded engine's model, and assigns ids to the tool calls in them. The answers have
the format of OpenAI's Chat Completions, which the gateway offers for the models of every provider.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from fairlead_mcp.errors import TooLarge
from fairlead_mcp.sse import EventParser
from fairlead_speech.cascaded.backends import BackendFailed
from fairlead_speech.tools import MAX_IDS

MAX_TEXT: Final = 64 << 10
"""Maximum number of characters of text in one answer."""
MAX_ARGUMENTS: Final = 256 << 10
"""Maximum number of characters of names and arguments of all calls in one answer."""
MAX_CALLS: Final = 128
_MAX_EVENT: Final = 1 << 20
_DONE: Final = b"[DONE]"


class ChatModel(Protocol):
    """Interface to the models of the installation, with requests and answers in the format of Chat Completions."""

    def stream(self, model: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Stream the answer to a request as server-sent events. `model`: name of a model or route. Raises LlmError."""
        ...


class GrowingCall(msgspec.Struct):
    """Tool call of the model while its name and arguments arrive."""

    id: str = ""
    name: str = ""
    pieces: list[str] = []
    """Pieces of the arguments. Appending each piece to one string would copy the whole string every time."""

    @property
    def arguments(self) -> str:
        """Arguments received so far."""
        return "".join(self.pieces)


class _FunctionPart(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _CallPart(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _FunctionPart | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_CallPart] | None = None


class _ChoicePart(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _AnswerPart(msgspec.Struct):
    choices: list[_ChoicePart] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_decode_chunk: Final = msgspec.json.Decoder(_AnswerPart).decode


class SpokenAnswer:
    """Answer of the model while it is streamed. Does no I/O."""

    def __init__(self) -> None:
        self._parser = EventParser(_MAX_EVENT)
        self.calls: list[GrowingCall] = []
        self.usage: dict[str, Any] = {}
        self.finish_reason = ""
        self.ended = False
        self._text_size = self._arguments_size = 0

    @property
    def size(self) -> int:
        """Number of characters of the answer so far, including names and arguments of calls."""
        return self._text_size + self._arguments_size

    def feed(self, piece: bytes) -> str:
        """Parse a piece of the stream. Returns the text that the piece adds. Raises BackendFailed."""
        texts = []
        try:
            for event in self._parser.feed(piece):
                if event.data.strip() == _DONE:
                    self.ended = True
                elif event.data:
                    texts.append(self._handle_chunk(_decode_chunk(event.data)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TooLarge) as error:
            raise BackendFailed("llm_failed", "the model's answer cannot be read") from error
        return "".join(texts)

    def _handle_chunk(self, chunk: _AnswerPart) -> str:
        if chunk.error is not None:
            raise BackendFailed("llm_failed", "the model failed during its answer")
        if chunk.usage is not None:
            self.usage = chunk.usage
        choice = chunk.choices[0] if chunk.choices else _ChoicePart()
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason[:64]
            self.ended = True
        delta = choice.delta or _Delta()
        for call_delta in delta.tool_calls or ():
            self._add_call_delta(call_delta)
        content = delta.content or ""
        self._text_size += len(content)
        if self._text_size > MAX_TEXT:
            raise BackendFailed("llm_failed", f"the model's answer was ended because it exceeds {MAX_TEXT} characters")
        return content

    def _add_call_delta(self, delta: _CallPart) -> None:
        index = delta.index if delta.index is not None else max(len(self.calls) - 1, 0)
        current = self.calls[index] if 0 <= index < len(self.calls) else None
        if current is not None and delta.id and current.id and delta.id != current.id:
            index = len(self.calls)  # a new id means a new call: some servers send the index 0, or none, with all calls
        if index >= MAX_CALLS:
            raise BackendFailed("llm_failed", f"the model made more than {MAX_CALLS} tool calls in one answer")
        if not 0 <= index <= len(self.calls):
            message = f"the model's stream begins a tool call with the index {index} instead of {len(self.calls)}"
            raise BackendFailed("llm_failed", message)
        if index == len(self.calls):
            self.calls.append(GrowingCall())
        call, function = self.calls[index], delta.function or _FunctionPart()
        call.id = call.id or (delta.id or "")[:256]
        call.name += function.name or ""
        if function.arguments:
            call.pieces.append(function.arguments)
        self._arguments_size += len(function.name or "") + len(function.arguments or "")
        if self._arguments_size > MAX_ARGUMENTS:
            raise BackendFailed(
                "llm_failed", f"the model's calls have over {MAX_ARGUMENTS >> 10} Ki characters of arguments"
            )


class CallIds:
    """Assigns call ids that are unique in one session. Some servers number the calls of each answer from the start."""

    def __init__(self, make_id: Callable[[], str]) -> None:
        """`make_id`: makes an id."""
        self._make_id = make_id
        self._seen_ids: OrderedDict[str, None] = OrderedDict()

    def assign(self, calls: Sequence[GrowingCall]) -> list[str]:
        """Assign ids to the calls of one answer. A call keeps the model's id unless another call of the session has
        that id. Equal calls in one answer share an id, so that they run once.
        """
        calls_by_id: dict[str, tuple[str, str]] = {}
        ids = []
        for call in calls:
            ident, contents = call.id, (call.name, call.arguments)
            if (
                not ident
                or calls_by_id.get(ident, contents) != contents
                or (ident in self._seen_ids and ident not in calls_by_id)
            ):
                ident = self._make_id()
            calls_by_id[ident] = contents
            ids.append(ident)
        for ident in calls_by_id:
            self._seen_ids[ident] = None
            if len(self._seen_ids) > MAX_IDS:
                self._seen_ids.popitem(last=False)
        return ids
