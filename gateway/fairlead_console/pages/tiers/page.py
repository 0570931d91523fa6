"""The page `/console/tiers`."""

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
NEAR: Final = 0.8
"""Part of a limit from which a tool that is shown counts as near it."""
FEW, MOST = 8, 50
"""Rows of one list that are shown at once, and when it is opened; the others are counted."""
DRAWN: Final = 200
"""Moves of the picture."""
TOLD: Final = 25
"""Moves of the list."""


class NearMiss(msgspec.Struct, frozen=True):
    """A tool that a tier shows, and that is close to its limit."""

    name: str
    p95_ms: float
    share: float
    """Part of the limit, in percent."""


class ConsoleTier(msgspec.Struct, frozen=True):
    """One tier."""

    document: TierDocument
    hidden: list[tuple[str, str]]
    """Tool, and the reason why it is not shown."""
    near: list[NearMiss]


def router(console: ConsoleContext) -> APIRouter:
    """The route of the page."""
    routes = APIRouter()

    @routes.get(PATH)
    async def show(request: Request) -> Response:
        visit = console.visit(request)
        tiers, moves = await asyncio.gather(
            visit.api.get("/v1/tiers", TierList), visit.api.get("/v1/tier-moves", TierMoveList, {"limit": str(DRAWN)})
        )
        names = [tier.name for tier in tiers.tiers]

        def pictured(now: VisibleCalls) -> tuple[list[ConsoleTier], int, MovesPicture | None]:
            rows = [tier_row(tier, now.index.tools) for tier in tiers.tiers]
            return rows, len(now.index.tools), moves_picture(names, moves.moves, moves.since, moves.until)

        shown, tools, picture = await visit.with_figures(pictured)
        return await visit.page(
            "tiers/tiers.html",
            tiers=shown,
            decided_at=tiers.decided_at,
            few=FEW,
            most=MOST,
            all=tools,
            moves=moves,
            told=TOLD,
            drawn=DRAWN,
            picture=picture,
        )

    return routes


def tier_row(tier: TierDocument, scores: Iterable[Score]) -> ConsoleTier:
    """One tier, with the tools nearest to its limit first."""
    limit = tier.max_latency_ms
    near = [
        NearMiss(score.name, score.p95_ms, 100 * score.p95_ms / limit)
        for score in scores
        if limit and score.p95_ms is not None and score.p95_ms >= NEAR * limit and score.name not in tier.hidden
    ]
    return ConsoleTier(tier, sorted(tier.hidden.items()), sorted(near, key=lambda near_score: -near_score.share))
