"""Parts of a model's message, and of the messages that answer it: calls and results, and what is beside those.

Pure module. Every format says here what a message holds, so that whatever the next format cannot hold is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fairlead_formats.messages.call import ToolResult
from fairlead_formats.messages.drafts import Draft

MAX_LOSSES: Final = 1000
"""Lines of one report about what is beside calls and results."""

TEXT: Final = "text"
THINKING: Final = "thinking"
SERVER_TOOL: Final = "server_tool"
BLOCK: Final = "block"


class Part(msgspec.Struct, frozen=True):
    """One part of a model's message."""

    path: str
    """JSON Pointer (RFC 6901) into the message."""
    what: str
    """`call`, `text`, `thinking`, `server_tool` (a tool that the provider ran itself, or its result), or `block`."""
    text: str = ""
    draft: Draft | None = None
    extras: tuple[str, ...] = ()
    """Members of the part that other formats have no place for."""


class AnswerPart(msgspec.Struct, frozen=True):
    """One part of the messages that answer a model's."""

    path: str
    result: ToolResult | None = None
    """None for what is no result."""
    extras: tuple[str, ...] = ()


def call(path: str, draft: Draft, extras: tuple[str, ...] = ()) -> Part:
    """A call as a part."""
    return Part(path, "call", draft=draft, extras=extras)


def extras(value: object, *known: str) -> tuple[str, ...]:
    """The members of an object beyond the known ones, without those that say nothing: null, empty, false."""
    if not isinstance(value, Mapping):
        return ()
    return tuple(
        str(key)[:64] for key, item in value.items() if key not in known and item not in (None, "", [], {}, False)
    )


def pointed(path: str, entries: Iterable[object]) -> list[tuple[str, object]]:
    """The entries of a list, each with its path."""
    return [(f"{path}/{place}", entry) for place, entry in enumerate(entries)]
