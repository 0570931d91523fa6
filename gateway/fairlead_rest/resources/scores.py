"""REST resources `GET /v1/scores` and `GET /v1/leaderboard`: badges, tags and ranks of tools by measured latency.

A score also compares a tool's declared with its measured latency, and counts its calls and errors.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_api.documents.catalog import ToolEntry
from fairlead_api.documents.rules import Tier
from fairlead_api.documents.state import ToolState
from fairlead_api.floors import Floor
from fairlead_gateway.core.server import Server, Tool
from fairlead_gateway.policy.tiers import by_speed, why_hidden
from fairlead_offers.catalogs.latency import measured_at
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.plan.prediction import DECLARED, MEASURED, UNKNOWN, Basis
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem
from fairlead_offers.workers.heavy_work import with_pauses
from fairlead_rest.call_counts import CallCount, CallCountReading
from fairlead_rest.context import RestContext
from fairlead_rest.openapi import describe_route
from fairlead_tools.names import tool_id

Badge = Literal["Lightning", "Fast", "Standard", "Slow"]
Verdict = Literal["cautious", "honest", "optimistic", "misleading", "unproven"]

BADGES: Final[tuple[tuple[float, Badge], ...]] = ((50, "Lightning"), (200, "Fast"), (1000, "Standard"))
"""Pairs of a limit in milliseconds and a badge, the lowest limit first. A tool gets the first badge whose limit exceeds
the tool's median."""
SLOW: Final[Badge] = "Slow"
MIN_SAMPLES: Final = 5
"""Minimum number of measured calls for a verdict about the declared latency."""
CAUTIOUS: Final = 0.5
HONEST: Final = 1.25
OPTIMISTIC: Final = 2.0
"""Ratio of measured to declared latency up to which the verdict is `optimistic`, above it `misleading`. CAUTIOUS and
HONEST are the limits of the verdicts of these names.
"""
STRIDE: Final = 64
"""Number of tools between two pauses of the thread; scoring one tool takes about 5 µs."""
NEGLIGIBLE_MS: Final = 20.0
"""Difference of declared and measured milliseconds up to which the verdict is `honest`, as the network may cause it."""

_SCORE: Final[dict[str, Any]] = {
    "name": "images__generate",
    "id": "mcp.images.generate",
    "server": "default/images",
    "categories": ["images"],
    "badge": "Slow",
    "medianMs": 3205.0,
    "basis": "measured",
    "p95Ms": 3870.0,
    "samples": 100,
    "measuredAt": "2026-01-31T08:59:58Z",
    "tier": "deep",
    "tags": ["DEEP only"],
    "honesty": {"declaredMs": 900, "measuredMs": 3205.0, "ratio": 3.56, "pastMaximum": False, "verdict": "misleading"},
    "count": {"calls": 212, "errors": 3},
}
SCORES: Final[dict[str, Any]] = {
    "a tool that takes longer than it says": {"origin": "6f1c9d3e5ab24f0e8d7c6b5a49382716", "tools": [_SCORE]}
}
LEADERS: Final[dict[str, Any]] = {
    "one category": {"boards": [{"category": "images", "ranks": [{"rank": 1, "score": _SCORE}], "unranked": []}]}
}


class Honesty(msgspec.Struct, frozen=True, rename="camel"):
    """Comparison of a tool's declared and measured latency, in milliseconds."""

    declared_ms: int
    measured_ms: float
    ratio: float | None
    """Ratio of measured to declared latency; null if 0 is declared."""
    past_maximum: bool
    """Whether the measured p99 is above the declared maximum."""
    verdict: Verdict


