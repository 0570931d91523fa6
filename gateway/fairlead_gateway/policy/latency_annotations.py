"""Adds a tool's latency to the `_meta` of its definition.

This is done only if `FAIRLEAD_META_LATENCY` is set, because it makes lists change whenever a published latency changes.
Pure module. All replicas write the same bytes, because latencies come from the state document. A value in this document
is updated only when it has changed by more than 10 %.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.state import ToolState
from fairlead_api.floors import Floor
from fairlead_formats.tools.verbatim import with_meta
from fairlead_gateway.core.server import Tool

PREFIX: Final = "fairlead.dev/"


def annotate(definition: bytes, tool: Tool, state: ToolState | None, floor: Floor | None = None) -> bytes:
    """Add to a definition the members of `latency` in `GET /v1/tools`, each prefixed by `fairlead.dev/`, and `floor` as
    `fairlead.dev/min_tier`. Unknown values are left out. Members of the same names in the author's `_meta` are
    replaced; all other members stay.
    """
    quantiles = state.quantiles if state is not None else None
    hints = {
        "estimated_duration_ms": tool.estimated_duration_ms,
        "max_duration_ms": tool.max_duration_ms,
        "measured_duration_ms": round(quantiles.p50_ms) if quantiles else None,
        "measured_p99_ms": round(quantiles.p99_ms) if quantiles else None,
        "idempotent": tool.idempotent,
        "cacheable_seconds": tool.cacheable_seconds,
        "min_tier": None if floor is None else floor.tier,
    }
    members = {PREFIX + name: Raw(msgspec.json.encode(value)) for name, value in hints.items() if value is not None}
    return with_meta(definition, members)
