"""Searching tools: how often the right one is found, beside FastMCP's search, and what a query costs.

Quality is measured on the project's own labelled queries (`--only own`: the half for tuning; `--only held`, which no
other run opens: the half that nothing was tuned on) and on those of a folder that TOOLSEARCH names (`labelled`). A
figure of a set is the mean over its sources. `--only account` counts tokens of whole tasks instead, with a list and
with search; `compression`, `compression-held` and `compression-fresh` which facts are left of results at ten times
fewer tokens; `beside` the p99 of calls while tools are indexed, `front` calls of `/router/mcp` beside a front by
FastMCP.
"""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from fairlead_search.bm25_index import Bm25Index
from fairlead_search.embedding import DISK_MODULES, missing_modules
from fairlead_search.index_interfaces import MemoryBackend, SearchBackend
from fairlead_search.indexed_tool import IndexedTool, record
from rig.definitions import definition
from rig.harness import Cell, Goal, Report, Sample, Settings, in_rounds
from search import compression
from search.account import account
from search.beside import beside
from search.front import front
from search.labelled import DEPTH, LabelledSet, Rank, by_source, mean, own, public
from search.peers import fastmcp_rank

PARTS = (
    "own",
    "held",
    "public",
    "speed",
    "account",
    "beside",
    "front",
    "compression",
    "compression-held",
    "compression-fresh",
)
COLUMNS: Final = ("r@1", "r@5", "r@10", "nDCG@10", "MRR")
FACTS: Final = ("shared", "paraphrased", "facts")
TIMES: Final = ("query ms, p50", "query ms, p99", "index ms", "1 tool changed, until found ms")
EMPTY: Final[dict[str, Cell]] = dict.fromkeys(("what", "queries", *COLUMNS, *FACTS, *TIMES))
OURS: Final = "bm25 and related words"
VECTORS: Final = "vectors of the built-in encoder"
BOTH: Final = "hybrid of both"
ON_DISK: Final = "hybrid of both, vectors in LanceDB"
THEIRS: Final = "FastMCP's BM25SearchTransform"
SIZES: Final = (1_300, 10_000)
QUERY_MS: Final = {
    (SIZES[0], OURS): 2,
    (SIZES[0], BOTH): 8,
    (SIZES[0], ON_DISK): 50,
    (SIZES[1], OURS): 15,
    (SIZES[1], BOTH): 15,
    (SIZES[1], ON_DISK): 50,
}
"""Maximum milliseconds of a query (p99)."""
SINGLE: Final = "authored-mcp"
"""Source of the public queries that need only one tool."""
QUERIES: Final = ("create an issue", "search the files of a user", "list branches by date", "update the city of a repo")


@contextlib.contextmanager
def backends() -> Iterator[dict[str, SearchBackend]]:
    """Installed vector stores, by the ranking that uses them."""
    if missing_modules():
        yield {}
        return
    if missing_modules(DISK_MODULES):
        yield {BOTH: MemoryBackend()}
        return
    from fairlead_search.lance_index import LanceBackend

    with tempfile.TemporaryDirectory() as folder:
        on_disk = LanceBackend(folder)
        yield {BOTH: MemoryBackend(), ON_DISK: on_disk}
        on_disk.close()


def rankings(labelled: LabelledSet, places: Mapping[str, SearchBackend]) -> dict[str, Rank]:
    """All rankings that can be measured here, by name."""
    records = [record(tool["id"], tool["server"], tool) for tool in labelled.tools]
    index = Bm25Index.of(records)
    by_name: dict[str, Rank] = {OURS: partial(by_words, index)}
    if places:
        from search.hybrid import HybridRanking, made_vectors

        vectors = made_vectors(records)
        by_place = {name: HybridRanking(backend, records, vectors) for name, backend in places.items()}
        by_name |= {VECTORS: by_place[BOTH].by_vectors, **{name: ranking.by_both for name, ranking in by_place.items()}}
    return {**by_name, THEIRS: fastmcp_rank(labelled.tools)}


def by_words(index: Bm25Index, query: str) -> list[str]:
    """Ids ranked by words alone."""
    return [hit.key for hit in index.search(query, DEPTH)]


