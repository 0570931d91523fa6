"""Bounds of calls and lists: those of a tool, of every agent, and of what policies leave somebody of a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec


class Bound(Protocol):
    """Numbers of one limit; None for any number."""

    @property
    def calls_per_minute(self) -> int | None: ...

    @property
    def concurrency(self) -> int | None: ...


class Caps(msgspec.Struct, frozen=True):
    """A Bound of the installation, or of a tool."""

    calls_per_minute: int | None = None
    concurrency: int | None = None

    def __bool__(self) -> bool:
        return self.calls_per_minute is not None or self.concurrency is not None


class Quota(msgspec.Struct, frozen=True):
    """Bounds of what one rule set may take up of one namespace's servers. None bounds nothing."""

    namespace: str
    max_tools: int | None = None
    tool_tokens: int | None = None
    calls_per_minute: int | None = None
    concurrency: int | None = None
    result_tokens: int | None = None
    tokens_per_day: int | None = None
    by: Mapping[str, str] = {}
    """Member to the policy that it comes from."""

    @property
    def numbers(self) -> dict[str, int]:
        """Numbers that are set, by their names in a ToolPolicy."""
        return {_camel(member): getattr(self, member) for member in self.by}

    @property
    def no_calls_by(self) -> str | None:
        """ToolPolicy whose `limits.callsPerMinute: 0` lets no call pass; None where some pass."""
        return self.by["calls_per_minute"] if self.calls_per_minute == 0 else None


def _camel(member: str) -> str:
    """`max_tools` as `maxTools`."""
    first, *rest = member.split("_")
    return first + "".join(word.capitalize() for word in rest)
