"""Scripted answers for the fake model APIs of tests, independent of any API's format. Pure module."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

CREATED: Final = 1_700_000_000
PIECE: Final = 5
"""Number of characters of text or of arguments in one stream event."""


class ScriptedCall(msgspec.Struct, frozen=True):
    """A scripted call of the model."""

    name: str
    arguments: Mapping[str, Any] | str = {}
    """Text is sent unchanged, even if it is not valid JSON."""
    id: str = ""
    """Id of the call; empty: generated from the call's position."""

    @property
    def text(self) -> str:
        """The arguments as JSON text."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class ScriptedTurn(msgspec.Struct, frozen=True):
    """One scripted answer, or a failure to answer."""

    text: str = ""
    calls: Sequence[ScriptedCall] = ()
    status: int = 200
    """HTTP status; a status other than 200 makes an error response."""
    headers: Mapping[str, str] = {}
    cut: bool = False
    """Whether the stream is closed before its final event."""
    breaks: bool = False
    """Whether the connection is aborted before the final event of the stream, without the regular close."""
    finish_reason: str | None = None
    """Finish reason in the API's words; None: derived from the turn."""
    lingers: bool = False
    """Whether the connection stays open after the end of the stream."""
    hangs: bool = False
    """Whether the API never answers."""
    events: Sequence[str] | None = None
    """Data of the stream's events, sent verbatim in place of everything else."""
    whole: str | None = None
    """Body of the whole answer, sent verbatim in place of everything else."""
    ignores_stream: bool = False
    """Whether the answer is a whole document although a stream was requested, as some compatible servers send it."""
    thoughts: Sequence[str] = ()
    """Signed reasoning before the text, in APIs that return reasoning."""
    items: Sequence[Mapping[str, Any]] = ()
    """Output items of Responses, sent verbatim between reasoning and text."""


def pieces(text: str) -> Iterator[str]:
    """The text in pieces of `PIECE` characters, as a stream delivers it."""
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))
