"""Assembly of calls from the events of a stream.

Pure module: the caller reads the stream and feeds its events in order. Unreadable events are ignored. A call that the
stream does not finish is returned by `close`; it is invalid if its arguments are truncated. Some servers repeat or omit
ids, so `begins_new_call` tells calls apart by their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import msgspec

from fairlead_formats.messages.call import (
    CUSTOM,
    CUT_OFF,
    MAX_ARGUMENT_BYTES,
    MAX_CALLS,
    Draft,
    InvalidCall,
    ModelCall,
    finish,
    freeform,
)
from fairlead_formats.names import Names

_decode = msgspec.json.Decoder().decode


class Assembler(Protocol):
    """Assembles the calls of one streamed message."""

    def feed(self, event: object) -> list[ModelCall]:
        """The calls that this event completes. `event` is decoded JSON, or the data of a server-sent event as text.
        Never raises for its content.
        """

    def close(self) -> list[ModelCall]:
        """The calls that the stream did not finish. To be called after the end of the stream or after a connection
        error.
        """


class PartialCall:
    """One unfinished call of a stream. The size of its arguments is limited."""

    __slots__ = ("_chunks", "id", "kind", "name", "parse_attempts", "size", "whole")

    def __init__(self, ident: object = None, name: object = None, kind: str = "") -> None:
        self.id = ident
        self.name = name
        self.kind = kind
        self.whole: object = None
        """Arguments that arrived complete; they take precedence over the appended pieces."""
        self._chunks: list[str] = []
        self.size = self.parse_attempts = 0

    def append(self, chunk: object) -> None:
        """Append a piece of the arguments' JSON text; a value of another type is ignored."""
        if isinstance(chunk, str) and chunk and self.size <= MAX_ARGUMENT_BYTES:
            self._chunks.append(chunk)
            self.size += len(chunk)

    @property
    def empty(self) -> bool:
        """Whether no piece of the arguments has arrived."""
        return not self._chunks

    @property
    def text(self) -> str:
        """The arguments received so far."""
        return "".join(self._chunks)

    def draft(self) -> Draft:
        """The unchecked call with the arguments received so far."""
        if self.size > MAX_ARGUMENT_BYTES:
            return Draft(self.id, self.name, None, self.kind, f"the arguments exceed {MAX_ARGUMENT_BYTES} characters")
        text = self.text
        arguments = text if self.whole is None else self.whole
        return Draft(self.id, self.name, freeform(arguments) if self.kind == CUSTOM else arguments, self.kind)


class CallBuilder:
    """Turns the partial calls of one stream into calls. Ids and positions are unique in the stream."""

    def __init__(self, names: Names | None) -> None:
        self._names = names
        self._seen_ids: set[str] = set()
        self.count = 0

    def call(self, partial: PartialCall, *, cut_off: bool = False) -> ModelCall:
        """The call from a partial call. `cut_off`: whether the stream did not mark the call as complete."""
        call = self.complete_call(partial.draft())
        if cut_off and call.name and (not call.valid or (partial.empty and not partial.whole)):
            text = call.arguments.text if isinstance(call.arguments, InvalidCall) else ""
            return msgspec.structs.replace(call, arguments=InvalidCall(CUT_OFF, text))
        return call

    def complete_call(self, draft: Draft) -> ModelCall:
        """The call from a draft that arrived complete in one event."""
        call = finish([draft], self._names, start=self.count)[0]
        self.count += 1
        if call.id in self._seen_ids:
            reason = f"the id {call.id!r} belongs to an earlier call of this message; repeat the call with another id"
            call = msgspec.structs.replace(call, arguments=InvalidCall(reason))
        self._seen_ids.add(call.id)
        return call

    def has_seen(self, ident: object) -> bool:
        """Whether a call with this id was returned before."""
        return ident in self._seen_ids


def event_of(event: object) -> Any:
    """The decoded event; None for text that is not JSON, such as `[DONE]`."""
    if not isinstance(event, str | bytes):
        return event
    try:
        return _decode(event)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def is_done(event: object) -> bool:
    """Whether the event is the end marker of Chat Completions streams."""
    return isinstance(event, str | bytes) and event.strip() in ("[DONE]", b"[DONE]")


