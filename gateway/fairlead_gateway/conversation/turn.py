"""Types of the choice of a tier: its input (`Turn`), its state, and its outcome (`Choice`).

The types are in a module of their own because `choose` imports RE2, which takes 2 MB, and most gateways never choose a
tier.
"""

from __future__ import annotations

from typing import Final

import msgspec

COMMAND_TURNS: Final = 3
"""Number of turns to which a command applies, including the turn that contains it."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The current turn of a conversation."""

    text: str = ""
    """Transcript so far."""
    final: bool = True
    """Whether the transcript is complete."""
    number: int | None = None
    """Number of the turn from 0. None: continue the last turn if its transcript was incomplete, else begin the next
    turn.
    """
    queue_depth: int = 0
    """Number of requests that wait for an answer."""


class ConversationState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """State of a conversation between two requests. Times are in seconds since the epoch."""

    turn: int = -1
    """Number of the last turn, in which `tier` was chosen."""
    growing: bool = False
    """Whether the transcript of the last turn was incomplete."""
    tier: str | None = None
    commanded: str | None = None
    """Tier that a command asked for, for the turns up to `commanded_until`; None: no command applies."""
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
    """The phrase that decided, in the spelling of the LatencyTier; None if a rule without phrases decided."""
    limit_ms: int | None
