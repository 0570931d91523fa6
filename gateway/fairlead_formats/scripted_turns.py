"""Turns of a script, in no API's form. Pure module."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

CREATED: Final = 1_700_000_000
PIECE: Final = 5
"""Characters of a text or of arguments in one event."""


class ScriptedCall(msgspec.Struct, frozen=True):
    """A call that the model makes."""

    name: str
    arguments: Mapping[str, Any] | str = {}
    """A text stands as it is, valid or not."""
    id: str = ""
    """Made from its place without one."""

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class ScriptedTurn(msgspec.Struct, frozen=True):
    """One answer."""

    text: str = ""
    calls: Sequence[ScriptedCall] = ()
    status: int = 200
    """Other than 200: an error with that status."""
    headers: Mapping[str, str] = {}
    cut: bool = False
    """The stream ends before its end is said."""
    breaks: bool = False
    """The connection breaks there, and is not closed as one that has said all."""
    finish_reason: str | None = None
    """In the API's words; by what there is, without one."""
    lingers: bool = False
    """The connection stays open behind the stream's end."""
    hangs: bool = False
    """No answer comes."""
    events: Sequence[str] | None = None
    """Data of the stream's events word for word, in place of all else."""
    whole: str | None = None
    """Whole answer word for word, in place of all else."""
    thoughts: Sequence[str] = ()
    """Thoughts of the model before it speaks, signed, in APIs that show them."""
    items: Sequence[Mapping[str, Any]] = ()
    """Output items word for word, behind the thoughts and in front of the text, in Responses."""


def pieces(text: str) -> Iterator[str]:
    """The text as it comes in a stream."""
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))