class Score(msgspec.Struct, frozen=True, rename="camel"):
    """Score of one tool."""

    name: str
    id: str
    server: str
    categories: tuple[str, ...]
    badge: Badge | None
    """Badge by the measured median: Lightning below 50 ms, Fast below 200 ms, Standard below 1 s, else Slow. Null if
    nothing was measured.
    """
    median_ms: float | None
    basis: Basis
    """Source of the median. Tools with only a declared median are not ranked."""
    p95_ms: float | None
    """Measured 95th percentile; null if nothing was measured."""
    samples: int
    measured_at: str | None
    """Time of the last measured call (RFC 3339); null if nothing was measured."""
    tier: str | None
    """Fastest tier that shows the tool to the principal; null if there is none."""
    tags: tuple[str, ...]
    """`FAST compatible`: `fast` is the fastest tier that shows the tool. `DEEP only`: only the slowest tier shows it.
    Empty if nothing was measured.
    """
    honesty: Honesty | None
    """Comparison with the declared latency; null if nothing was declared or measured."""
    count: CallCount | None
    """Calls since the start of the answering process; null if the process has too many tools to count each of them."""


class Scores(msgspec.Struct, frozen=True, rename="camel"):
    """Scores of all tools that the principal may see, sorted by name."""

    origin: str
    """Opaque id of the answering process. Counts with different ids, of replicas or restarts, are independent."""
    tools: list[Score]


class Rank(msgspec.Struct, frozen=True, rename="camel"):
    """Rank of a tool. Tools with equal medians have the same rank."""

    rank: int
    score: Score


class Leaderboard(msgspec.Struct, frozen=True, rename="camel"):
    """Ranked tools of one category, the fastest first."""

    category: str
    ranks: list[Rank]
    unranked: list[Score]
    """Tools that were not measured yet."""


