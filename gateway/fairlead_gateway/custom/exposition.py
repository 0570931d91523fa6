"""Prometheus metrics about loading custom tools, in addition to the metrics of all tools."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_tools.handlers.tools import CustomTools


class CustomCollector(Collector):
    """Metrics of one gateway's custom tools."""

    def __init__(self, tools: CustomTools) -> None:
        self._tools = tools

    def collect(self) -> Iterable[Metric]:
        text = "Custom tools that are published"
        yield GaugeMetricFamily("fairlead_custom_tools", text, value=float(len(self._tools)))
        text = "Custom tools, and modules of custom tools, that could not be loaded at the start; the log names them"
        yield GaugeMetricFamily("fairlead_custom_tool_problems", text, value=float(self._tools.problems))
