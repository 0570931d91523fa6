"""Tool calls while three consoles are open: calls per second and processor time per call, in pairs of windows."""

from __future__ import annotations

from typing import Final

from console.consoles import ERA, VERSION, Browser, start_console, three_consoles
from rig.harness import Cell, Goal, Report, Sample, Settings, interleaved, ratios
from rig.loadtools import Load, Outcome, run_load
from rig.processes import Stage, cores

CONNECTIONS: Final = 8
SECONDS, WARMUP = 4.0, 0.5
WINDOWS: Final = 6
"""Pairs of windows per round."""
ALONE, OPEN = "calls alone", "calls beside three consoles"
AT_LEAST, AT_MOST = 0.97, 1.03
BESIDE_COLUMNS: Final = ("calls/s", "CPU µs of a call", "p99 µs", "× calls/s", "× CPU", "views/s", "foreign cores")


def beside(settings: Settings, report: Report, tools: int) -> list[dict[str, Cell]]:
    """One row for each kind of window, and the goals. Raises Unmeasurable."""
    outcomes_by_kind: dict[str, dict[int, Outcome]] = {ALONE: {}, OPEN: {}}
    views = 0
    measured, helping = cores()
    with Stage() as stage:
        served = start_console(stage, tools, (measured, helping))
        gateway, upstream = served.gateway, served.upstream
        browser = Browser(gateway.port)
        pages = browser.pages()
        for path in pages:  # loading the console once is not part of the cost of an open console
            browser.page(path)
        browser.close()
        load = Load(gateway.port, "/mcp", gateway.tool(ERA), VERSION, CONNECTIONS, SECONDS, WARMUP)
        for number, kind in interleaved([ALONE, OPEN], 2 if settings.quick else settings.rounds * WINDOWS):
            if kind == ALONE:
                outcomes_by_kind[kind][number] = run_load(stage, load, gateway.pid, [upstream.pid], core=helping)
                continue
            with three_consoles(gateway.port, pages) as consoles:
                outcomes_by_kind[kind][number] = run_load(stage, load, gateway.pid, [upstream.pid], core=helping)
            views += consoles.views
    rate = _moved(outcomes_by_kind, "calls_per_second")
    spent = _moved(outcomes_by_kind, "cpu")
    report.goals += [
        Goal("calls/s beside three consoles", None if rate is None else rate.median, "× alone", at_least=AT_LEAST),
        Goal(
            "processor time of a call beside three consoles",
            None if spent is None else spent.median,
            "× alone",
            at_most=AT_MOST,
        ),
    ]
    rows: list[dict[str, Cell]] = []
    for kind, windows in outcomes_by_kind.items():
        outcomes = windows.values()
        rows.append(
            {
                "what": kind,
                "tools": tools,
                "calls/s": Sample.of(outcome.calls_per_second for outcome in outcomes),
                "CPU µs of a call": Sample.of(outcome.cpu for outcome in outcomes),
                "p99 µs": Sample.of(outcome.p99 for outcome in outcomes),
                "foreign cores": Sample.of(outcome.foreign for outcome in outcomes),
                "× calls/s": rate if kind == OPEN else None,
                "× CPU": spent if kind == OPEN else None,
                "views/s": views / len(windows) / (SECONDS + WARMUP) if kind == OPEN else None,
            }
        )
    return rows


def _moved(outcomes_by_kind: dict[str, dict[int, Outcome]], figure: str) -> Sample | None:
    """Ratio of a figure with open consoles to that of its paired window without consoles."""
    values = {
        kind: {number: float(getattr(outcome, figure)) for number, outcome in of.items()}
        for kind, of in outcomes_by_kind.items()
    }
    return ratios(values[OPEN], values[ALONE])