class Leaderboards(msgspec.Struct, frozen=True, rename="camel"):
    """Leaderboards, sorted by category."""

    boards: list[Leaderboard]


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/scores` and `/v1/leaderboard`."""
    routes = APIRouter(prefix="/v1", tags=["scores"])

    @routes.get("/scores", **describe_route("Show badges, tags, honesty and calls of tools", Scores, SCORES))
    async def scores(request: Request) -> Response:
        catalog = context.catalog(request)
        return await context.answer(
            lambda: Scores(context.records.calls.origin, score_tools(catalog, context.records.calls.read()))
        )

    @routes.get(
        "/leaderboard", **describe_route("Rank the tools of a category by their medians", Leaderboards, LEADERS)
    )
    async def leaderboard(
        request: Request,
        category: Annotated[str | None, Query(description="Only this category; default: all categories.")] = None,
    ) -> Response:
        catalog = context.catalog(request)
        return await context.answer(
            lambda: Leaderboards(boards(score_tools(catalog, context.records.calls.read()), category))
        )

    return routes


def score_tools(catalog: SubjectCatalog, counts: CallCountReading) -> list[Score]:
    """Score all tools that the merged endpoint shows, or that a tier hides."""
    snapshot, visible = catalog.snapshot, catalog.view(None).everything
    tiers = [tier for tier in by_speed(snapshot.rules.tiers) if tier.name in catalog.tiers]
    entries = {key: {entry.name: entry for entry in server.catalog.tools} for key, server in snapshot.servers.items()}
    scores = []
    for name, (server, tool) in with_pauses(snapshot.merged.items(), STRIDE):
        if name in visible:
            state = snapshot.states.get(server.key, {}).get(tool.name)
            entry, fits = entries[server.key][tool.name], _fits(tool, state, tiers, catalog.floor(tool))
            count = counts.of(tool.name, str(server.key))
            scores.append(score(name, server, tool, entry, state, count, _tags(fits, tiers), next(iter(fits), None)))
    return scores


def score(
    name: str,
    server: Server,
    tool: Tool,
    entry: ToolEntry,
    state: ToolState | None,
    count: CallCount | None,
    tags: tuple[str, ...],
    tier: str | None,
) -> Score:
    """Score one tool. `tags` follow from the tiers that show the tool, and `tier` is the fastest of these tiers."""
    quantiles = state.quantiles if state is not None else None
    median: float | None = tool.estimated_duration_ms
    basis: Basis = UNKNOWN if median is None else DECLARED
    if quantiles is not None:
        median, basis = quantiles.p50_ms, MEASURED
    return Score(
        name=name,
        id=tool_id(server.key, tool.shown_name),
        server=str(server.key),
        categories=entry.categories,
        badge=None if quantiles is None else badge(quantiles.p50_ms),
        median_ms=median,
        basis=basis,
        p95_ms=None if quantiles is None else quantiles.p95_ms,
        samples=quantiles.samples if quantiles is not None else 0,
        measured_at=measured_at(state),
        tier=tier,
        tags=() if quantiles is None else tags,
        honesty=_honesty(tool, state),
        count=count,
    )


def badge(median_ms: float) -> Badge:
    """Badge for a median in milliseconds."""
    return next((name for limit_ms, name in BADGES if median_ms < limit_ms), SLOW)


def verdict(declared_ms: float, measured_ms: float, samples: int) -> Verdict:
    """Compare a declared with a measured latency."""
    if samples < MIN_SAMPLES:
        return "unproven"
    if measured_ms < CAUTIOUS * declared_ms and declared_ms - measured_ms > NEGLIGIBLE_MS:
        return "cautious"
    if measured_ms <= HONEST * declared_ms or measured_ms - declared_ms <= NEGLIGIBLE_MS:
        return "honest"
    return "optimistic" if measured_ms <= OPTIMISTIC * declared_ms else "misleading"


def boards(scores: Iterable[Score], category: str | None) -> list[Leaderboard]:
    """Make the leaderboard of each category, or only of `category`. Raises Problem for a category without visible
    tools.
    """
    by_category: dict[str, list[Score]] = {}
    for score in scores:
        for name in score.categories:
            by_category.setdefault(name, []).append(score)
    if category is not None and category not in by_category:
        categories = tuple(sorted(by_category))
        raise Problem(INVALID_ARGUMENTS, f"no visible tool has the category {category[:64]!r}", existing=categories)
    return [_board(name, by_category[name]) for name in sorted(by_category) if category in (None, name)]


def _board(category: str, scores: list[Score]) -> Leaderboard:
    ranked_scores = sorted(
        (score.median_ms, score.name, score) for score in scores if score.basis == MEASURED and score.median_ms
    )
    medians = [median for median, _, _ in ranked_scores]
    ranks = [Rank(bisect_left(medians, median) + 1, score) for median, _, score in ranked_scores]
    return Leaderboard(category, ranks, [score for score in scores if score.basis != MEASURED])


def _fits(tool: Tool, state: ToolState | None, tiers: list[Tier], floor: Floor | None) -> list[str]:
    """Names of the tiers that show a tool, the fastest first like `tiers`."""
    return [tier.name for tier in tiers if why_hidden(tier, tool, state, floor) is None]


def _tags(fits: list[str], tiers: list[Tier]) -> tuple[str, ...]:
    """Tags of a tool that the tiers in `fits` show, out of all `tiers`. Both are sorted, the fastest first."""
    if not fits:
        return ()
    has_only_slowest = len(tiers) > 1 and fits[0] == tiers[-1].name
    return (f"{fits[0].upper()} only" if has_only_slowest else f"{fits[0].upper()} compatible",)


def _honesty(tool: Tool, state: ToolState | None) -> Honesty | None:
    declared_ms = tool.estimated_duration_ms
    if declared_ms is None or state is None or state.quantiles is None:
        return None
    quantiles = state.quantiles
    is_past_maximum = tool.max_duration_ms is not None and quantiles.p99_ms > tool.max_duration_ms
    ratio = round(quantiles.p50_ms / declared_ms, 2) if declared_ms else None
    return Honesty(
        declared_ms, quantiles.p50_ms, ratio, is_past_maximum, verdict(declared_ms, quantiles.p50_ms, quantiles.samples)
    )
