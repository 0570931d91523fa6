"""Servers that a request names, with the tools of each that it wants and those that it approves first. Pure module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from fairlead_offers.catalogs.visible_tools import VisibleTool

Word = Annotated[str, Meta(max_length=256)]
Words = Annotated[tuple[Word, ...], Meta(max_length=64)]


class NamedTools(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Some tools of a server: by name, or those that only read."""

    names: Words = ()
    read_only: bool = False

    def has(self, entry: VisibleTool) -> bool:
        """Whether a tool is one of them."""
        return _is_named(entry, self.names) or (self.read_only and _only_reads(entry))


class ServerWish(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Tools of one server that a request names, and which of their calls are approved before they run."""

    server: Word = ""
    """Empty: of any server."""
    names: Words | None = None
    read_only: bool = False
    asks: bool = False
    """Whether a call is approved first, where `always` and `never` do not say."""
    always: NamedTools | None = None
    never: NamedTools | None = None

    def has(self, entry: VisibleTool) -> bool:
        """Whether a tool is wanted."""
        if self.server and self.server not in (entry.server.name, entry.prefix):
            return False
        return (self.names is None or _is_named(entry, self.names)) and (not self.read_only or _only_reads(entry))

    def approves(self, entry: VisibleTool) -> bool:
        """Whether calls of one of its tools are approved first."""
        if self.never is not None and self.never.has(entry):
            return False
        return self.asks or (self.always is not None and self.always.has(entry))


def wish_for(wishes: Sequence[ServerWish], entry: VisibleTool) -> ServerWish | None:
    """The wish that a tool is wanted by; None where there is none."""
    return next((wish for wish in wishes if wish.has(entry)), None)


def _is_named(entry: VisibleTool, names: Sequence[str]) -> bool:
    return entry.name in names or entry.entry.name in names


def _only_reads(entry: VisibleTool) -> bool:
    return bool((entry.decoded.get("annotations") or {}).get("readOnlyHint"))
