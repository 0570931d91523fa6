"""REST resource `GET /v1/tier-moves`: tools that left or entered latency tiers, with time and reason, as the answering
replica observed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_gateway.policy.tier_moves import MAX_MOVES, TierMove, TierMoves
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_rest.context import RestContext
from fairlead_rest.examples import plans as examples
from fairlead_rest.openapi import describe_route
from fairlead_tools.names import tool_id

DEFAULT_LIMIT: Final = 100


class TierMoveDocument(msgspec.Struct, frozen=True):
    """Change of the tiers that show a tool."""

    at: str
    """Time at which the replica began to serve the decision (RFC 3339)."""
    tool: str
    """Name of the tool on `/mcp`, or its id if `/mcp` does not have the tool."""
    server: str
    """Server as `namespace/name`."""
    left: list[str]
    """Tiers that no longer show the tool, the fastest first."""
    entered: list[str]
    """Tiers that show the tool since the decision, the fastest first."""
    before: str | None
    """Fastest tier that showed the tool before; null if no tier did."""
    after: str | None
    """Fastest tier that shows the tool now; null if no tier does."""
    reason: str
    """Reason with measurements, as in `hidden` of a tier; empty if unknown."""


class TierMoveList(msgspec.Struct, frozen=True):
    """Moves of tools that the principal may see, newest first."""

    since: str
    """Start of the replica, or the time of the oldest stored move once the replica stores the maximum of 500 moves
    (RFC 3339). The list has no moves before this time."""
    until: str
    """Time of the request (RFC 3339)."""
    total: int
    """Number of moves since `since`, including those beyond `limit`."""
    moves: list[TierMoveDocument]


def router(context: RestContext) -> APIRouter:
    """Make the route of `/v1/tier-moves`."""
    routes = APIRouter(prefix="/v1", tags=["tiers"])

    @routes.get("/tier-moves", **describe_route("List moves between tiers", TierMoveList, examples.TIER_MOVES))
    async def list_moves(
        request: Request, limit: Annotated[int, Query(ge=1, le=MAX_MOVES)] = DEFAULT_LIMIT
    ) -> Response:
        catalog = context.catalog(request)
        return await context.answer(lambda: moves_for(catalog, context.administration.moves, limit))

    return routes


def moves_for(catalog: SubjectCatalog, moves: TierMoves, limit: int) -> TierMoveList:
    """Moves of tools that a subject may see. Must not be called in the event loop."""
    since, until = moves.since, datetime.now(UTC).isoformat(timespec="milliseconds")
    visible = [*_visible_moves(catalog, moves.all)]
    return TierMoveList(since, until, len(visible), [*islice(reversed(visible), limit)])


def _visible_moves(catalog: SubjectCatalog, moves: Sequence[TierMove]) -> Iterator[TierMoveDocument]:
    tiers = frozenset(catalog.tiers)
    for move in moves:
        key, name = move.tool
        view = catalog.server_view(key)
        route = None if view is None else view.tool_of(key, name)
        left, entered = ([tier for tier in each if tier in tiers] for each in (move.left, move.entered))
        if route is None or route.tool is None or not (left or entered):
            continue
        before, after = (tier if tier in tiers else None for tier in (move.before, move.after))
        exposed = route.tool.exposed_name or tool_id(key, route.tool.shown_name)
        yield TierMoveDocument(move.at, exposed, str(key), left, entered, before, after, move.reason)
