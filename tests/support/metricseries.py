"""Series of a gateway's metrics, by name and labels.

assert (await told(gateway))["fairlead_model_rounds_total"][labelled(model="scripted")] == 2
"""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from fairlead_app.gateway import Gateway
from fairlead_app.metrics.exposition import expose_metrics

Labels = tuple[tuple[str, str], ...]


async def told(gateway: Gateway) -> dict[str, dict[Labels, float]]:
    """Values of the metrics by name and labels."""
    text = (await expose_metrics(gateway.metrics))[0].decode()
    values: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return values


def labelled(**labels: str) -> Labels:
    return tuple(sorted(labels.items()))
