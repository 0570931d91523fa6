"""Searching tools: how often the right one is found, beside FastMCP's search, and what a query costs.

Quality is measured on the project's own labelled queries (`--only own`: the half for tuning; `--only held`, which no
other run opens: the half that nothing was tuned on) and on those of a folder that TOOLSEARCH names (`labelled`). A
figure of a set is the mean over its sources. `--only account` counts tokens of whole tasks instead, with a list and
with search; `compression` and `compression-held` which facts are left of results at ten times fewer tokens.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from fairlead_search.embedding import missing_modules
from fairlead_search.index import Bm25Index
from fairlead_search.record import IndexedTool, record
from rig.definitions import definition
from rig.harness import Cell, Goal, Report, Sample, Settings
from search import compression
from search.account import account
from search.labelled import DEPTH, LabelledSet, Rank, by_source, mean, own, public
from search.peers import fastmcp_rank

PARTS = ("own", "held", "public", "speed", "account", "compression", "compression-held")
COLUMNS: Final = ("r@1", "r@5", "r@10", "nDCG@10", "MRR")
FACTS: Final = ("shared", "paraphrased", "facts")
TIMES: Final = ("query ms, p50", "query ms, p99", "index ms", "1 tool changed, until found ms")
EMPTY: Final[dict[str, Cell]] = dict.fromkeys(("what", "queries", *COLUMNS, *FACTS, *TIMES))
OURS: Final = "bm25 and related words"
VECTORS: Final = "vectors of the built-in encoder"
BOTH: Final = "hybrid of both"
THEIRS: Final = "FastMCP's BM25SearchTransform"
SINGLE: Final = "authored-mcp"
"""Source of the public queries that need one tool."""
QUERIES: Final = ("create an issue", "search the files of a user", "list branches by date", "update the city of a repo")


def rankings(labelled: LabelledSet) -> dict[str, Rank]:
    """Every way to rank that can be measured here, by its name."""
    records = [record(tool["id"], tool["server"], tool) for tool in labelled.tools]
    index = Bm25Index.of(records)
    found: dict[str, Rank] = {OURS: partial(by_words, index)}
    if not missing_modules():
        from search.hybrid import HybridRanking

        ranking = HybridRanking(index, records)
        found |= {VECTORS: ranking.by_vectors, BOTH: ranking.by_both}
    return {**found, THEIRS: fastmcp_rank(labelled.tools)}


def by_words(index: Bm25Index, query: str) -> list[str]:
    """Ids by words alone."""
    return [hit.key for hit in index.search(query, DEPTH)]


def quality(labelled: LabelledSet, report: Report) -> None:
    """Rows of a set: each ranking over all of it and by source, and the goals that hold on it."""
    figures = {name: by_source(labelled.queries, rank) for name, rank in rankings(labelled).items()}
    for name, sources in figures.items():
        for source, row in {"": mean(sources.values()), **sources}.items():
            where = f"{labelled.name}{source and f', {source}'}"
            report.rows.append({**EMPTY, "what": name, "queries": where, **row})
    ours, theirs = (mean(figures[name].values())["nDCG@10"] for name in (OURS, THEIRS))
    if BOTH not in figures:
        report.notes.append(f"no vectors were measured: {', '.join(missing_modules())} is not installed")
    report.notes.append(f"{labelled.name}: {len(labelled.queries)} queries among {len(labelled.tools):,} tools")
    report.goals.append(Goal(f"nDCG@10 beside FastMCP's, {labelled.name}", ours / theirs, "×", at_least=1))
    if labelled.name == "public":
        report.goals.append(Goal("nDCG@10, no model and no extra", ours, "", at_least=0.42))
        report.goals.append(Goal("r@5 of single tools, no model", figures[OURS][SINGLE]["r@5"], "", at_least=0.56))
    if labelled.name == "public" and BOTH in figures:
        both = mean(figures[BOTH].values())["nDCG@10"]
        report.goals.append(Goal("nDCG@10, built-in encoder", both, "", at_least=0.55))
        report.goals.append(Goal("r@5 of single tools, encoder", figures[BOTH][SINGLE]["r@5"], "", at_least=0.79))


def timed(work: Callable[[], object], times: int) -> list[float]:
    """Milliseconds of each run, ascending."""
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        spent.append((time.perf_counter() - begun) * 1000)
    return sorted(spent)


def asked(search: Callable[[str], object]) -> None:
    """All of `QUERIES`."""
    for query in QUERIES:
        search(query)


def speed(name: str, count: int, settings: Settings) -> dict[str, Any]:
    """Milliseconds of one query among so many tools, of making the index, and of changing one tool in it. Vectors are
    random, which costs what others do; those of queries are made.
    """
    rng = random.Random(7)
    records = [record(str(place), "server", definition(place, rng)) for place in range(count)]
    rounds = []
    for _ in range(settings.rounds):
        begun = time.perf_counter()
        index = Bm25Index.of(records)
        built = (time.perf_counter() - begun) * 1000
        search: Callable[[str], object] = partial(by_words, index)
        if name == BOTH:
            from search.hybrid import random_hybrid

            search = random_hybrid(index, records)
        asked(search)
        spent = timed(partial(asked, search), 20 if settings.quick else 200)
        changed = timed(partial(swapped, index, records[0]), 5)
        p50, p99 = (spent[int(len(spent) * share)] / len(QUERIES) for share in (0.5, 0.99))
        rounds.append((p50, p99, built, changed[2]))
    return {
        **EMPTY,
        "what": f"{name}, {count:,} tools",
        **{column: Sample.of(one[place] for one in rounds) for place, column in enumerate(TIMES)},
    }


def swapped(index: Bm25Index, new: IndexedTool) -> None:
    """A tool added, one removed, and the first search."""
    index.with_changes([new], ["1"]).search(QUERIES[0], DEPTH)


def run(settings: Settings) -> Report:
    """A row per ranking and set, and per size."""
    report = Report("search")
    if "account" in settings.only:
        account(report, quick=settings.quick)
        return report
    for part, half in (("compression", "tuning"), ("compression-held", "held")):
        if part in settings.only:
            compression.measured(half, report, EMPTY)
    if settings.wants("own"):
        quality(own("tuning"), report)
    if "held" in settings.only:
        quality(own("held"), report)
    folder = os.environ.get("TOOLSEARCH")
    if settings.wants("public") and folder is not None:
        quality(public(Path(folder)), report)
    elif settings.wants("public"):
        report.notes.append("no public queries were measured: TOOLSEARCH names no folder with them")
    for count, most, most_both in ((1_300, 2, 8), (10_000, 15, 15)) if settings.wants("speed") else ():
        for name, bound in ((OURS, most), (BOTH, most_both)):
            if name == OURS or not missing_modules():
                row = speed(name, count, settings)
                report.rows.append(row)
                p99 = row["query ms, p99"].median
                report.goals.append(Goal(f"a query among {count:,} tools by {name}, p99", p99, "ms", at_most=bound))
    return report