def quality(labelled: LabelledSet, report: Report) -> None:
    """Rows of a set, one for each ranking and source, and the goals for the set."""
    with backends() as places:
        figures = {name: by_source(labelled.queries, rank) for name, rank in rankings(labelled, places).items()}
    for name, sources in figures.items():
        for source, row in {"": mean(sources.values()), **sources}.items():
            where = f"{labelled.name}{source and f', {source}'}"
            report.rows.append({**EMPTY, "what": name, "queries": where, **row})
    ours, theirs = (mean(figures[name].values())["nDCG@10"] for name in (OURS, THEIRS))
    if BOTH not in figures:
        report.notes.append(f"no vectors were measured: {', '.join(missing_modules())} is not installed")
    elif ON_DISK not in figures:
        report.notes.append(f"no LanceDB was measured: {', '.join(missing_modules(DISK_MODULES))} is not installed")
    else:
        disk, memory = (mean(figures[name].values())["nDCG@10"] for name in (ON_DISK, BOTH))
        what = f"nDCG@10 in LanceDB beside memory's, {labelled.name}"
        report.goals.append(Goal(what, disk / memory, "×", at_least=0.995))
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
    """Milliseconds of each run, in ascending order."""
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        spent.append((time.perf_counter() - begun) * 1000)
    return sorted(spent)


def ask_all(search: Callable[[str], object]) -> None:
    """Run all of `QUERIES`."""
    for query in QUERIES:
        search(query)


def speed(name: str, count: int, settings: Settings) -> dict[str, Any]:
    """Milliseconds of one query, of creating the index, and of changing one tool in it, for a number of tools. The
    vectors of tools are random, which does not change the cost; those of queries are real.
    """
    rng = random.Random(7)
    records = [record(str(position), "server", definition(position, rng)) for position in range(count)]
    rounds = []
    for _ in in_rounds(settings.rounds):
        with backends() as places:
            begun = time.perf_counter()
            index = Bm25Index.of(records)
            built = (time.perf_counter() - begun) * 1000
            search: Callable[[str], object] = partial(by_words, index)
            swap: Callable[[], object] = partial(swapped, index, records[0])
            if name in places:
                from search.hybrid import HybridRanking, random_vectors

                ranking = HybridRanking(places[name], records, random_vectors(records))
                search, swap = ranking.by_both, ranking.swapping(records[0], "1", QUERIES[0])
            ask_all(search)
            spent = timed(partial(ask_all, search), 20 if settings.quick else 200)
            changed = timed(swap, 5)
        p50, p99 = (spent[int(len(spent) * share)] / len(QUERIES) for share in (0.5, 0.99))
        rounds.append((p50, p99, built, changed[2]))
    return {
        **EMPTY,
        "what": f"{name}, {count:,} tools",
        **{column: Sample.of(times[position] for times in rounds) for position, column in enumerate(TIMES)},
    }


def swapped(index: Bm25Index, new: IndexedTool) -> None:
    """Add a tool, remove another, and run the first search."""
    index.with_changes([new], ["1"]).search(QUERIES[0], DEPTH)


def speeds(report: Report, settings: Settings) -> None:
    """Rows of each size and ranking, and the goals for them."""
    for (count, name), most in QUERY_MS.items():
        if (name != OURS and missing_modules()) or (name == ON_DISK and missing_modules(DISK_MODULES)):
            continue
        row = speed(name, count, settings)
        report.rows.append(row)
        p99, changed = (row[column].median for column in (TIMES[1], TIMES[3]))
        report.goals.append(Goal(f"a query among {count:,} tools by {name}, p99", p99, "ms", at_most=most))
        if count == max(SIZES):
            bound = 1000 if name == ON_DISK else 100
            report.goals.append(Goal(f"1 of {count:,} tools changed, by {name}", changed, "ms", at_most=bound))


def run(settings: Settings) -> Report:
    """One row for each ranking and set, and for each size."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # set before numpy is loaded, as in the process that searches
    report = Report("search")
    if "account" in settings.only:
        account(report, quick=settings.quick)
        return report
    for part, half in compression.HALVES.items():
        if part in settings.only:
            compression.measured(half, report, EMPTY)
    for part, measure in (("beside", beside), ("front", front)):
        if part in settings.only:
            measure(report, settings)
            return report
    if settings.wants("own"):
        quality(own("tuning"), report)
    if "held" in settings.only:
        quality(own("held"), report)
    folder = os.environ.get("TOOLSEARCH")
    if settings.wants("public") and folder is not None:
        quality(public(Path(folder)), report)
    elif settings.wants("public"):
        report.notes.append("no public queries were measured: TOOLSEARCH names no folder with them")
    if settings.wants("speed"):
        speeds(report, settings)
    return report
