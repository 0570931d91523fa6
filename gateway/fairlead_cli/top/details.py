"""Text about one server or tool of `fairlead top`: why a server is not ready, why a tier hides a tool. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead_api.documents.servers import FileProblem
from fairlead_cli.output import printable
from fairlead_cli.servers.showing import details
from fairlead_cli.speed.tiers import explanation
from fairlead_cli.top.columns import UNKNOWN, count, milliseconds, per_minute
from fairlead_cli.top.rows import CallStatistics, WatchedServerRow, WatchedToolRow
from fairlead_cli.wording import ready_to_paste


def server_details(row: WatchedServerRow, document: dict[str, Any]) -> list[str]:
    """Lines about a server from its REST document."""
    cause = f" ({row.cause})" if row.cause else ""
    lines = [f"{row.name}: {row.state}{cause}"]
    if row.tools:
        lines += [*figure_lines(row.figures), f"  tools     {row.tools:,}; p50 and p95 are of the slowest tool"]
    lines.append(f"  restarts  {count(row.restarts)}")
    for word, member in (("breaker", "breaker"), ("endpoint", "endpoint"), ("MCP", "protocolVersion")):
        if document.get(member):
            lines.append(f"  {word:<9} {document[member]}")
    server_lines = details([document])
    if not server_lines and row.cause:
        server_lines = ["", "Only administrators of the gateway see the server's message (FAIRLEAD_ADMIN_GROUPS)."]
    problems = [str(problem) for problem in document.get("problems", ())]
    problem_lines = (
        ["", f"Left out of the server's tools: {len(problems)}", *(f"  {problem}" for problem in problems)]
        if problems
        else []
    )
    return [printable(line) for line in (*lines, *server_lines, *problem_lines)]


def file_notice(problems: Sequence[FileProblem]) -> str:
    """Sentence about the first problem of a file that declares servers, and the number of others; empty without any."""
    if not problems:
        return ""
    others = "" if len(problems) == 1 else f" ({len(problems) - 1:,} more: `fairlead servers`)"
    return ready_to_paste(printable(f"problem: {problems[0].message}{others}"))


def tool_details(row: WatchedToolRow, explanation_document: dict[str, Any]) -> list[str]:
    """Lines about a tool from the response of `/v1/tools/{name}/explain`."""
    first, *others = explanation(explanation_document)
    tiers = [
        f"  {tier['tier']}: {'shown' if tier['shown'] else 'hidden'}, {tier['reason']}"
        for tier in explanation_document["tiers"]
    ]
    tier_lines = ["", "Tiers:", *tiers] if tiers else ["", "There are no latency tiers: the tool is in every list."]
    return [printable(line) for line in (first, *figure_lines(row.figures), *others, *tier_lines)]


def figure_lines(figures: CallStatistics) -> list[str]:
    """Lines about call rates, totals and latency."""
    rates = f"{per_minute(figures.calls_per_minute)} calls/min, {per_minute(figures.errors_per_minute)} errors/min"
    share = UNKNOWN
    if figures.calls and figures.errors is not None:
        share = f"{100 * figures.errors / figures.calls:.1f} %"
    return [
        f"  now       {rates}",
        f"  so far    {_counted(figures.calls, 'call')}, {_counted(figures.errors, 'error')} ({share})",
        f"  latency   p50 {milliseconds(figures.p50_ms)}, p95 {milliseconds(figures.p95_ms)}",
    ]


def _counted(number: int | None, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"
