"""Labelled queries over tools: the project's own, in two halves, and those of a folder in the same form.

`tools.jsonl` has `id`, `name`, `server`, `description`, `inputSchema` and `tags`; queries have `query`, `source` and
`groups`: the tools that are needed, each a list of ids that will do. Where there is a `pool`, only `mcp` is read.
The project's own were written before any ranking was tuned on them: 203 tools, of each query the half `tuning` or
`held` by its tool. Their source says how they were written: `named` shares a word with the tool's name, `paraphrased`
shares none, `chinese` is Chinese, for tools that are described in Chinese.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

OWN: Final = Path(__file__).parent / "labelled"
HALVES: Final = ("tuning", "held")
DEPTH: Final = 10
Rank = Callable[[str], Sequence[str]]
"""From a query to ids of tools, best first."""


@dataclass(frozen=True)
class LabelledSet:
    """Tools, and queries with the tools that answer them."""

    name: str
    tools: list[dict[str, Any]]
    queries: list[dict[str, Any]]


def own(half: str) -> LabelledSet:
    """One half of the project's own queries."""
    return LabelledSet(f"own/{half}", lines(OWN / "tools.jsonl"), lines(OWN / f"{half}.jsonl"))


def public(folder: Path) -> LabelledSet:
    """The public half of another project's queries."""
    return LabelledSet("public", lines(folder / "tools.jsonl"), lines(folder / "public" / "queries.jsonl"))


def lines(file: Path) -> list[dict[str, Any]]:
    """Objects of a file of JSON lines; if it has several pools, only those of real MCP tools."""
    all_lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [entry for entry in all_lines if entry.get("pool", "mcp") == "mcp"]


def scored(ranked: Sequence[str], groups: Sequence[Sequence[str]]) -> dict[str, float]:
    """Recall at 1, 5 and 10, nDCG at 10, and the reciprocal rank of the first needed tool."""
    needed = [set(group) for group in groups]
    figures = {
        f"r@{depth}": sum(1 for needed_group in needed if needed_group & set(ranked[:depth])) / len(needed)
        for depth in (1, 5, 10)
    }
    left, gain, first = list(needed), 0.0, 0.0
    for rank, key in enumerate(ranked[:DEPTH]):
        hit = next((needed_group for needed_group in left if key in needed_group), None)
        if hit is not None:
            left.remove(hit)
            gain += 1 / math.log2(rank + 2)
        if not first and any(key in needed_group for needed_group in needed):
            first = 1 / (rank + 1)
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(DEPTH, len(needed))))
    return {**figures, "nDCG@10": gain / ideal, "MRR": first}


def by_source(queries: Iterable[dict[str, Any]], rank: Rank) -> dict[str, dict[str, float]]:
    """Mean figures of each source."""
    figures_by_source: dict[str, list[dict[str, float]]] = defaultdict(list)
    for query in queries:
        figures_by_source[query["source"]].append(scored(rank(query["query"]), query["groups"]))
    return {source: mean(rows) for source, rows in figures_by_source.items()}


def mean(rows: Iterable[dict[str, float]]) -> dict[str, float]:
    """Mean of each figure."""
    rows = [*rows]
    return {figure: sum(each[figure] for each in rows) / len(rows) for figure in rows[0]}
