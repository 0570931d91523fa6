"""Types of the choice of a tier: its input (`Turn`), its state, and its outcome (`Choice`).

The types are in a module of their own because `choose` imports RE2, which takes 2 MB, and most gateways never choose a
tier.
"""

from __future__ import annotations

from typing import Final

import msgspec

COMMAND_TURNS: Final = 3
"""Turns to which a command applies, including the turn that has it."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The current turn of a conversation."""

    text: str = ""
    """Transcript so far."""
    final: bool = True
    """Whether the transcript is complete; False while it still grows."""
    number: int | None = None
    """Number of the turn from 0. None continues the turn of the state while its transcript grows, and else begins the
    next one.
    """
    queue_depth: int = 0
    """Number of requests that wait for an answer."""


class ConversationState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """State of a conversation between two requests. Times are in seconds since the epoch."""

    turn: int = -1
    """Number of the last turn, in which `tier` was chosen."""
    growing: bool = False
    """Whether the transcript of that turn was incomplete."""
    tier: str | None = None
    commanded: str | None = None
    """Tier that words of a turn asked for, for the turns up to `commanded_until`."""
    commanded_until: int = -1
    answered: dict[str, float] = {}
    """Time of the last answer in each tier."""
    began: tuple[float, ...] = ()
    """Start times of the last turns."""


class Choice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The tier of the next answer, and why."""

    tier: str
    number: int
    """Number of the turn, from 0."""
    rule: str
    matched: str | None
    """The phrase that decided, as written in the LatencyTier; None if another rule decided."""
    limit_ms: int | None
