"""Records moves of tools between latency tiers, from the differences of consecutive snapshots.

The operator decides about tiers. Each gateway process records the moves since its own start, up to a limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_api.documents.state import ToolState
from fairlead_api.floors import Floors
from fairlead_api.slices import SLICE
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.server import Tool, ToolRef
from fairlead_gateway.policy.tiers import by_speed, why_hidden

MAX_MOVES: Final = 500
"""Maximum number of stored moves; with the limits below they take less than 1 MB."""
MAX_TIERS: Final = 16
"""Maximum number of tiers that one move names."""
MAX_CHARACTERS: Final = 256
"""Maximum number of characters of a tool's name, of a tier's name, and of a reason."""


class TierMove(msgspec.Struct, frozen=True):
    """A change of the tiers that show a tool."""

    at: str
    """When this process began to serve the change (RFC 3339)."""
    tool: ToolRef
    left: tuple[str, ...]
    """Tiers that no longer show the tool, fastest first."""
    entered: tuple[str, ...]
    """Tiers that newly show the tool, fastest first."""
    before: str | None
    """The fastest tier that showed the tool before; None if no tier showed it."""
    after: str | None
    """The fastest tier that shows the tool now; None if no tier shows it."""
    reason: str
    """Why the tool left the fastest tier in `left`; if it left no tier, why it entered the fastest tier in `entered`.
    Empty if unknown."""


class TierMoves:
    """The last moves, oldest first. Must be used only in the gateway's event loop."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC), limit: int = MAX_MOVES) -> None:
        self._now = now
        self._moves: deque[TierMove] = deque(maxlen=limit)
        self._since = self._timestamp()

    @property
    def since(self) -> str:
        """Time from which all moves are stored (RFC 3339): the start of the process, or the time of the oldest stored
        move.
        """
        return self._since if len(self._moves) < (self._moves.maxlen or 0) else self._moves[0].at

    @property
    def all(self) -> Sequence[TierMove]:
        """Copy of all stored moves, oldest first."""
        return tuple(self._moves)

    def on_swap(self, before: Snapshot, after: Snapshot) -> Generator[None, None, None]:
        """Record the moves between two consecutive snapshots, in slices."""
        at = self._timestamp()
        for move in (yield from moves_between(before, after, at)):
            self._moves.append(move)

    def _timestamp(self) -> str:
        return self._now().isoformat(timespec="milliseconds")


def moves_between(before: Snapshot, after: Snapshot, at: str) -> Generator[None, None, list[TierMove]]:
    """Find the moves between two snapshots, for the tools and tiers that both have."""
    moves: list[TierMove] = []
    tiers_before = {tier.name: tier for tier in before.rules.tiers}
    tiers = [(tiers_before[tier.name], tier) for tier in by_speed(after.rules.tiers) if tier.name in tiers_before]
    same_rules = before.rules.tiers == after.rules.tiers
    floors = Floors(before.rules.tiers), Floors(after.rules.tiers)
    for key, server in after.servers.items():
        server_before = before.servers.get(key)
        if server_before is None:
            continue
        tools_before = {tool.name: tool for tool in server_before.tools}
        states = before.states.get(key, {}), after.states.get(key, {})
        for number, tool in enumerate(server.tools):
            if number % SLICE == SLICE - 1:
                yield
            tool_before = tools_before.get(tool.name)
            state_before, state = states[0].get(tool.name), states[1].get(tool.name)
            is_unchanged = (
                same_rules and tool_before is tool and _deciding_tiers(state_before) == _deciding_tiers(state)
            )
            if tool_before is None or is_unchanged:
                continue
            old_tiers = [tier.name for tier, _ in tiers if _shows(tier, tool_before, state_before, floors[0])]
            new_tiers = [tier.name for _, tier in tiers if _shows(tier, tool, state, floors[1])]
            if old_tiers != new_tiers:
                moves.append(
                    _move(
                        at,
                        tool,
                        state,
                        old_tiers,
                        new_tiers,
                        reasons={tier.name: why_hidden(tier, tool, state, floors[1].of(tool)) for _, tier in tiers},
                    )
                )
        yield
    return moves


def _deciding_tiers(state: ToolState | None) -> tuple[str, ...] | None:
    return None if state is None else state.tiers


def _shows(tier: Tier, tool: Tool, state: ToolState | None, floors: Floors) -> bool:
    return why_hidden(tier, tool, state, floors.of(tool)) is None


def _move(
    at: str,
    tool: Tool,
    state: ToolState | None,
    old_tiers: list[str],
    new_tiers: list[str],
    reasons: dict[str, str | None],
) -> TierMove:
    left = tuple(tier for tier in old_tiers if tier not in new_tiers)
    entered = tuple(tier for tier in new_tiers if tier not in old_tiers)
    fits = {} if state is None else state.fits
    reason = reasons[left[0]] if left else fits.get(entered[0])
    return TierMove(
        at,
        tool.ref,
        left[:MAX_TIERS],
        entered[:MAX_TIERS],
        next(iter(old_tiers), None),
        next(iter(new_tiers), None),
        (reason or "")[:MAX_CHARACTERS],
    )
