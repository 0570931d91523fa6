"""Prometheus metrics of requests to models: tokens, cost, durations and circuit breakers, read at scrape time.

Where the OpenTelemetry semantic conventions for generative AI define a metric, its name is used in Prometheus form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_app.metrics.exposition import cumulative_buckets
from fairlead_gateway.core.ports import BREAKER_STATES
from fairlead_models.model_breakers import ModelBreakers
from fairlead_models.request_record import TOKEN_BOUNDS, ModelMetrics, ModelSeries, TokenHistogram

_MODEL: Final = ("gen_ai_provider_name", "gen_ai_request_model")
_DIRECTION: Final = "gen_ai_token_type"


class ModelCollector(Collector):
    """Metrics of the models of one gateway, and of their circuit breakers."""

    def __init__(self) -> None:
        self.metrics = ModelMetrics()
        self.breakers = ModelBreakers()

    def collect(self) -> Iterable[Metric]:
        yield from self._usage()
        yield from self._times()
        yield from self._counts()
        yield from self._breakers()

    def _usage(self) -> Iterable[Metric]:
        text = "Tokens of one model response, by type: input (including cached tokens) and output"
        tokens = HistogramMetricFamily("gen_ai_client_token_usage", text, labels=[*_MODEL, _DIRECTION])
        text = "Input tokens read from, or written to, a provider's prompt cache (kind: read, write)"
        cache = CounterMetricFamily("fairlead_model_cache_tokens", text, labels=[*_MODEL, "kind"])
        text = "Cost of model responses in US dollars, for models with a configured price"
        cost = CounterMetricFamily("fairlead_model_cost_usd", text, labels=_MODEL)
        for labels, series in self._series():
            if not series.rounds:
                continue
            tokens.add_metric([*labels, "input"], *_cumulative_buckets(series.input))
            tokens.add_metric([*labels, "output"], *_cumulative_buckets(series.output))
            cache.add_metric([*labels, "read"], series.cached)
            cache.add_metric([*labels, "write"], series.written)
            cost.add_metric(labels, series.dollars)
        yield from (tokens, cache, cost)
        text = "Estimated input tokens that tools cause, by part: definitions (counted again in each round) or results"
        tools = CounterMetricFamily("fairlead_model_tool_tokens", text, labels=["gen_ai_tool_name", "part"])
        for (tool, part), count in [*self.metrics.tool_tokens.items()]:
            tools.add_metric([tool, part], count)
        text = "Tokens of model requests of a principal; all anonymous clients count as one principal"
        spent = CounterMetricFamily("fairlead_principal_tokens", text, labels=["fairlead_principal", _DIRECTION])
        for principal, usage in [*self.metrics.principal_tokens.items()]:
            spent.add_metric([principal, "input"], usage.input)
            spent.add_metric([principal, "output"], usage.output)
        yield from (tools, spent)

    def _times(self) -> Iterable[Metric]:
        text = (
            "Duration of requests to the endpoints in front of models, including all rounds and tool calls, in seconds"
        )
        durations = HistogramMetricFamily(
            "gen_ai_server_request_duration_seconds", text, labels=[*_MODEL, "error_type"]
        )
        text = "Time until a streaming client gets the first part of the response, in seconds"
        first = HistogramMetricFamily("gen_ai_server_time_to_first_token_seconds", text, labels=_MODEL)
        for labels, series in self._series():
            for error, histogram in [*series.durations.items()]:
                durations.add_metric([*labels, error], *cumulative_buckets(histogram))
            first.add_metric(labels, *cumulative_buckets(series.first_token))
        yield from (durations, first)

    def _counts(self) -> Iterable[Metric]:
        text = "Requests to the endpoints in front of models, by outcome: ok, stopped by a limit, pending calls, …"
        requests = CounterMetricFamily("fairlead_model_requests", text, labels=[*_MODEL, "outcome"])
        rounds = CounterMetricFamily(
            "fairlead_model_rounds", "Model responses; a request may need several", labels=_MODEL
        )
        for labels, series in self._series():
            for outcome, count in [*series.outcomes.items()]:
                requests.add_metric([*labels, outcome], count)
            rounds.add_metric(labels, series.rounds)
        yield from (requests, rounds)
        text = "Requests to the endpoints in front of models that are in progress"
        yield GaugeMetricFamily("fairlead_model_requests_in_flight", text, value=float(self.metrics.in_flight))
        text = (
            "Observations of models and their tools that were counted under the label value `other`, because the limit "
            "on label sets was reached"
        )
        yield CounterMetricFamily("fairlead_model_label_sets_overflowed", text, value=float(self.metrics.overflowed))

    def _breakers(self) -> Iterable[Metric]:
        text = "Circuit breaker of a model with failures: 0 closed, 1 half-open (the next request is a trial), 2 open"
        state = GaugeMetricFamily("fairlead_model_breaker_state", text, labels=_MODEL)
        opened = CounterMetricFamily(
            "fairlead_model_breaker_opened", "Times that the circuit breaker of a model opened", labels=_MODEL
        )
        for target, now, times in self.breakers.states():
            state.add_metric([target.provider, target.model], BREAKER_STATES.index(now))
            opened.add_metric([target.provider, target.model], times)
        yield from (state, opened)

    def _series(self) -> Iterable[tuple[Sequence[str], ModelSeries]]:
        return [*self.metrics.models.items()]


def _cumulative_buckets(histogram: TokenHistogram) -> tuple[list[tuple[str, float]], float]:
    buckets, total = [], 0
    for bound, count in zip((*map(str, TOKEN_BOUNDS), "+Inf"), [*histogram.buckets], strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets, float(histogram.total)
