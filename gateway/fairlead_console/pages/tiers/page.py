"""The page `/console/tiers`: latency tiers with the tools that each hides, tools near a limit, and recent moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_console.context import ConsoleContext, NavigationEntry
from fairlead_console.pages.tiers.picture import MovesPicture, moves_picture
from fairlead_console.visible_calls import VisibleCalls
from fairlead_rest.resources.scores import Score
from fairlead_rest.resources.tiermoves import TierMoveList
from fairlead_rest.resources.tiers import TierDocument, TierList

PATH: Final = "/console/tiers"
ENTRY: Final = NavigationEntry("Tiers", PATH, 40)
NEAR_SHARE: Final = 0.8
"""Fraction of a tier's limit from which a tool counts as near the limit."""
FEW, MOST = 8, 50
"""Maximum number of rows of one list while it is collapsed, and while it is expanded."""
MAX_DRAWN: Final = 200
"""Maximum number of moves in the picture."""
SHOWN_MOVES: Final = 25
"""Maximum number of moves in the list."""


class NearMiss(msgspec.Struct, frozen=True):
    """Tool that a tier shows, but whose p95 is close to the limit of the tier."""

    name: str
    p95_ms: float
    share: float
    """Percentage of the limit."""


class ConsoleTier(msgspec.Struct, frozen=True):
    """Latency tier as the console shows it."""

    document: TierDocument
    hidden: list[tuple[str, str]]
    """Hidden tools with the reasons."""
    near: list[NearMiss]


def router(console: ConsoleContext) -> APIRouter:
    """Make the route of the page."""
    routes = APIRouter()

    @routes.get(PATH)
    async def show(request: Request) -> Response:
        visit = console.visit(request)
        tiers, moves = await asyncio.gather(
            visit.api.get("/v1/tiers", TierList),
            visit.api.get("/v1/tier-moves", TierMoveList, {"limit": str(MAX_DRAWN)}),
        )
        names = [tier.name for tier in tiers.tiers]

        def make_rows(statistics: VisibleCalls) -> tuple[list[ConsoleTier], int, MovesPicture | None]:
            rows = [tier_row(tier, statistics.index.tools) for tier in tiers.tiers]
            return rows, len(statistics.index.tools), moves_picture(names, moves.moves, moves.since, moves.until)

        tier_rows, tools, picture = await visit.with_call_statistics(make_rows)
        return await visit.page(
            "tiers/tiers.html",
            tiers=tier_rows,
            decided_at=tiers.decided_at,
            few=FEW,
            most=MOST,
            all=tools,
            moves=moves,
            shown_moves=SHOWN_MOVES,
            drawn=MAX_DRAWN,
            picture=picture,
        )

    return routes


def tier_row(tier: TierDocument, scores: Iterable[Score]) -> ConsoleTier:
    """Make the row of a tier; the tools nearest to its limit come first."""
    limit = tier.max_latency_ms
    near_misses = [
        NearMiss(score.name, score.p95_ms, 100 * score.p95_ms / limit)
        for score in scores
        if limit and score.p95_ms is not None and score.p95_ms >= NEAR_SHARE * limit and score.name not in tier.hidden
    ]
    return ConsoleTier(tier, sorted(tier.hidden.items()), sorted(near_misses, key=lambda near_score: -near_score.share))
