"""The page `/console/scores`: measured latency of tools, and leaderboards by category."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from fairlead_console.context import ConsoleContext, NavigationEntry
from fairlead_console.paging import part_of
from fairlead_console.score_cache import ScoreIndex
from fairlead_console.visible_calls import VisibleCalls
from fairlead_offers.plan.prediction import UNKNOWN
from fairlead_rest.resources.scores import BADGES, SLOW, Leaderboard, Score

PATH: Final = "/console/scores"
ENTRY: Final = NavigationEntry("Scores", PATH, 70)
PER_PAGE: Final = 50
"""Tools per page of the list."""
FEW_RANKS, MOST_RANKS = 5, 50
"""Maximum number of shown ranks of a category: beside other categories, and if only this category is shown."""
MAX_BOARDS: Final = 12


def router(console: ConsoleContext) -> APIRouter:
    """Make the route of the page."""
    routes = APIRouter()

    @routes.get(PATH)
    async def show(request: Request) -> Response:
        visit = console.visit(request)
        category = request.query_params.get("category", "")

        def select_scores(statistics: VisibleCalls) -> tuple[ScoreIndex, list[Leaderboard], list[Score]]:
            index = statistics.index
            shown_boards = [board for board in index.boards if category in ("", board.category)]
            return index, shown_boards, [score for score in index.tools if category in ("", *score.categories)]

        index, shown_boards, tools = await visit.with_call_statistics(select_scores)
        known_scores = [score for score in tools if score.basis != UNKNOWN]
        return await visit.page(
            "scores/scores.html",
            part=part_of(known_scores, request, PER_PAGE),
            boards=shown_boards[:MAX_BOARDS],
            more=max(0, len(shown_boards) - MAX_BOARDS),
            ranks=MOST_RANKS if category else FEW_RANKS,
            category=category,
            categories=[board.category for board in index.boards],
            badges=[(name, index.badges[name]) for name in (*(name for _, name in BADGES), SLOW)],
            unmeasured=index.badges[None],
            measured=len(index.tools) - index.badges[None],
            without=[score for score in tools if score.basis == UNKNOWN],
            most=PER_PAGE,
        )

    return routes
