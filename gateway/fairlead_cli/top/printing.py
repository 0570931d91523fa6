"""`fairlead top` without its screen, as tables or JSON lines, and the start of the screen."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USAGE_ERROR, Failure, needs
from fairlead_cli.output import Output, print_json, print_table, remark
from fairlead_cli.rest import ManagementClient
from fairlead_cli.servers.showing import file_lines
from fairlead_cli.top.columns import UNKNOWN, count, milliseconds, short_name
from fairlead_cli.top.reading import GatewayReading, read
from fairlead_cli.top.rows import WatchedRows, WatchedServerRow, WatchedToolRow, rows_of
from fairlead_cli.top.sort_key import SortKey
from fairlead_tools.call_rates import CallRates


def run_once(destination: Destination, key: SortKey, output: Output) -> None:
    """Print one reading. Raises Failure."""
    reading = read(ManagementClient.of(destination))
    rows = rows_of(reading, {}).arrange(key)
    if output is Output.json:
        print_json(document(reading, rows))
        return
    if rows.servers:
        print_table(
            ("SERVER", "STATE", "CALLS", "ERRORS", "P50", "P95", "RESTARTS", "TOOLS", "WHY"), map(_server, rows.servers)
        )
    else:
        print(f"{destination.url} has no servers that you may see.")
    if rows.tools:
        print()
        print_table(("TOOL", "TIER", "CALLS", "ERRORS", "P50", "P95"), map(_tool, rows.tools))
    for line in file_lines(problem.message for problem in reading.file_problems):
        print(line)


def run_lines(destination: Destination, key: SortKey, interval: float) -> None:
    """Print one reading per line until interrupted, and retry after errors. Raises Failure if the first reading
    fails.
    """
    client, rates = ManagementClient.of(destination), CallRates()
    reading: GatewayReading | None = read(client)
    while True:
        if reading is not None:
            line = document(reading, rows_of(reading, rates.take(reading)).arrange(key))
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
            sys.stdout.flush()
        time.sleep(interval)
        try:
            reading = read(client)
        except Failure as error:
            reading = None
            remark("top", f"{error} Trying again.")


def run_screen(destination: Destination, key: SortKey, interval: float) -> None:
    """Run the screen until it is closed. Raises Failure if there is no terminal, or if the first reading fails."""
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):  # Textual draws on standard error
        raise Failure("the screen needs a terminal: add --once or --json", code=USAGE_ERROR)
    with needs("up"):
        from fairlead_cli.top.application import TopApp
    client = ManagementClient.of(destination)
    app = TopApp(client, destination.url, key, interval, read(client))
    app.run()
    if app.return_code:
        raise SystemExit(app.return_code)  # Textual has printed the error


def document(reading: GatewayReading, rows: WatchedRows) -> dict[str, Any]:
    """One reading as JSON."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "origin": reading.origin,
        "servers": [
            {
                "server": row.name,
                "state": row.state,
                "cause": row.cause or None,
                "tools": row.tools,
                "restarts": row.restarts,
                **_figures(row),
            }
            for row in rows.servers
        ],
        "tools": [{"name": row.name, "server": row.server, "tier": row.tier, **_figures(row)} for row in rows.tools],
        "fileProblems": [{"file": problem.file, "message": problem.message} for problem in reading.file_problems],
    }


def _figures(row: WatchedServerRow | WatchedToolRow) -> dict[str, Any]:
    words = {name: name.split("_") for name in asdict(row.figures)}
    return {
        first + "".join(map(str.capitalize, others)): getattr(row.figures, name)
        for name, (first, *others) in words.items()
    }


def _server(row: WatchedServerRow) -> tuple[str, ...]:
    figures = row.figures
    return (
        short_name(row.name),
        row.state,
        count(figures.calls),
        count(figures.errors),
        milliseconds(figures.p50_ms),
        milliseconds(figures.p95_ms),
        count(row.restarts),
        count(row.tools),
        row.cause,
    )


def _tool(row: WatchedToolRow) -> tuple[str, ...]:
    figures = row.figures
    return (
        row.name,
        row.tier or UNKNOWN,
        count(figures.calls),
        count(figures.errors),
        milliseconds(figures.p50_ms),
        milliseconds(figures.p95_ms),
    )
