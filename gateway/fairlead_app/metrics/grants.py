"""Prometheus metric of the store of grants."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_gateway.grants.store import ClosableGrantStore


class GrantCollector(Collector):
    """Fill of a store with a fixed capacity."""

    def __init__(self, store: ClosableGrantStore | None) -> None:
        self._store = store

    def collect(self) -> Iterable[Metric]:
        text = "Part of the fullest Secret of grants that is in use, from 0 to 1, if grants are stored in Secrets"
        family = GaugeMetricFamily("fairlead_grants_fill_ratio", text, labels=())
        fill = None if self._store is None else self._store.fill
        if fill is not None:
            family.add_metric([], fill)
        yield family
