"""Computes a picture of tools' moves between tiers, which a template draws as SVG: a lane per tier, an arrow per move,
time from left to right. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from fairlead_rest.resources.tiermoves import TierMoveDocument

WIDTH: Final = 640
LANE: Final = 34
"""Height of a tier's lane."""
LEFT: Final = 96
"""Width of the column with the names of tiers."""
_TOP: Final = 14
_RIGHT: Final = 16
_HEAD: Final = 4
NOWHERE: Final = "in no tier"
MOST_LANES: Final = 12
_MOST_NAME: Final = 12


class PictureLane(msgspec.Struct, frozen=True):
    """Horizontal line of a tier."""

    y: int
    name: str


class MovesPicture(msgspec.Struct, frozen=True):
    """Positions of all parts of a picture of `WIDTH` by `height`."""

    height: int
    lanes: tuple[PictureLane, ...]
    slower: str
    """SVG path of the arrows to slower tiers, which point down."""
    faster: str
    """SVG path of the arrows to faster tiers, which point up."""
    summary: str
    """Text alternative of the picture."""


def moves_picture(
    tiers: Sequence[str], moves: Sequence[TierMoveDocument], since: str, until: str
) -> MovesPicture | None:
    """Make a picture of the moves that change a tool's fastest tier; None if there are no such moves.

    `tiers` has all tiers, the fastest first.
    """
    names = [*tiers[: MOST_LANES - 1], NOWHERE]
    row_of = {name: number for number, name in enumerate(names)}
    lanes = tuple(PictureLane(_TOP + number * LANE, _short(name)) for number, name in enumerate(names))
    start, end = _seconds(since), _seconds(until)
    paths: dict[bool, list[str]] = {True: [], False: []}
    for move in moves:
        old_lane, new_lane = (row_of.get(tier or NOWHERE, len(names) - 1) for tier in (move.before, move.after))
        if old_lane != new_lane:
            share = (_seconds(move.at) - start) / (end - start) if end > start else 1.0
            x = LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - _RIGHT)
            paths[new_lane > old_lane].append(_arrow(x, lanes[old_lane].y, lanes[new_lane].y))
    slower_arrows, faster_arrows = paths[True], paths[False]
    if not slower_arrows and not faster_arrows:
        return None
    summary = f"{len(slower_arrows)} moves to slower tiers, {len(faster_arrows)} to faster tiers"
    return MovesPicture(_TOP + len(names) * LANE + 8, lanes, "".join(slower_arrows), "".join(faster_arrows), summary)


def _arrow(x: float, start: int, end: int) -> str:
    head_offset = -_HEAD if end > start else _HEAD
    return f"M{x:.1f} {start}V{end}m-{_HEAD} {head_offset}l{_HEAD} {-head_offset}l{_HEAD} {head_offset}"


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _short(name: str) -> str:
    return name if len(name) <= _MOST_NAME else name[: _MOST_NAME - 1] + "…"
