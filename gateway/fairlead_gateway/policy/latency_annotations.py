"""Figures of a tool's speed, written into the `_meta` of its definition: only where the installation asks for it
(`FAIRLEAD_META_LATENCY`), for with it a list changes whenever a published figure does.

Pure module. Every replica writes the same bytes, as figures come from the state document
alone, in which one changes only when it has moved by more than a tenth.
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
    """The definition with the fields that `GET /v1/tools` has as `latency`, each under `fairlead.dev/`, and with the
    `floor` as `fairlead.dev/min_tier`; what is not known is left out. Members that its author gave there under these
    names are replaced, all others stay.
    """
    figures = state.quantiles if state is not None else None
    hints = {
        "estimated_duration_ms": tool.estimated_duration_ms,
        "max_duration_ms": tool.max_duration_ms,
        "measured_duration_ms": round(figures.p50_ms) if figures else None,
        "measured_p99_ms": round(figures.p99_ms) if figures else None,
        "idempotent": tool.idempotent,
        "cacheable_seconds": tool.cacheable_seconds,
        "min_tier": None if floor is None else floor.tier,
    }
    members = {PREFIX + name: Raw(msgspec.json.encode(value)) for name, value in hints.items() if value is not None}
    return with_meta(definition, members)
