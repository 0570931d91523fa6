"""Calls put together from the events of a stream, as they become complete.

Pure module: the caller reads the stream and feeds its events, in order. An event that cannot be read is passed over: a
stream holds much that is not about calls. A call that the stream does not finish comes out at `close`, invalid where
its arguments are cut off. Calls are told apart by more than their ids (`begins_new_call`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import msgspec

from fairlead_formats.messages.call import (
    CUSTOM,
    MAX_ARGUMENT_BYTES,
    MAX_CALLS,
    Draft,
    InvalidCall,
    ModelCall,
    finish,
    freeform,
)
from fairlead_formats.names import Names

CUT_OFF: Final = "the message ended before the arguments did"
_decode = msgspec.json.Decoder().decode


class Assembler(Protocol):
    """Puts the calls of one message together."""

    def feed(self, event: object) -> list[ModelCall]:
        """The calls that are complete with this event: decoded JSON, or the data of a server-sent event as text.
        Never raises for what an event holds.
        """

    def close(self) -> list[ModelCall]:
        """The calls that the stream did not finish. Also for a stream that broke off."""


class Partial:
    """One call of a stream that is not complete. Its arguments are bounded while they grow."""

    __slots__ = ("_chunks", "id", "kind", "name", "parse_attempts", "size", "whole")

    def __init__(self, ident: object = None, name: object = None, kind: str = "") -> None:
        self.id = ident
        self.name = name
        self.kind = kind
        self.whole: object = None
        """Arguments that came in one piece; they take precedence over the chunks."""
        self._chunks: list[str] = []
        self.size = self.parse_attempts = 0

    def append(self, chunk: object) -> None:
        """Take a piece of the arguments' JSON text; a value of another type is passed over."""
        if isinstance(chunk, str) and chunk and self.size <= MAX_ARGUMENT_BYTES:
            self._chunks.append(chunk)
            self.size += len(chunk)

    @property
    def empty(self) -> bool:
        """Whether no piece of the arguments came."""
        return not self._chunks

    @property
    def text(self) -> str:
        """The pieces of the arguments so far."""
        return "".join(self._chunks)

    def draft(self) -> Draft:
        """The pieces so far, as a call of a message."""
        if self.size > MAX_ARGUMENT_BYTES:
            return Draft(self.id, self.name, None, self.kind, f"the arguments exceed {MAX_ARGUMENT_BYTES} characters")
        text = self.text
        given = text if self.whole is None else self.whole
        return Draft(self.id, self.name, freeform(given) if self.kind == CUSTOM else given, self.kind)


class Ready:
    """Makes calls of complete partials, with ids and positions counted over the whole stream."""

    def __init__(self, names: Names | None) -> None:
        self._names = names
        self._seen: set[str] = set()
        self.count = 0

    def call(self, partial: Partial, *, cut_off: bool = False) -> ModelCall:
        """The call. `cut_off`: the stream did not say that it is complete."""
        call = self.whole(partial.draft())
        if cut_off and call.name and (not call.valid or (partial.empty and not partial.whole)):
            text = call.arguments.text if isinstance(call.arguments, InvalidCall) else ""
            return msgspec.structs.replace(call, arguments=InvalidCall(CUT_OFF, text))
        return call

    def whole(self, draft: Draft) -> ModelCall:
        """The call of a draft that is complete."""
        call = finish([draft], self._names, start=self.count)[0]
        self.count += 1
        if call.id in self._seen:
            reason = f"the id {call.id!r} is that of an earlier call of this message; repeat the call with another"
            call = msgspec.structs.replace(call, arguments=InvalidCall(reason))
        self._seen.add(call.id)
        return call

    def has_seen(self, ident: object) -> bool:
        """Whether a call with this id was returned already."""
        return ident in self._seen


def event_of(event: object) -> Any:
    """The decoded event; None for text that is not JSON, such as `[DONE]`."""
    if not isinstance(event, str | bytes):
        return event
    try:
        return _decode(event)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def is_done(event: object) -> bool:
    """The end mark of OpenAI's Chat streams."""
    return isinstance(event, str | bytes) and event.strip() in ("[DONE]", b"[DONE]")


def has_room(partials: dict[Any, Partial]) -> bool:
    """Whether one more call may be put together: a stream of openings must not fill the memory."""
    return len(partials) < 2 * MAX_CALLS


class WholeAssembler:
    """For streams whose events hold whole calls."""

    def __init__(self, drafts: Callable[[object], Iterable[Draft]], names: Names | None = None) -> None:
        self._ready = Ready(names)
        self._drafts = drafts

    def feed(self, event: object) -> list[ModelCall]:
        return [self._ready.whole(draft) for draft in self._drafts(event_of(event))]

    def close(self) -> list[ModelCall]:
        return []


class BlockAssembler:
    """Assembler of streams that open, grow and close blocks by index (Anthropic, Bedrock): a call is complete when its
    block stops.
    """

    def __init__(self, names: Names | None = None) -> None:
        self._ready = Ready(names)
        self._partials: dict[int, Partial] = {}

    def close(self) -> list[ModelCall]:
        left = [self._partials[index] for index in sorted(self._partials)]
        self._partials.clear()
        return [self._ready.call(_settle(partial), cut_off=True) for partial in left]

    def _start(self, index: int, call: Partial | None) -> list[ModelCall]:
        """Open a block; an earlier block of the same index that never stopped ends here."""
        ended = self._stop(index, cut_off=True)
        if call is not None and has_room(self._partials):
            self._partials[index] = call
        return ended

    def _grow(self, index: int, chunk: object) -> list[ModelCall]:
        if index in self._partials:
            self._partials[index].append(chunk)
        return []

    def _stop(self, index: int, *, cut_off: bool = False) -> list[ModelCall]:
        partial = self._partials.pop(index, None)
        return [] if partial is None else [self._ready.call(_settle(partial), cut_off=cut_off)]


def _settle(partial: Partial) -> Partial:
    """Drop the `input` of the block's start where deltas followed: it is `{}` in the API, and complete only on some
    gateways.
    """
    if not partial.empty:
        partial.whole = None
    return partial


MAX_PARSE_ATTEMPTS: Final = 16
"""How often the arguments of one call are looked at: a server may repeat the name of a call with each piece of it."""
MAX_PARSED_CHARACTERS: Final = 1 << 16
"""Characters of arguments that are looked at."""
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class UnfinishedCall(Protocol):
    """One call of a stream that is not complete yet."""

    parse_attempts: int
    """How often its arguments were looked at; 0 in the beginning."""

    @property
    def text(self) -> str:
        """The pieces of its arguments so far."""
        ...

    @property
    def size(self) -> int:
        """Characters of these pieces."""
        ...


def begins_new_call(call: UnfinishedCall, arguments: object) -> bool:
    """Whether a delta with a name begins another call, although its id and index do not say so: it brings arguments,
    and those of the call before are complete JSON.
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
