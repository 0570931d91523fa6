"""Model of a cascaded engine, by OpenAI's Chat Completions whatever its provider speaks; and ids of its calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from fairlead_mcp.errors import TooLarge
from fairlead_mcp.sse import EventParser
from fairlead_speech.cascaded.backends import BackendFailed
from fairlead_speech.tool_calls import MAX_IDS

MAX_TEXT: Final = 64 << 10
"""Characters of text of one answer."""
MAX_ARGUMENTS: Final = 256 << 10
"""Characters of names and arguments of all calls of one answer."""
MAX_CALLS: Final = 128
_MAX_EVENT: Final = 1 << 20
_DONE: Final = b"[DONE]"


class ChatModel(Protocol):
    """Models of the installation, by Chat Completions."""

    def stream(self, wanted: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Stream the answer to a request, as server-sent events. `wanted`: a model or a route. Raises LlmError."""
        ...


class GrowingCall(msgspec.Struct):
    """Call of the model, as far as it was streamed."""

    id: str = ""
    name: str = ""
    pieces: list[str] = []
    """Pieces of the arguments: appending to one text would copy all of it with each chunk."""

    @property
    def arguments(self) -> str:
        """Arguments as far as they have come."""
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


_chunk: Final = msgspec.json.Decoder(_AnswerPart).decode


class SpokenAnswer:
    """Answer of the model that is being streamed. Pure."""

    def __init__(self) -> None:
        self._parser = EventParser(_MAX_EVENT)
        self.calls: list[GrowingCall] = []
        self.usage: dict[str, Any] = {}
        self.finish_reason = ""
        self.ended = False
        self._text_size = self._arguments_size = 0

    @property
    def written(self) -> int:
        """Characters of the answer so far, names and arguments of calls included."""
        return self._text_size + self._arguments_size

    def feed(self, piece: bytes) -> str:
        """Read a part of the stream. Returns the text that it adds. Raises BackendFailed."""
        texts = []
        try:
            for event in self._parser.feed(piece):
                if event.data.strip() == _DONE:
                    self.ended = True
                elif event.data:
                    texts.append(self._take(_chunk(event.data)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TooLarge) as error:
            raise BackendFailed("llm_failed", "the model's answer cannot be read") from error
        return "".join(texts)

    def _take(self, chunk: _AnswerPart) -> str:
        if chunk.error is not None:
            raise BackendFailed("llm_failed", "the model failed in the middle of its answer")
        if chunk.usage is not None:
            self.usage = chunk.usage
        choice = chunk.choices[0] if chunk.choices else _ChoicePart()
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason[:64]
            self.ended = True
        delta = choice.delta or _Delta()
        for each in delta.tool_calls or ():
            self._take_call(each)
        content = delta.content or ""
        self._text_size += len(content)
        if self._text_size > MAX_TEXT:
            raise BackendFailed("llm_failed", f"the model answered over {MAX_TEXT >> 10} Ki characters")
        return content

    def _take_call(self, delta: _CallPart) -> None:
        index = delta.index if delta.index is not None else max(len(self.calls) - 1, 0)
        before = self.calls[index] if 0 <= index < len(self.calls) else None
        if before is not None and delta.id and before.id and delta.id != before.id:
            index = len(self.calls)  # some servers give all calls the index 0, or none: a new id is a new call
        if not 0 <= index <= len(self.calls) or index >= MAX_CALLS:
            raise BackendFailed("llm_failed", "the model's calls are out of order, or too many")
        if index == len(self.calls):
            self.calls.append(GrowingCall())
        call, function = self.calls[index], delta.function or _FunctionPart()
        call.id = call.id or (delta.id or "")[:256]
        call.name += function.name or ""
        if function.arguments:
            call.pieces.append(function.arguments)
        self._arguments_size += len(function.name or "") + len(function.arguments or "")
        if self._arguments_size > MAX_ARGUMENTS:
            raise BackendFailed("llm_failed", f"the model's calls have over {MAX_ARGUMENTS >> 10} Ki characters")


class CallIds:
    """Call ids of one session, each of one call: some servers begin to count again in every answer."""

    def __init__(self, new: Callable[[], str]) -> None:
        """`new` makes an id."""
        self._new = new
        self._seen: OrderedDict[str, None] = OrderedDict()

    def assign(self, calls: Sequence[GrowingCall]) -> list[str]:
        """Assign ids to the calls of one answer: the model's, or a new one where another call had it. An equal call in
        the same answer keeps its id, as it is run once.
        """
        made: dict[str, tuple[str, str]] = {}
        ids = []
        for call in calls:
            ident, same = call.id, (call.name, call.arguments)
            if not ident or made.get(ident, same) != same or (ident in self._seen and ident not in made):
                ident = self._new()
            made[ident] = same
            ids.append(ident)
        for ident in made:
            self._seen[ident] = None
            if len(self._seen) > MAX_IDS:
                self._seen.popitem(last=False)
        return ids
