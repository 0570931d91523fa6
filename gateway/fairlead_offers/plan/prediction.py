"""Predicts how long the tool calls in a model's message take, from the latency of their tools, for `POST
/v1/tool-calls/predict` and the `cost` of `POST /v1/tool-calls`.
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
    """Expected duration of a call in milliseconds; null if the tool's latency is unknown."""

    usual_ms: float | None
    """Measured median, else the declared median."""
    slow_ms: float | None
    """Measured p95, else the declared maximum, else the declared median."""
    basis: Basis


class PredictedCall(Guess, frozen=True, rename="camel"):
    """Expected duration of one call of a message."""

    id: str
    name: str
    """Name of the tool as the model wrote it."""
    tool: str | None
    """Exposed name of the tool; null for a call that the gateway does not run. Such a call costs nothing."""


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """Duration of a batch of calls in milliseconds: the maximum for parallel calls, the sum for sequential calls, and
    for limited parallelism the time until the last call ends, if each waiting call starts as soon as another call has
    ended.
    """

    strategy: str
    at_once: int
    """Maximum number of calls at a time."""
    usual_ms: float | None
    """Duration if each call takes its `usualMs`; null if the latency of all tools is unknown."""
    slow_ms: float | None
    """Duration if each call takes its `slowMs`; null if the latency of all tools is unknown."""
    unknown: tuple[str, ...]
    """Tools whose latency is unknown. They count as 0, so that the durations are lower bounds."""
    tier: str | None
    tier_ms: int | None
    """Latency limit of the tier, in milliseconds. It applies to the whole batch, as it does to one call."""
    fits: bool | None
    """Whether the batch is within the limit. The duration of each call is the tier's quantile if the tool was measured,
    else the declared estimate. Null if there is no limit, or if the answer depends on unknown latencies.
    """
    actual_ms: float | None = None
    """Measured duration of the batch; null if nothing was called."""


class Prediction(msgspec.Struct, frozen=True, rename="camel"):
    """Expected cost of a message's calls, which are not run."""

    format: str
    calls: list[PredictedCall]
    cost: Cost


def guess(entry: VisibleTool, timeout: float | None = None) -> Guess:
    """Expected duration of one call, limited by its `timeout` in seconds."""
    state, tool = entry.state, entry.tool
    usual_ms, slow_ms, basis = _durations(state, tool)
    if timeout is not None and usual_ms is not None and slow_ms is not None:
        usual_ms, slow_ms = min(usual_ms, timeout * 1000), min(slow_ms, timeout * 1000)
    return Guess(usual_ms, slow_ms, basis)


def _durations(state: ToolState | None, tool: Tool) -> tuple[float | None, float | None, Basis]:
    if state is not None and state.quantiles is not None:
        return state.quantiles.p50_ms, state.quantiles.p95_ms, MEASURED
    declared_ms = tool.estimated_duration_ms
    if declared_ms is None:
        return None, None, UNKNOWN
    return float(declared_ms), float(max(declared_ms, tool.max_duration_ms or 0)), DECLARED


def judged_ms(entry: VisibleTool, tier: Tier | None, *, shown: bool, timeout: float | None = None) -> float:
    """Duration in milliseconds to assume for a call when its batch is compared with a tier's limit; 0 if the tool's
    latency is unknown.

    A tier shows or hides a tool by how many of the tool's calls were late, not by the quantile estimated from all its
    calls. So for a tool that the tier shows, the result is at most the tier's limit, even if the estimated quantile is
    higher.
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
    """Predict the cost of calls that the gateway runs. `calls`: tool and timeout in seconds of each call, in order.
    `actual_ms`: measured duration of the batch in milliseconds."""
    guesses = [guess(entry, timeout) for entry, timeout in calls]
    unknown_names = tuple(
        dict.fromkeys(e.name for (e, _), guess in zip(calls, guesses, strict=True) if guess.basis == UNKNOWN)
    )
    any_known = any(guess.basis != UNKNOWN for guess in guesses)
    usual_ms = makespan([guess.usual_ms or 0.0 for guess in guesses], at_once) if any_known else None
    slow_ms = makespan([guess.slow_ms or 0.0 for guess in guesses], at_once) if any_known else None
    limit = None if visible.tier is None else visible.tier.max_latency_ms
    fits = None
    if limit is not None and any_known:
        shown_tools = visible.by_name
        judged_durations_ms = [
            judged_ms(e, visible.tier, shown=e.name in shown_tools, timeout=timeout) for e, timeout in calls
        ]
        is_late = makespan(judged_durations_ms, at_once) > limit
        fits = None if unknown_names and not is_late else not is_late
    return Cost(
        strategy=strategy,
        at_once=min(at_once, max(1, len(calls))),
        usual_ms=None if usual_ms is None else round(usual_ms, 1),
        slow_ms=None if slow_ms is None else round(slow_ms, 1),
        unknown=unknown_names,
        tier=visible.view.tier,
        tier_ms=limit,
        fits=fits,
        actual_ms=None if actual_ms is None else round(actual_ms, 3),
    )
