"""Limits on calls and on lists of tools: for one tool, for each agent, or for a policy's subject in a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec


class Bound(Protocol):
    """Limits on the calls per minute, and on concurrent calls; None means unlimited."""

    @property
    def calls_per_minute(self) -> int | None: ...

    @property
    def concurrency(self) -> int | None: ...


class Caps(msgspec.Struct, frozen=True):
    """Limits of one tool, or of each agent of the installation."""

    calls_per_minute: int | None = None
    concurrency: int | None = None

    def __bool__(self) -> bool:
        return self.calls_per_minute is not None or self.concurrency is not None


class Quota(msgspec.Struct, frozen=True):
    """Limits of one rule set for the servers of one namespace. None means unlimited.

    A rule set consists of all policies that apply to a subject.
    """

    namespace: str
    max_tools: int | None = None
    """Number of tools in a list."""
    tool_tokens: int | None = None
    """Tokens that the definitions in a list take up in a model's context."""
    calls_per_minute: int | None = None
    concurrency: int | None = None
    """Number of calls in flight."""
    result_tokens: int | None = None
    """Tokens of one tool result."""
    tokens_per_day: int | None = None
    """Input and output tokens of models per UTC day."""
    policies: Mapping[str, str] = {}
    """Names of the policies that set the limits, by attribute."""

    @property
    def numbers(self) -> dict[str, int]:
        """The limits that are set, by their names in a ToolPolicy."""
        return {_camel(member): getattr(self, member) for member in self.policies}

    @property
    def policy_without_calls(self) -> str | None:
        """Name of the ToolPolicy that forbids all calls by `limits.callsPerMinute: 0`; None if calls are possible."""
        return self.policies["calls_per_minute"] if self.calls_per_minute == 0 else None


def _camel(member: str) -> str:
    """Convert a name such as `max_tools` to `maxTools`."""
    first, *others = member.split("_")
    return first + "".join(word.capitalize() for word in others)
