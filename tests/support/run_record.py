"""Record of a test run: wall and processor seconds of each test, fixture and step, and the memory of workers.

The plugin writes one line of JSON per event to a file per process, in the folder that `hack/test` names by RECORD;
`hack/test` adds the steps of a run. As a program it prints what took longest, or how a run ended:

    python -m run_record slowest FOLDER [ROWS]
    python -m run_record outcome FOLDER
    python -m run_record seconds FOLDER [EARLIER]    processor seconds by test file, as JSON, after those of EARLIER
    python -m run_record shards FOLDER               the same for the tests of pull requests alone, in whole seconds
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, Final, TextIO

import pytest

import forkserver

RECORD: Final = "FAIRLEAD_TEST_RECORD"
"""Environment variable with the folder of the record. Without it, nothing is recorded."""
LEFT_OUT: Final = frozenset({"timing", "network", "chaos", "nightly"})
"""Marks of tests that do not run for pull requests."""
PAGE_MB: Final = os.sysconf("SC_PAGE_SIZE") / 1e6

Event = dict[str, Any]


def processor_s() -> float:
    """Processor seconds of this process, its children, and finished commands of its fork server."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + forkserver.processor_s()


def resident_mb() -> float:
    """Resident memory of this process in MB; 0 where there is no /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_MB
    except OSError:
        return 0.0


class RunRecorder:
    """Pytest plugin that records one process of a run: xdist's workers each record their own tests."""

    def __init__(self, folder: Path, process: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = (folder / f"{process}-{os.getpid()}.jsonl").open("a", encoding="utf-8")
        self._process = process
        self._outcome: dict[str, tuple[str, str]] = {}

    def _record(self, event: Event, began_s: float, processor_began_s: float) -> None:
        event["wall_s"] = round(time.perf_counter() - began_s, 4)
        event["cpu_s"] = round(processor_s() - processor_began_s, 4)
        self._file.write(json.dumps(event) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        began_s = time.perf_counter()
        processor_began_s = processor_s()
        try:
            return (yield)
        finally:
            self._record({"collection": self._process}, began_s, processor_began_s)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        began_s = time.perf_counter()
        processor_began_s = processor_s()
        memory_mb = resident_mb()
        try:
            return (yield)
        finally:
            outcome, reason = self._outcome.pop(item.nodeid, ("failed", "its process ended"))
            event: Event = {"test": item.nodeid, "outcome": outcome, "process": self._process}
            if reason:
                event["reason"] = reason
            if marks := sorted(LEFT_OUT.intersection(mark.name for mark in item.iter_markers())):
                event["marks"] = marks
            event["rss_mb"] = round(resident_mb(), 1)
            event["grown_mb"] = round(event["rss_mb"] - memory_mb, 1)
            self._record(event, began_s, processor_began_s)
            self._file.flush()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        began_s = time.perf_counter()
        processor_began_s = processor_s()
        try:
            return (yield)
        finally:
            event: Event = {"fixture": fixturedef.argname, "scope": fixturedef.scope, "of": fixturedef.baseid}
            self._record(event, began_s, processor_began_s)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the worst result of setup, call and teardown."""
        if report.failed:
            self._outcome[report.nodeid] = ("failed", "")
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self._outcome.setdefault(report.nodeid, ("skipped", reason.removeprefix("Skipped: ")))
        elif report.when == "call":
            self._outcome.setdefault(report.nodeid, ("passed", ""))

    def pytest_unconfigure(self) -> None:
        self._file.close()


def register(config: pytest.Config) -> None:
    """Record this process where RECORD names a folder, unless it only hands tests to workers. Runs of pytest that tests
    start, some of which have to fail, are not recorded.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker and config.getoption("numprocesses", None):
        return
    if folder := os.environ.pop(RECORD, None):
        config.pluginmanager.register(RunRecorder(Path(folder), worker or "main"), "run-recorder")


def read(folder: Path) -> list[Event]:
    """Events of all processes of a run. An incomplete line of a killed process is ignored."""
    events = []
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
    return events


def _table(title: str, rows: Iterable[tuple[str, ...]], heads: tuple[str, ...]) -> str:
    """Columns, right-aligned except for the last."""
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads) - 1)]
    aligned = [
        "  ".join([*(cell.rjust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]) for line in lines
    ]
    return "\n".join([f"== {title}", *aligned, ""])


def slowest(events: list[Event], rows: int) -> str:
    """Tables of what took the most processor time (steps, files, tests, fixtures), and of the workers' memory."""
    tests = [event for event in events if "test" in event]
    files: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
    for event in tests:
        of_file = files[event["test"].partition("::")[0]]
        of_file[0] += event["cpu_s"]
        of_file[1] += event["wall_s"]
        of_file[2] += 1
    fixtures: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
    for event in events:
        if "fixture" in event:
            of_fixture = fixtures[f"{event['fixture']} ({event['scope']}) {event['of']}"]
            of_fixture[0] += event["cpu_s"]
            of_fixture[1] += event["wall_s"]
            of_fixture[2] += 1
    heads = ("cpu s", "wall s", "tests", "file")
    texts = []
    steps = [event for event in events if "step" in event or "collection" in event]
    if steps:
        named = [(f"{_processor_s(event):.1f}", f"{event['wall_s']:.1f}", _step(event)) for event in steps]
        texts.append(_table("Steps", named, ("cpu s", "wall s", "step")))
    for title, sums, head in (("Files", files, heads), ("Fixtures", fixtures, (*heads[:2], "times", "fixture"))):
        ranked = sorted(sums.items(), key=lambda item: -item[1][0])[:rows]
        total = sum(values[0] for values in sums.values())
        lines = [(f"{cpu:.1f}", f"{wall:.1f}", f"{count:.0f}", name) for name, (cpu, wall, count) in ranked]
        texts.append(_table(f"{title}: {len(sums)}, {total:.0f} s of processor time", lines, head))
    ranked_tests = sorted(tests, key=lambda event: -event["cpu_s"])[:rows]
    lines_of_tests = [(f"{event['cpu_s']:.1f}", f"{event['wall_s']:.1f}", event["test"]) for event in ranked_tests]
    texts.append(_table(f"Tests: {len(tests)}", lines_of_tests, ("cpu s", "wall s", "test")))
    grown = sorted(tests, key=lambda event: -event["grown_mb"])[:rows]
    peaks = Counter({event["process"]: 0.0 for event in tests})
    for event in tests:
        peaks[event["process"]] = max(peaks[event["process"]], event["rss_mb"])
    held = ", ".join(f"{process} {peak:.0f} MB" for process, peak in sorted(peaks.items()))
    lines_of_memory = [(f"{event['grown_mb']:.1f}", f"{event['rss_mb']:.0f}", event["test"]) for event in grown]
    texts.append(_table(f"Memory: {held}", lines_of_memory, ("grown MB", "RSS MB", "test")))
    return "\n".join(texts)


def _processor_s(step: Event) -> float:
    """Processor seconds of a step, whose parts a shell reports separately."""
    return float(step["cpu_s"] if "cpu_s" in step else step["cpu_user_s"] + step["cpu_system_s"])


def _step(event: Event) -> str:
    return str(event.get("step") or f"collecting in {event['collection']}")


def outcome(events: list[Event]) -> str:
    """Reasons of skipped tests, then the counts in one line. For a test that ran twice, the last result counts."""
    last = {event["test"]: event for event in events if "test" in event}
    counts = Counter(event["outcome"] for event in last.values())
    reasons = Counter(event.get("reason", "") for event in last.values() if event["outcome"] == "skipped")
    lines = [f"skipped {count}: {reason or 'no reason given'}" for reason, count in reasons.most_common()]
    numbers = f"{counts['passed']:,} tests passed, {counts['failed']:,} failed, {counts['skipped']:,} skipped"
    return "\n".join([*lines, numbers])


def seconds_of_files(events: list[Event], *, pull_request: bool = False) -> dict[str, float]:
    """Processor seconds by test file, for all tests or for those of pull requests."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for event in events:
        if "test" in event and not (pull_request and event.get("marks")):
            seconds[event["test"].partition("::")[0]] += event["cpu_s"]
    return {file: round(spent_s, 2) for file, spent_s in sorted(seconds.items())}


def seconds_before(file: str = "") -> dict[str, float]:
    """Seconds of an earlier run by test file, of those that are still there; none without a readable file."""
    try:
        seconds: dict[str, float] = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {test: spent_s for test, spent_s in seconds.items() if Path(test).exists()}


def seconds_of_shards(events: list[Event]) -> dict[str, int]:
    """Processor seconds by file for pull requests, without files below a second."""
    rounded = {file: round(spent_s) for file, spent_s in seconds_of_files(events, pull_request=True).items()}
    return {file: spent_s for file, spent_s in rounded.items() if spent_s}


if __name__ == "__main__":
    verb, where, *more = sys.argv[1:]
    recorded = read(Path(where))
    tell = {
        "slowest": lambda: slowest(recorded, int(more[0]) if more else 20),
        "outcome": lambda: outcome(recorded),
        "seconds": lambda: json.dumps(seconds_before(*more) | seconds_of_files(recorded), indent=0),
        "shards": lambda: json.dumps(seconds_of_shards(recorded), indent=0),
    }
    sys.stdout.write(f"{tell[verb]()}\n")
