"""Prometheus metrics of sign-ins of clients, read at scrape time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from fairlead_authorization.protocol.parts import SignInCounts


class SignInCollector(Collector):
    """Metrics of one gateway's authorization server. A gateway without one has no samples."""

    def __init__(self, counts: SignInCounts | None) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        counts = self._counts
        text = "Sign-ins of clients, by outcome: begun, signed_in, denied, refused, unavailable"
        sign_ins = CounterMetricFamily("fairlead_sign_ins", text, labels=["outcome"])
        for outcome, count in [] if counts is None else sorted(counts.sign_ins.items()):
            sign_ins.add_metric([outcome], count)
        yield sign_ins
        text = "Token requests of clients, by grant type and outcome: issued, refused, unavailable"
        tokens = CounterMetricFamily("fairlead_token_requests", text, labels=["grant", "outcome"])
        for (grant, outcome), count in [] if counts is None else sorted(counts.tokens.items()):
            tokens.add_metric([grant, outcome], count)
        yield tokens
