"""Prometheus metrics of circuit breakers, schema checks, authentication and the result cache, read at scrape time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_api.meta import ServerKey
from fairlead_app.metrics.exposition import MAX_SERVERS
from fairlead_gateway.core.ports import BREAKER_STATES
from fairlead_gateway.endpoint.mcp_endpoint import McpEndpoint
from fairlead_gateway.upstream.guard import Guard
from fairlead_tools.validation.schema_cache import Checks


class GuardCollector(Collector):
    """Metrics of the circuit breakers, schema checks, authentications and result cache of one gateway."""

    def __init__(
        self,
        checks: Checks,
        guards: Callable[[], Mapping[ServerKey, Guard]],
        endpoint: McpEndpoint,
        without_issuer: Callable[[], int],
    ) -> None:
        """`without_issuer` returns the number of policies with a subject that lacks a required issuer."""
        self._without_issuer = without_issuer
        self._checks = checks
        self._identities = endpoint.identities
        self._proxies = endpoint.proxies
        self._buffers = endpoint.buffers
        self._endpoint = endpoint
        self._guards = guards
        self._cache = endpoint.context.cache

    def collect(self) -> Iterable[Metric]:
        checks = self._checks
        text = "Invalid schemas of tools, or parts of schemas, that are not checked, once per definition; see the log"
        yield _labelled_counter("fairlead_schemas_left_out", text, "reason", checks.left_out)
        text = "Tool definitions with compiled schemas"
        yield GaugeMetricFamily("fairlead_schemas_compiled", text, value=float(checks.compiled_now))
        text = "Arguments and results of tools not checked by their schema: too large, too deeply nested or unreadable"
        yield CounterMetricFamily("fairlead_values_unchecked", text, value=float(checks.unchecked))
        text = "Results that do not match the outputSchema of their tool; they are forwarded with a warning in _meta"
        yield _labelled_counter("fairlead_output_mismatches", text, "fairlead_server", checks.mismatched)
        text = "Authentications of client credentials, by kind and outcome, without those answered from the cache"
        family = CounterMetricFamily("fairlead_authentications", text, labels=["kind", "outcome"])
        for (kind, outcome), count in sorted(self._identities.outcomes.items()):
            family.add_metric([kind, outcome], count)
        yield family
        text = "Policies with a subject that lacks `issuer` while several are configured: only their Deny rules apply"
        yield GaugeMetricFamily("fairlead_policies_without_issuer", text, value=float(self._without_issuer()))
        text = "Requests with X-Forwarded-For, by outcome: taken, ignored (peer is not a trusted proxy), unreadable"
        yield _labelled_counter("fairlead_forwarded_requests", text, "outcome", self._proxies.outcomes)
        yield from self._answers()
        yield from self._servers()
        cache = self._cache
        yield CounterMetricFamily(
            "fairlead_result_cache_hits", "Calls answered from the result cache", value=cache.hits
        )
        yield CounterMetricFamily(
            "fairlead_result_cache_misses", "Calls of cacheable tools without a cached result", value=cache.misses
        )
        yield GaugeMetricFamily("fairlead_result_cache_bytes", "Bytes in the result cache", value=cache.bytes)
        yield GaugeMetricFamily("fairlead_result_cache_entries", "Results in the result cache", value=len(cache))

    def _answers(self) -> Iterable[Metric]:
        buffers = self._buffers
        text = "Bytes of large answers, by state: arriving from servers, or not read by clients (unread)"
        answer_bytes = GaugeMetricFamily("fairlead_answer_bytes", text, labels=["state"])
        answer_bytes.add_metric(["arriving"], buffers.whole.arriving)
        answer_bytes.add_metric(["unread"], buffers.whole.unread)
        yield answer_bytes
        text = "Answers whose reading from the server is paused because of the memory limit for answers"
        yield GaugeMetricFamily("fairlead_answers_paused", text, value=float(buffers.paused_responses))
        text = "Connections closed because their clients did not read answers or streams (FAIRLEAD_CLIENT_UNREAD)"
        yield CounterMetricFamily("fairlead_client_connections_unread", text, value=self._endpoint.unread_connections)
        text = "Requests rejected because of the memory limit for unread answers, by budget: gateway, agent"
        yield _labelled_counter("fairlead_requests_shed", text, "budget", buffers.refused)

    def _servers(self) -> Iterable[Metric]:
        guards = dict(list(self._guards().items())[:MAX_SERVERS])
        text = (
            "Circuit breaker of a server: 0 closed, 1 half-open (the next call is a trial), 2 open (calls are refused)"
        )
        state = GaugeMetricFamily("fairlead_breaker_state", text, labels=["fairlead_server"])
        for key, guard in guards.items():
            state.add_metric([str(key)], BREAKER_STATES.index(guard.state))
        yield state
        text = "Calls in flight at a server"
        busy = GaugeMetricFamily("fairlead_server_calls_in_flight", text, labels=["fairlead_server"])
        for key, guard in guards.items():
            busy.add_metric([str(key)], guard.busy)
        yield busy
        openings = {str(key): guard.breaker.opened_total for key, guard in guards.items()}
        yield _labelled_counter(
            "fairlead_breaker_opened", "Times that a circuit breaker opened", "fairlead_server", openings
        )
        retries = {str(key): guard.retries for key, guard in guards.items()}
        yield _labelled_counter(
            "fairlead_call_retries", "Attempts of calls that repeated a failed attempt", "fairlead_server", retries
        )
        hedges = {str(key): guard.hedges for key, guard in guards.items()}
        text = "Second attempts of calls (hedging), sent while the first attempt was slow to answer"
        yield _labelled_counter("fairlead_call_hedges", text, "fairlead_server", hedges)
        wins = {str(key): guard.hedges_won for key, guard in guards.items()}
        yield _labelled_counter(
            "fairlead_call_hedges_won",
            "Second attempts of calls (hedging) that answered first",
            "fairlead_server",
            wins,
        )


def _labelled_counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in list(counts.items()):
        family.add_metric([value], count)
    return family
