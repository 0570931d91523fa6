"""Tools that a request chooses by server (the `mcp` tools of a Responses request): which tools to offer, and which of
their calls need the client's approval. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from fairlead_offers.catalogs.visible_tools import VisibleTool

Word = Annotated[str, Meta(max_length=256)]
Words = Annotated[tuple[Word, ...], Meta(max_length=64)]


class NamedTools(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Set of tools of a server: tools with certain names, and optionally all read-only tools."""

    names: Words = ()
    read_only: bool = False

    def has(self, entry: VisibleTool) -> bool:
        """Whether a tool is in the set."""
        return _is_named(entry, self.names) or (self.read_only and _is_read_only(entry))


class ServerToolChoice(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Tools of one server that a request chooses, and which of their calls need the client's approval."""

    server: Word = ""
    """Name or prefix of the server; empty: any server."""
    names: Words | None = None
    read_only: bool = False
    asks: bool = False
    """Whether calls of a tool need approval if neither `always` nor `never` has the tool."""
    always: NamedTools | None = None
    """Tools whose calls need approval."""
    never: NamedTools | None = None
    """Tools whose calls need no approval."""

    def has(self, entry: VisibleTool) -> bool:
        """Whether the choice includes a tool."""
        if self.server and self.server not in (entry.server.name, entry.prefix):
            return False
        return (self.names is None or _is_named(entry, self.names)) and (not self.read_only or _is_read_only(entry))

    def needs_approval(self, entry: VisibleTool) -> bool:
        """Whether calls of an included tool need the client's approval."""
        if self.never is not None and self.never.has(entry):
            return False
        return self.asks or (self.always is not None and self.always.has(entry))


def choice_for(choices: Sequence[ServerToolChoice], entry: VisibleTool) -> ServerToolChoice | None:
    """First choice that includes a tool; None if no choice includes it."""
    return next((choice for choice in choices if choice.has(entry)), None)


def _is_named(entry: VisibleTool, names: Sequence[str]) -> bool:
    return entry.name in names or entry.entry.shown_name in names


def _is_read_only(entry: VisibleTool) -> bool:
    return bool((entry.decoded_definition.get("annotations") or {}).get("readOnlyHint"))
