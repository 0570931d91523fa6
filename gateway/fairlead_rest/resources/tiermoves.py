"""`GET /v1/tier-moves`: which tools left or entered latency tiers, when and why, as the answering replica saw it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_gateway.policy.tier_moves import KEPT, TierMove, TierMoves
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_rest.context import RestContext
from fairlead_rest.examples import plans as examples
from fairlead_rest.openapi import describe_route
from fairlead_tools.names import tool_id

DEFAULT_AT_ONCE: Final = 100


class TierMoveDocument(msgspec.Struct, frozen=True):
    """One tool that other tiers show than before."""

    at: str
    """RFC 3339, when the replica began to serve the decision."""
    tool: str
    """Its name on `/mcp`, else its id."""
    server: str
    """`namespace/name`."""
    left: list[str]
    """Tiers that do not show it any more, the fastest first."""
    entered: list[str]
    """Tiers that show it now and did not before, the fastest first."""
    before: str | None
    """The fastest tier that showed it; null: none did."""
    after: str | None
    """The fastest tier that shows it now; null: none does."""
    reason: str
    """Words and figures of the decision, as `hidden` of a tier has them; empty where none are known."""


class TierMoveList(msgspec.Struct, frozen=True):
    """Moves of tools that the principal may see, newest first."""

    since: str
    """RFC 3339: moves before are not known to this replica, which began then or keeps the last 500."""
    until: str
    """RFC 3339, when it was asked."""
    total: int
    """Number of moves since then, with those beyond `limit`."""
    moves: list[TierMoveDocument]


def router(context: RestContext) -> APIRouter:
    """The resource `/v1/tier-moves`."""
    routes = APIRouter(prefix="/v1", tags=["tiers"])

    @routes.get("/tier-moves", **describe_route("List moves between tiers", TierMoveList, examples.TIER_MOVES))
    async def list_moves(request: Request, limit: Annotated[int, Query(ge=1, le=KEPT)] = DEFAULT_AT_ONCE) -> Response:
        seen = context.seen(request)
        return await context.answer(lambda: moves_for(seen, context.administration.moves, limit))

    return routes


def moves_for(seen: SubjectCatalog, moves: TierMoves, limit: int) -> TierMoveList:
    """The moves that a subject may hear of. Not in the loop."""
    since, until = moves.since, datetime.now(UTC).isoformat(timespec="milliseconds")
    visible = [*_visible(seen, moves.all)]
    return TierMoveList(since, until, len(visible), [*islice(reversed(visible), limit)])


def _visible(seen: SubjectCatalog, moves: Sequence[TierMove]) -> Iterator[TierMoveDocument]:
    tiers = frozenset(seen.tiers)
    for move in moves:
        key, name = move.tool
        view = seen.of_server(key)
        route = None if view is None else view.everything.get(name)
        left, entered = ([tier for tier in some if tier in tiers] for some in (move.left, move.entered))
        if route is None or route.tool is None or not (left or entered):
            continue
        before, after = (tier if tier in tiers else None for tier in (move.before, move.after))
        exposed = route.tool.exposed or tool_id(key, name)
        yield TierMoveDocument(move.at, exposed, str(key), left, entered, before, after, move.reason)
