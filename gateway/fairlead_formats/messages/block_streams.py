"""Streams that open, grow and close blocks by index, as Anthropic's and Bedrock's do.

Pure module.
"""

from __future__ import annotations

from fairlead_formats.messages.call import ModelCall
from fairlead_formats.messages.streams import Partial, Ready, room
from fairlead_formats.names import Names


class BlockAssembler:
    """Calls come out as their blocks stop."""

    def __init__(self, names: Names | None = None) -> None:
        self._ready = Ready(names)
        self._partials: dict[int, Partial] = {}

    def close(self) -> list[ModelCall]:
        left = [self._partials[index] for index in sorted(self._partials)]
        self._partials.clear()
        return [self._ready.call(_settled(partial), cut_off=True) for partial in left]

    def _start(self, index: int, call: Partial | None) -> list[ModelCall]:
        """A block of an index that never stopped ends with the next of the same index."""
        ended = self._stop(index, cut_off=True)
        if call is not None and room(self._partials):
            self._partials[index] = call
        return ended

    def _grow(self, index: int, chunk: object) -> list[ModelCall]:
        if index in self._partials:
            self._partials[index].append(chunk)
        return []

    def _stop(self, index: int, *, cut_off: bool = False) -> list[ModelCall]:
        partial = self._partials.pop(index, None)
        return [] if partial is None else [self._ready.call(_settled(partial), cut_off=cut_off)]


def _settled(partial: Partial) -> Partial:
    """The `input` of the start counts only where nothing followed: it is `{}` by rule, whole on some gateways."""
    if not partial.empty:
        partial.whole = None
    return partial
