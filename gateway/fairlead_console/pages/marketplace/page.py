"""The page `/console/marketplace`."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from fastapi import APIRouter, Request, Response

from fairlead_console.context import ConsoleContext, NavigationEntry
from fairlead_console.paging import part_of
from fairlead_rest.resources.scores import BADGES, SLOW, Leaderboards, Scores

PATH: Final = "/console/marketplace"
ENTRY: Final = NavigationEntry("Marketplace", PATH, 70)
EACH: Final = 50
"""Tools of one part of the list."""
MOST_RANKS: Final = 20
"""Ranks of one category that are shown."""
MOST_BOARDS: Final = 12


def router(console: ConsoleContext) -> APIRouter:
    """The route of the page."""
    routes = APIRouter()

    @routes.get(PATH)
    async def show(request: Request) -> Response:
        visit = console.visit(request)
        scores, boards = await asyncio.gather(
            visit.api.get("/v1/scores", Scores), visit.api.get("/v1/leaderboard", Leaderboards)
        )
        category = request.query_params.get("category", "")
        shown = [board for board in boards.boards if category in ("", board.category)]
        counted = Counter(score.badge for score in scores.tools)
        tools = [score for score in scores.tools if category in ("", *score.categories)]
        return await visit.page(
            "marketplace/scores.html", part=part_of(tools, request, EACH), boards=shown[:MOST_BOARDS],
            more=max(0, len(shown) - MOST_BOARDS), ranks=MOST_RANKS, category=category,
            categories=[board.category for board in boards.boards],
            badges=[(name, counted[name]) for name in (*(name for _, name in BADGES), SLOW)], unmeasured=counted[None],
        )  # fmt: skip

    return routes
