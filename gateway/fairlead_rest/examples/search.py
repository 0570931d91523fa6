"""Examples of results of searches."""

from __future__ import annotations

from typing import Any, Final

from fairlead_rest.examples.tools import OFFER, TOOL

FOUND: Final[dict[str, Any]] = {
    "canonical": {"tools": [{"score": 7.411, "tool": TOOL["a tool"]}], "searched": 214, "ranking": "bm25"},
    "for Anthropic (?format=anthropic)": OFFER,
}