def has_room(partials: dict[Any, PartialCall]) -> bool:
    """Whether another partial call may be added. The limit keeps a stream that begins calls without end from filling
    memory.
    """
    return len(partials) < 2 * MAX_CALLS


class WholeAssembler:
    """Assembler of streams whose events hold whole calls."""

    def __init__(self, drafts: Callable[[object], Iterable[Draft]], names: Names | None = None) -> None:
        self._builder = CallBuilder(names)
        self._drafts = drafts

    def feed(self, event: object) -> list[ModelCall]:
        return [self._builder.complete_call(draft) for draft in self._drafts(event_of(event))]

    def close(self) -> list[ModelCall]:
        return []


class BlockAssembler:
    """Assembler of streams that start, extend and stop blocks by index (Anthropic, Bedrock).

    A call is complete when its block stops. A call without arguments is held until a later event shows that the message
    was not cut off there.
    """

    def __init__(self, names: Names | None = None) -> None:
        self._builder = CallBuilder(names)
        self._partials: dict[int, PartialCall] = {}
        self._held_call: PartialCall | None = None
        """The last call, without arguments, until it is known whether the message was truncated."""

    def close(self) -> list[ModelCall]:
        held_calls = self._release(truncated=False)  # the block was complete, and no stop reason said otherwise
        open_blocks = [self._partials[index] for index in sorted(self._partials)]
        self._partials.clear()
        return [*held_calls, *(self._builder.call(_prefer_deltas(partial), cut_off=True) for partial in open_blocks)]

    def _release(self, *, truncated: bool) -> list[ModelCall]:
        """Return the held call, if there is one. `truncated`: whether the message may lack its end."""
        call, self._held_call = self._held_call, None
        return [] if call is None else [self._builder.call(call, cut_off=truncated)]

    def _start(self, index: int, call: PartialCall | None) -> list[ModelCall]:
        """Start a block. An unfinished block of the same index ends here."""
        calls = [*self._release(truncated=False), *self._stop(index, cut_off=True)]
        if call is not None and has_room(self._partials):
            self._partials[index] = call
        return calls

    def _append_piece(self, index: int, chunk: object) -> list[ModelCall]:
        if index in self._partials:
            self._partials[index].append(chunk)
        return []

    def _stop(self, index: int, *, cut_off: bool = False) -> list[ModelCall]:
        partial = self._partials.pop(index, None)
        if partial is None:
            return []
        if not cut_off and partial.empty and not partial.whole:
            released = self._release(truncated=False)
            self._held_call = partial
            return released
        return [self._builder.call(_prefer_deltas(partial), cut_off=cut_off)]


def _prefer_deltas(partial: PartialCall) -> PartialCall:
    """Drop the `input` from the start of the block if deltas followed. Providers send `{}` at the start; only some
    gateways send the whole input there.
    """
    if not partial.empty:
        partial.whole = None
    return partial


MAX_PARSE_ATTEMPTS: Final = 16
"""Maximum number of times that one call's arguments are parsed. `begins_new_call` parses them at each name, and some
servers repeat the name with each piece.
"""
MAX_PARSED_CHARACTERS: Final = 1 << 16
"""Maximum number of characters of arguments that are parsed."""
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class UnfinishedCall(Protocol):
    """One unfinished call of a stream."""

    parse_attempts: int
    """How often the arguments were parsed to find out whether they are complete; 0 at first."""

    @property
    def text(self) -> str:
        """The arguments received so far."""
        ...

    @property
    def size(self) -> int:
        """Number of characters of `text`."""
        ...


def begins_new_call(call: UnfinishedCall, arguments: object) -> bool:
    """Whether a delta with a name begins another call although it has the id and index of `call`. A delta with
    arguments does, if the arguments of `call` are complete JSON already.
    """
    if not arguments or (isinstance(arguments, str) and not arguments.strip()):
        return False
    if not call.size or call.size > MAX_PARSED_CHARACTERS or call.parse_attempts >= MAX_PARSE_ATTEMPTS:
        return False
    call.parse_attempts += 1
    try:
        _members(call.text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True
