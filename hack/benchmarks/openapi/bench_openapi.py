"""OpenAPI documents of large APIs as tools: what is made, lost and left out, in which time and memory.

Documents come from packages of npm (`documents`). Every definition is converted to each provider's format and judged by
the rule set of the tests. `--peers` makes tools of the same documents by FastMCP's OpenAPI provider. "Taken as they
are" are definitions that the rules of OpenAI and of Anthropic accept without a conversion. With an API server, its own
documents are measured too, and an operator that publishes GitHub's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, Final

from controlplane import ControlPlane
from fairlead_formats import registry
from fairlead_formats.tool_format import DEFAULT
from openapi.documents import documents
from openapi.stops import OperatorStops, served_documents
from openapi.stops import measure as measure_stops
from rig.harness import Goal, Report, Settings, Unmeasurable, in_rounds
from rig.processes import Stage
from scale.bench_operator import plane_in

ROOT: Final = Path(__file__).resolve().parents[3]
SUPPORT: Final = ROOT / "tests" / "support"
PROGRAM: Final = Path(__file__).with_name("measured_compilation.py")
PEER_SECONDS: Final = 300
QUICK: Final = ("Slack", "Blockfrost (YAML)", "ReadMe (3.1)")
Tool = dict[str, Any]


def measure(maker: str, files: list[Path]) -> dict[str, Any]:
    """Compile the files in a separate process and return the result."""
    try:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), maker, *map(str, files)],
            capture_output=True,
            text=True,
            timeout=PEER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _failure(f"takes longer than {PEER_SECONDS} s")
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return _failure(f"ended with {done.returncode}: {done.stderr.strip()[-200:]}")
    return result


def _failure(message: str) -> dict[str, Any]:
    return {"tools": [], "seconds": None, "mb": None, "counts": {}, "causes": {}, "refused": [], "errors": [message]}


def invalid_conversions(tools: list[Tool]) -> Counter[str]:
    """Number of tools by format that the format's provider would reject, or that could not be converted."""
    from formatrules import violations

    invalid: Counter[str] = Counter()
    for name, format_ in registry.FORMATS.items():
        if name == registry.MCP:
            continue
        for start in range(0, len(tools), 100):
            part = tools[start : start + 100]
            converted = format_.convert(part, DEFAULT)
            valid = sum(not violations(name, tool, None) for tool in converted.tools)
            invalid[name] += len(part) - valid
    return +invalid


def accepted_as_they_are(documents: list[list[Tool]]) -> int:
    """Number of definitions that OpenAI and Anthropic accept with only their envelope added."""
    from formatrules import violations

    accepted = 0
    for tool in chain.from_iterable(documents):
        named = {"name": tool["name"], "description": tool.get("description") or "none"}
        function = {**named, "parameters": tool["inputSchema"]}
        accepted += not violations("openai-chat", {"type": "function", "function": function}) and not violations(
            "anthropic", {**named, "input_schema": tool["inputSchema"]}
        )
    return accepted


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable without the documents."""
    sys.path.insert(0, str(SUPPORT))
    with Stage() as stage, ExitStack() as stack:
        return _report(settings, stage, _plane(stack, stage))


def _plane(stack: ExitStack, stage: Stage) -> ControlPlane | None:
    try:
        return stack.enter_context(plane_in(stage.folder / "plane"))
    except Unmeasurable:
        return None


def _report(settings: Settings, stage: Stage, plane: ControlPlane | None) -> Report:
    files = {name: paths for name, paths in documents().items() if not settings.quick or name in QUICK}
    if plane is not None and not settings.quick:
        files["API server's own"] = served_documents(plane, stage.folder)
    report = Report(
        "openapi", notes=["seconds of processor time and MB of a process: the largest document of each API"]
    )
    counts: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    invalid: Counter[str] = Counter()
    errors: list[str] = []
    slowest, largest = 0.0, 0.0
    for name, paths in files.items():
        results = [measure("fairlead", paths) for _ in in_rounds(settings.rounds)]
        ours = min(results, key=lambda result: result["seconds"] or 0.0)
        counts.update(ours["counts"])
        causes.update(ours["causes"])
        errors += ours["errors"]
        report.notes += [f"{name}: {message}" for message in ours["refused"]]
        slowest = max(slowest, ours["seconds"] or 0.0)
        largest = max(largest, ours["mb"] or 0.0)
        for tools in ours["tools"]:
            invalid.update(invalid_conversions(tools))
        report.rows.append(_row(name, ours, settings))
        if settings.peers:
            report.rows[-1] |= _peer(measure("fastmcp", paths), report)
        settings.keep(report)
    report.notes += [f"{count:,} operations: {cause}" for cause, count in causes.most_common(12)]
    report.notes += [f"invalid for {name}: {count}" for name, count in invalid.items()]
    report.notes += errors
    if plane is None:
        report.notes.append("without an API server: hack/kubernetes/build compiles one")
    elif "GitHub" in files:
        _add_stops(report, measure_stops(stage, plane, files["GitHub"][0].read_bytes()))
    bodies = counts["with bodies"]
    report.goals += [
        Goal(
            "operations", sum(counts[outcome] for outcome in ("made", "made with loss", "left out")), "", at_least=5000
        ),
        Goal("crashes", len(errors), "", at_most=0),
        Goal("slowest document", slowest, "s", at_most=5),
        Goal("memory", largest, "MB", at_most=500),
        Goal(
            "bodies of JSON and forms without loss",
            100 * counts["bodies without loss"] / max(bodies, 1),
            "%",
            at_least=95,
        ),
        Goal("definitions that a provider rejects", sum(invalid.values()), "", at_most=0),
    ]
    return report


def _add_stops(report: Report, stops: OperatorStops) -> None:
    name = "longest stop of the operator's loop, in processor time"
    report.goals.append(Goal(name, stops.thread_ms, "ms", at_most=50))
    report.notes.append(
        f"an operator publishes {stops.tools:,} tools of GitHub: Ready after {stops.ready_seconds:.1f} s; its loop "
        f"stops for {stops.thread_ms:.0f} ms of its thread's processor time at most, {stops.wall_ms:.0f} ms by the "
        f"clock; {stops.peak_mb:.0f} MB at most"
    )


def _row(name: str, ours: dict[str, Any], settings: Settings) -> dict[str, Any]:
    counts = ours["counts"]
    row = {
        "API": name,
        "made": counts.get("made", 0),
        "with loss": counts.get("made with loss", 0),
        "left out": counts.get("left out", 0),
        "structured results": counts.get("structured results", 0),
        "s": ours["seconds"],
        "MB": ours["mb"],
    }
    return {**row, "taken as they are": accepted_as_they_are(ours["tools"])} if settings.peers else row


def _peer(theirs: dict[str, Any], report: Report) -> dict[str, Any]:
    report.notes += [f"FastMCP: {error}" for error in theirs["errors"]]
    return {
        "FastMCP: tools": sum(map(len, theirs["tools"])),
        "its crashes": len(theirs["errors"]),
        "its s": theirs["seconds"],
        "its MB": theirs["mb"],
        "its, taken as they are": accepted_as_they_are(theirs["tools"]),
    }
