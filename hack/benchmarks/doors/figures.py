"""Figures of a load, by the names of mcpload."""

from __future__ import annotations

import statistics
from typing import Any


def figures(times: list[float], seconds: float, wrong: str) -> dict[str, Any]:
    """Figures of calls that took `times` microseconds; `wrong` is a wrong answer, or empty."""
    parts = statistics.quantiles(times, n=1000) if len(times) > 1 else [0.0] * 999
    return {
        "calls": len(times),
        "secs": seconds,
        "rps": len(times) / seconds,
        "p50_us": parts[499],
        "p99_us": parts[989],
        "p999_us": parts[998],
        "max_us": max(times, default=0.0),
        "err_http": 0,
        "err_rpc": 1 if wrong else 0,
        "err_text": 0,
        "worst": [],
        "sample": wrong,
    }
