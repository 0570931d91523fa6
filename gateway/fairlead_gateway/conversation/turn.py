"""Input, state and output of the choice of a tier.

Declarations only; apart from `choose` because RE2, which the choice needs, takes 2 MB, and most gateways never choose.
"""

from __future__ import annotations

from typing import Final

import msgspec

COMMAND_TURNS: Final = 3
"""Turns that a command holds for, the one it was given in included."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The turn in progress, as far as it is known."""

    text: str = ""
    """Transcript so far."""
    final: bool = True
    """False: the transcript still grows."""
    number: int | None = None
    """Counts the turns of the conversation from 0. None: as the state says, the same while its transcript grows, else
    the next.
    """
    queue_depth: int = 0
    """Requests that wait for an answer."""


class ConversationState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """State of a conversation between two requests. Times are seconds of the wall clock."""

    turn: int = -1
    """The turn that `tier` was chosen in."""
    growing: bool = False
    """Whether the transcript of that turn was not final."""
    tier: str | None = None
    commanded: str | None = None
    commanded_until: int = -1
    """The last turn that the command holds for."""
    answered: dict[str, float] = {}
    """Tier to when it was last answered in."""
    began: tuple[float, ...] = ()
    """When the last turns began."""


class Choice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The tier of the next answer, and why."""

    tier: str
    number: int
    """The turn that it was chosen for, from 0."""
    rule: str
    matched: str | None
    """The phrase that decided, as it stands in the LatencyTier."""
    limit_ms: int | None
