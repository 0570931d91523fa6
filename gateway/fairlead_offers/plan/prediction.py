"""`POST /v1/tool-calls/predict`, and the `cost` of `POST /v1/tool-calls`: how long the calls of a message should take
together, from what is known of their tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_api.documents.state import ToolState
from fairlead_gateway.core.server import Tool
from fairlead_offers.catalogs.visible_tools import VisibleTool, VisibleTools
from fairlead_tools.batch import makespan

MEASURED: Final = "measured"
DECLARED: Final = "declared"
UNKNOWN: Final = "unknown"
Basis = Literal["measured", "declared", "unknown"]


class Guess(msgspec.Struct, frozen=True, rename="camel"):
    """How long one call should take, in milliseconds; null where nothing is known of its tool."""

    usual_ms: float | None
    """The measured median, else the declared one."""
    slow_ms: float | None
    """The measured p95, else the declared maximum, else the declared median."""
    basis: Basis


class PredictedCall(Guess, frozen=True, rename="camel"):
    """One call of a message."""

    id: str
    name: str
    """As the model wrote it."""
    tool: str | None
    """The exposed name; null for a call that is not run here, and costs nothing."""


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """Duration of a batch in milliseconds: the maximum of parallel calls, the sum of sequential ones, and with a limit
    the end of the last call when each starts as soon as another has ended.
    """

    strategy: str
    at_once: int
    """Calls at a time, at most."""
    usual_ms: float | None
    """If each call takes its `usualMs`; null where nothing is known of any."""
    slow_ms: float | None
    """If each takes its `slowMs`."""
    unknown: tuple[str, ...]
    """Tools of which nothing is known. They count as 0, so the figures are the least that it takes."""
    tier: str | None
    tier_ms: int | None
    """Limit of the tier, which holds for the batch as for a call."""
    fits: bool | None
    """Whether the batch is within it, by what decides about a tool: the tier's quantile where it was measured, else the
    declared estimate. Null where there is no limit, or a tool of which nothing is known.
    """
    actual_ms: float | None = None
    """Measured duration; null where nothing was called."""


class Prediction(msgspec.Struct, frozen=True, rename="camel"):
    """The cost of a message's calls before they are made, if they are."""

    format: str
    calls: list[PredictedCall]
    cost: Cost


def guess(entry: VisibleTool, timeout: float | None = None) -> Guess:
    """Expected duration of one call; no longer than its `timeout`, in seconds."""
    state, tool = entry.state, entry.tool
    usual, slow, basis = _figures(state, tool)
    if timeout is not None and usual is not None and slow is not None:
        usual, slow = min(usual, timeout * 1000), min(slow, timeout * 1000)
    return Guess(usual, slow, basis)


def _figures(state: ToolState | None, tool: Tool) -> tuple[float | None, float | None, Basis]:
    if state is not None and state.quantiles is not None:
        return state.quantiles.p50_ms, state.quantiles.p95_ms, MEASURED
    declared = tool.estimated_duration_ms
    if declared is None:
        return None, None, UNKNOWN
    return float(declared), float(max(declared, tool.max_duration_ms or 0)), DECLARED


def judged_ms(entry: VisibleTool, tier: Tier | None, *, shown: bool, timeout: float | None = None) -> float:
    """Milliseconds that a call counts with when its batch is held against a tier; 0 where nothing is known of its tool.

    A tool that the tier shows is within its limit, whatever an estimated quantile says: late calls decide about that.
    """
    state, tool = entry.state, entry.tool
    if state is not None and state.quantiles is not None:
        quantile_ms: float = getattr(state.quantiles, f"{tier.quantile if tier is not None else 'p95'}_ms")
    else:
        quantile_ms = float(tool.estimated_duration_ms or 0)
    bounds = [quantile_ms] if timeout is None else [quantile_ms, timeout * 1000]
    if shown and tier is not None and tier.max_latency_ms is not None:
        bounds.append(tier.max_latency_ms)
    return min(bounds)


def predict_cost(
    visible: VisibleTools,
    strategy: str,
    at_once: int,
    calls: Sequence[tuple[VisibleTool, float | None]],
    actual_ms: float | None = None,
) -> Cost:
    """The cost of the calls that are run here, in their order, each with its time-out in seconds."""
    guesses = [guess(entry, timeout) for entry, timeout in calls]
    unknown = tuple(
        dict.fromkeys(e.name for (e, _), guess in zip(calls, guesses, strict=True) if guess.basis == UNKNOWN)
    )
    any_known = any(guess.basis != UNKNOWN for guess in guesses)
    usual = makespan([guess.usual_ms or 0.0 for guess in guesses], at_once) if any_known else None
    slow = makespan([guess.slow_ms or 0.0 for guess in guesses], at_once) if any_known else None
    limit = None if visible.tier is None else visible.tier.max_latency_ms
    fits = None
    if limit is not None and any_known:
        shown = visible.by_name
        judged = [judged_ms(e, visible.tier, shown=e.name in shown, timeout=timeout) for e, timeout in calls]
        late = makespan(judged, at_once) > limit
        fits = None if unknown and not late else not late
    return Cost(
        strategy=strategy,
        at_once=min(at_once, max(1, len(calls))),
        usual_ms=None if usual is None else round(usual, 1),
        slow_ms=None if slow is None else round(slow, 1),
        unknown=unknown,
        tier=visible.view.tier,
        tier_ms=limit,
        fits=fits,
        actual_ms=None if actual_ms is None else round(actual_ms, 3),
    )
