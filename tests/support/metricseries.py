"""Series of a gateway's metrics, by name and labels.

assert (await metric_values(gateway))["fairlead_model_rounds_total"][label_set(model="scripted")] == 2
"""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from fairlead_app.gateway import Gateway
from fairlead_app.metrics.exposition import expose_metrics

Labels = tuple[tuple[str, str], ...]


async def metric_values(gateway: Gateway) -> dict[str, dict[Labels, float]]:
    """Values of the metrics by name and labels."""
    text = (await expose_metrics(gateway.metrics))[0].decode()
    values: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return values


def label_set(**labels: str) -> Labels:
    return tuple(sorted(labels.items()))
