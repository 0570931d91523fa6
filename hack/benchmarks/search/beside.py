"""Tool calls while 10,000 tools are indexed: what the p99 of a call moves by.

One gateway, called in windows that follow each other. In every other one its processes, which make vectors and take
them, are stopped; in those between they go on. The windows are short and many, as in `gateway.conversions`.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from fairlead_api.documents.codec import catalog_name, encode
from fairlead_api.meta import ServerKey
from fairlead_search.embedding import DISK_MODULES, missing_modules
from gateway.conversions import SECONDS, WARMUP, WINDOWS
from gateway.gateways import VERSIONS, catalog, entry, gateway_over, start_upstream
from rig.definitions import definition
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, interleaved, ratios
from rig.loadtools import Load, Outcome, run_load
from rig.processes import Stage, process_tree

ERA: Final = "modern"
TOOLS: Final = 10_000
CONNECTIONS: Final = 8
AT_MOST: Final = 1.15
ALONE, INDEXING = "alone", "indexing"


def searched(port: int) -> dict[str, Any]:
    """Answer to a search, which starts the indexing of new tools."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/v1/search?query=create+an+issue")
        answer = connection.getresponse()
        answer_document: dict[str, Any] = json.loads(answer.read())
        if answer.status != 200:
            raise Unmeasurable(f"a search answered {answer.status}: {answer_document}")
        return answer_document
    finally:
        connection.close()


@contextmanager
def stopped(gateway: int) -> Iterator[None]:
    """Suspend the gateway's processes within the context."""
    children = [pid for pid in process_tree(gateway) if pid != gateway]
    for pid in children:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in children:
            os.kill(pid, signal.SIGCONT)


def measured(where: str, settings: Settings, report: Report) -> None:
    """One row for each kind of window. Raises Unmeasurable, also if the indexing ended before the last window."""
    outcomes_by_kind: dict[str, dict[int, Outcome]] = {ALONE: {}, INDEXING: {}}
    with Stage() as stage:
        core = max(os.sched_getaffinity(0))
        upstream = start_upstream(stage, "upstream", core)
        documents = stage.folder / "documents"
        documents.mkdir()
        rng = random.Random(7)
        tools = (definition(index, rng) for index in range(TOOLS))
        many = tuple(entry(tool["name"], json.dumps(tool).encode()) for tool in tools)
        for name, more in (("", ()), ("many", many)):
            key = ServerKey("default", name or ERA)
            (documents / f"{catalog_name(key)}.json").write_bytes(
                encode(catalog(ERA, upstream.port, name=name, tools=more))
            )
        variables = {"FAIRLEAD_EMBEDDER": "built-in"}
        if where == "LanceDB":
            variables["FAIRLEAD_SEARCH_DIRECTORY"] = str(stage.folder / "vectors")
        target = gateway_over(stage, documents, None, **variables)
        searched(target.port)
        load = Load(target.port, "/mcp", target.tool(ERA), VERSIONS[ERA], CONNECTIONS, SECONDS, WARMUP)
        for number, kind in interleaved([ALONE, INDEXING], 3 if settings.quick else settings.rounds * WINDOWS):
            if kind == INDEXING:
                outcomes_by_kind[kind][number] = run_load(stage, load, target.pid, [upstream.pid], core=core)
                continue
            with stopped(target.pid):
                outcomes_by_kind[kind][number] = run_load(stage, load, target.pid, [upstream.pid], core=core)
        note = searched(target.port).get("note", "")
        if "have vectors" not in note:
            raise Unmeasurable(f"all was indexed before the last window, or nothing is: {note!r}")
        report.notes.append(f"at the end, vectors in {where}: {note}")
    p99 = {
        kind: {number: outcome.p99 for number, outcome in windows.items()} for kind, windows in outcomes_by_kind.items()
    }
    moved = ratios(p99[INDEXING], p99[ALONE])
    for kind, windows in outcomes_by_kind.items():
        report.rows.append(
            {
                "vectors in": where,
                "calls": kind,
                "calls/s": Sample.of(outcome.calls_per_second for outcome in windows.values()),
                "p50 µs": Sample.of(outcome.p50 for outcome in windows.values()),
                "p99 µs": Sample.of(outcome.p99 for outcome in windows.values()),
                "foreign cores": Sample.of(outcome.foreign for outcome in windows.values()),
                "× p99 alone": moved if kind == INDEXING else None,
            }
        )
    value = None if moved is None else moved.median
    report.goals.append(Goal(f"p99 while {TOOLS:,} tools are indexed, {where}", value, "× alone", at_most=AT_MOST))


def beside(report: Report, settings: Settings) -> None:
    """Rows of each installed vector store. Raises Unmeasurable."""
    if missing_modules():
        raise Unmeasurable(f"{', '.join(missing_modules())} is not installed, so that nothing is indexed by vectors")
    for where in ("memory", *(() if missing_modules(DISK_MODULES) else ("LanceDB",))):
        measured(where, settings, report)
