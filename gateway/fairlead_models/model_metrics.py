"""Counters and histograms of requests to models, recorded as they go; `fairlead_app.metrics.models` shows them.

Pure recording. A model has series of its own once it has answered, for clients can make names up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import Final

from fairlead_gateway.telemetry import OTHER, Histogram
from fairlead_gateway.tracing.spans import SpanIds
from fairlead_models.providers import ModelTarget
from fairlead_models.token_usage import TokenUsage

MAX_MODELS: Final = 200
MAX_TOOLS: Final = 500
MAX_PRINCIPALS: Final = 500
TOKEN_BOUNDS: Final = tuple(4**power for power in range(12))
"""Upper bounds in tokens of `gen_ai.client.token.usage` (OpenTelemetry semantic conventions for generative AI)."""
DEFINITION, RESULT = "definition", "result"


def observe(histogram: Histogram, seconds: float, span: SpanIds | None) -> None:
    """Count a duration, with its span as the exemplar of its bucket."""
    nanoseconds = round(seconds * 1e9)
    histogram.observe(nanoseconds)
    if span is not None:
        histogram.exemplify(nanoseconds, span.trace_id, span.span_id)


class TokenHistogram:
    """Sums and buckets (not cumulated) of numbers of tokens."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(TOKEN_BOUNDS) + 1)
        self.total = 0

    def observe(self, tokens: int) -> None:
        self.buckets[bisect_left(TOKEN_BOUNDS, tokens)] += 1
        self.total += tokens


class ModelSeries:
    """Figures of one model."""

    def __init__(self) -> None:
        self.input = TokenHistogram()
        self.output = TokenHistogram()
        self.cached = 0
        """Tokens of the input that the provider's cache had."""
        self.written = 0
        """Tokens of the input that were put into the cache."""
        self.dollars = 0.0
        self.rounds = 0
        self.outcomes: Counter[str] = Counter()
        self.durations: dict[str, Histogram] = {}
        """By `error.type`; empty for none."""
        self.first_token = Histogram()


class ModelMetrics:
    """All figures of one gateway."""

    def __init__(self) -> None:
        self.models: dict[tuple[str, str], ModelSeries] = {}
        """By provider and model."""
        self.tool_tokens: dict[tuple[str, str], int] = {}
        """By tool, and whether they were of its definitions or its results."""
        self.principal_tokens: dict[str, TokenUsage] = {}
        """By principal."""
        self.overflowed = 0
        """Observations that went under OTHER."""
        self.in_flight = 0
        self._tools: set[str] = set()

    def answered(self, target: ModelTarget) -> None:
        """Give a model series of its own."""
        key = (target.provider, target.model)
        if key not in self.models and len(self.models) < MAX_MODELS:
            self.models[key] = ModelSeries()

    def of(self, target: ModelTarget | None) -> ModelSeries:
        """The series of a model; one of the provider's where it has none, and one without a provider for None."""
        if target is None:
            key = ("", "")
        elif (target.provider, target.model) in self.models:
            return self.models[target.provider, target.model]
        else:
            key = (target.provider, OTHER)
            self.overflowed += 1
        return self.models.setdefault(key, ModelSeries())

    def round(self, principal: str, target: ModelTarget, usage: TokenUsage, dollars: float) -> None:
        """Count one answer of a model, to a request of a principal."""
        if principal not in self.principal_tokens and len(self.principal_tokens) >= MAX_PRINCIPALS:
            self.overflowed += 1
            principal = OTHER
        self.principal_tokens[principal] = self.principal_tokens.get(principal, TokenUsage()) + usage
        series = self.of(target)
        series.rounds += 1
        series.input.observe(usage.input)
        series.output.observe(usage.output)
        series.cached += usage.cached
        series.written += usage.written
        series.dollars += dollars

    def ended(
        self, target: ModelTarget | None, outcome: str, error: str, seconds: float, span: SpanIds | None = None
    ) -> None:
        """Count one request. `outcome` and `error`, empty for none, are from closed sets. `span`: its own, where it has
        one that is exported.
        """
        series = self.of(target)
        series.outcomes[outcome] += 1
        observe(series.durations.setdefault(error, Histogram()), seconds, span)

    def first_token(self, target: ModelTarget, seconds: float, span: SpanIds | None = None) -> None:
        """Count the time until the client of a stream got the first part of the answer. `span` as for `ended`."""
        observe(self.of(target).first_token, seconds, span)

    def tools(self, part: str, tokens: Mapping[str, int]) -> None:
        """Count tokens of definitions or of results, by tool."""
        for tool, count in tokens.items():
            if tool not in self._tools:
                if len(self._tools) >= MAX_TOOLS:
                    self.overflowed += 1
                    tool = OTHER
                self._tools.add(tool)
            key = (tool, part)
            self.tool_tokens[key] = self.tool_tokens.get(key, 0) + count
