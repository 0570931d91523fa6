"""Runs the official conformance suite with a server, directly and through the gateway, and compares the results.

The suite comes from npm at a pinned version and needs Node 22, which comes from npm too.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from conformance_outcome import Outcome, Subject, keep, read_outcome, stored_outcome
from ports import free_port

SUITE: Final = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE: Final = "node@22"
REVISIONS: Final = ("2025-11-25", "2026-07-28")
ROOT: Final = Path(__file__).parents[2]
SUBJECT: Final = ROOT / "tests" / "support" / "conformance_subject.py"
TASKS_SUBJECT: Final = ROOT / "tests" / "support" / "conformance_tasks.py"
TASKS_LIBRARY: Final = "fastmcp[tasks]==4.1.2"
TASK_SCENARIOS: Final = (
    "tasks-capability-negotiation",
    "tasks-dispatch-and-envelope",
    "tasks-lifecycle",
    "tasks-mrtr-composition",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-request-state-removal",
    "tasks-required-task-error",
    "tasks-status-notifications",
    "tasks-wire-fields",
)
BASELINE: Final = ROOT / "tests" / "conformance" / "baseline.txt"
START_SECONDS: Final = 60.0
SUITE_SECONDS: Final = 420.0
OF_SDK: Final = Subject(
    "sdk",
    (SUBJECT, SUBJECT.with_name("conformance_offers.py"), SUBJECT.with_name("conformance_questions.py")),
    (f"mcp {version('mcp')}", SUITE, NODE),
)
OF_TASKS: Final = Subject("tasks", (TASKS_SUBJECT,), (TASKS_LIBRARY, SUITE, NODE))
PER_CLIENT: Final = "PerClient"
OVERTIME: Final = ":scenario-timeout"


class CannotRun(Exception):
    """The suite's requirements are not met; the message says which."""


def has_npx() -> bool:
    return shutil.which("npx") is not None


@functools.cache
def suite_path() -> str:
    """PATH with the suite and its Node, which npx installs at the first use; calling npx itself takes a second.

    Raises CannotRun without npx, or if the download fails.
    """
    npx = shutil.which("npx")
    if npx is None:
        raise CannotRun("npx is not installed")
    command = [npx, "-y", "-p", NODE, "-p", SUITE, "sh", "-c", 'command -v conformance >&2 && printf %s "$PATH"']
    ran = subprocess.run(command, capture_output=True, text=True, timeout=SUITE_SECONDS, check=False)
    if ran.returncode:
        raise CannotRun(f"npx does not install the suite: {ran.stderr.strip()[-400:]}")
    return ran.stdout


def run_suite(url: str, revision: str, folder: Path) -> Outcome:
    """Run all scenarios of a revision. Raises CannotRun without npx, or if the download fails."""
    command = ["conformance", "server", "--url", url, "--requirements", revision, "-o", str(folder)]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS,
        check=False,
        env={**os.environ, "PATH": suite_path()},
    )
    outcome = read_outcome(folder)
    if not outcome.checks:
        raise CannotRun(f"the suite did not run: {(ran.stderr or ran.stdout).strip()[-400:]}")
    return outcome


def run_tasks(url: str, folder: Path) -> Outcome:
    """Run the scenarios of the tasks extension. Raises CannotRun like `run_suite`."""
    each = 'printf "%s\\n" "$@" | xargs -P 4 -I {} conformance server --url "$URL" --scenario {} -o "$FOLDER"'
    command = ["sh", "-c", each, "sh", *TASK_SCENARIOS]  # the scenarios mostly wait
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS,
        check=False,
        env={**os.environ, "PATH": suite_path(), "URL": url, "FOLDER": str(folder)},
    )
    outcome = read_outcome(folder, tasks=True)
    if not outcome.checks:
        raise CannotRun(f"the suite did not run: {(ran.stderr or ran.stdout).strip()[-400:]}")
    return outcome


def baseline() -> set[str]:
    """Checks that the subject is known to fail without a gateway."""
    lines = (line.partition("#")[0].strip() for line in BASELINE.read_text().splitlines())
    return {line for line in lines if line}


@contextmanager
def process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the block ends."""
    with log.open("wb") as out:
        started = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
        try:
            yield started
        finally:
            started.send_signal(signal.SIGINT)
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


def answers(url: str) -> bool:
    """Whether an MCP endpoint answers `tools/list`."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=2):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return error.code == 400  # a server that requires a session
    except OSError:
        return False


def await_endpoint(url: str, log: Path) -> None:
    """Wait for an MCP endpoint. Raises CannotRun when time is up."""
    deadline = time.monotonic() + START_SECONDS
    while not answers(url):
        if time.monotonic() > deadline:
            raise CannotRun(f"{url} did not come up: {log.read_text()[-400:]}")
        time.sleep(0.1)


def gateway_over(
    url: str, port: int, folder: Path, session: str = "Shared"
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run `fairlead up` with one server, which is named `subject` and has this `spec.session`. The log is `up.log` in
    `folder`.

    The tools are not probed, because the suite checks the calls that the server receives.
    """
    spec = {"url": url, "session": session, "calibration": {"probe": "Never"}}
    subject = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "McpServer",
        "metadata": {"name": "subject"},
        "spec": spec,
    }
    manifest = folder / "subject.yaml"
    manifest.write_text(json.dumps(subject))
    up = [sys.executable, "-m", "fairlead_cli", "up", str(manifest), "--plain"]
    return process([*up, "--port", str(port), "--metrics-port", "0"], folder / "up.log")


def tasks_command() -> list[str]:
    """Command of the subject with tasks, whose dependency uv downloads. Raises CannotRun without uv."""
    uv = shutil.which("uv") or shutil.which(str(Path(sys.executable).parent / "uv"))
    if uv is None:
        raise CannotRun("uv is not installed")
    return [
        uv,
        "run",
        "--quiet",
        "--no-project",
        "--python",
        sys.executable,
        "--with",
        TASKS_LIBRARY,
        str(TASKS_SUBJECT),
    ]


@contextmanager
def subject_and_gateway(folder: Path, command: list[str], session: str = "Shared") -> Iterator[tuple[str, str]]:
    """URLs of the subject, and of its endpoint at a gateway (`fairlead up`), with `localhost` as the suite requires."""
    folder.mkdir(parents=True, exist_ok=True)
    bare = free_port()
    port = free_port()
    direct = f"http://localhost:{bare}/mcp"
    through = f"http://localhost:{port}/servers/default/subject/mcp"
    with ExitStack() as stack:
        stack.enter_context(process([*command, str(bare)], folder / "subject.log"))
        await_endpoint(direct, folder / "subject.log")
        stack.enter_context(gateway_over(f"http://127.0.0.1:{bare}/mcp", port, folder, session))
        await_endpoint(through, folder / "up.log")
        yield direct, through


@dataclass
class Comparison:
    """Both runs of one revision or of the tasks extension: without and with a gateway."""

    revision: str
    bare: Outcome
    through: Outcome
    measured: bool = True
    """Whether the run without a gateway is new. Otherwise its outcome was read from the stored file."""

    @property
    def lost_checks(self) -> dict[str, str]:
        """Checks that pass without a gateway and not through it, with their status there."""
        missing = sorted(self.bare.passing_checks - self.through.passing_checks)
        return {name: self.through.checks.get(name, "not looked at") for name in missing}

    def wrong(self, baseline: set[str]) -> list[str]:
        """Sentences about all unexpected results."""
        complaints = [f"{name} passes bare and is {status} through" for name, status in self.lost_checks.items()]
        complaints += [f"{name} fails bare and is not in the baseline" for name in self.bare.failing_checks - baseline]
        return sorted(complaints)


def compare(folder: Path, revisions: tuple[str, ...] = REVISIONS, *, per_client: bool = True) -> list[Comparison]:
    """Run all comparisons. The run without a gateway is skipped if its outcome is stored. With `per_client`, the tasks
    also run through a second gateway, whose server is `PerClient`. Raises CannotRun.
    """
    comparisons = []
    with subject_and_gateway(folder, [sys.executable, str(SUBJECT)]) as (direct, through):
        for revision in revisions:
            outcome = stored_outcome(OF_SDK, revision)
            bare = _bare(direct, revision, folder) if outcome is None else outcome
            comparison = Comparison(
                revision, bare, run_suite(through, revision, folder / f"through-{revision}"), not outcome
            )
            if comparison.lost_checks:
                # the suite waits 1.5 s for a changed list, which a busy machine may exceed once
                comparison.through = run_suite(through, revision, folder / f"through-again-{revision}")
            comparisons.append(comparison)
    with subject_and_gateway(folder / "tasks", tasks_command()) as (direct, through):
        outcome = stored_outcome(OF_TASKS, OF_TASKS.name)
        bare = run_tasks(direct, folder / "bare-tasks") if outcome is None else outcome
        comparisons.append(Comparison(OF_TASKS.name, bare, run_tasks(through, folder / "through-tasks"), not outcome))
    if not per_client:
        return comparisons
    with subject_and_gateway(folder / "per-client", tasks_command(), PER_CLIENT) as (_, through):
        own = run_tasks(through, folder / "through-per-client")
        comparisons.append(Comparison(f"{OF_TASKS.name} with {PER_CLIENT}", bare, own, measured=False))
    return comparisons


def _bare(url: str, revision: str, folder: Path) -> Outcome:
    bare = run_suite(url, revision, folder / f"bare-{revision}")
    if any(name.endswith(OVERTIME) for name in bare.failing_checks):
        # the subject asks on a separate stream that the suite opens, sometimes too late
        bare = run_suite(url, revision, folder / f"bare-again-{revision}")
    return bare


def keep_bare(compared: list[Comparison]) -> list[str]:
    """Store the new runs without a gateway of subjects that were run completely. Returns the subjects' names."""
    written = []
    for subject, runs in ((OF_SDK, REVISIONS), (OF_TASKS, (OF_TASKS.name,))):
        made = {
            comparison.revision: comparison.bare
            for comparison in compared
            if comparison.revision in runs and comparison.measured
        }
        if made.keys() == {*runs}:
            keep(subject, made)
            written.append(subject.name)
    return written


def judge(compared: list[Comparison], baseline: set[str]) -> list[str]:
    """All unexpected results, including stale entries of the baseline."""
    failing = set().union(*(comparison.bare.failing_checks for comparison in compared))
    complaints = [
        f"{comparison.revision}: {sentence}" for comparison in compared for sentence in comparison.wrong(baseline)
    ]
    return complaints + [f"{name} stands in the baseline and does not fail" for name in sorted(baseline - failing)]


def run_clients(folder: Path) -> list[str]:
    """Run and print the client scenarios. Returns sentences about those that failed. Raises CannotRun."""
    from conformance_clients import SCENARIOS, run  # it needs the modules of this folder

    results = [
        run(scenario, folder / f"{scenario.subject}-{scenario.revision}-{scenario.name}") for scenario in SCENARIOS
    ]
    print("\n".join(result.sentence for result in results))
    return [result.sentence for result in results if not result.well]


def main(folder: Path) -> int:
    """Print both runs and the difference. Returns 1 for unexpected results, 3 if the suite cannot run."""
    os.environ.setdefault("NO_UPDATE_NOTIFIER", "1")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        compared = compare(folder)
        for comparison in compared:
            bare = f"{comparison.bare.passed}/{comparison.bare.failed}"
            through = f"{comparison.through.passed}/{comparison.through.failed}"
            print(f"{comparison.revision}: bare {bare}, through the gateway {through} (checks passed/failed)")
        for name in keep_bare(compared):
            print(f"tests/conformance/bare.json has new runs of {name} without a gateway: commit it")
        wrong = judge(compared, baseline()) + run_clients(folder)
    except CannotRun as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 3
    well = "every check that passes bare passes through the gateway, and all of clients pass"
    print("\n".join(wrong) if wrong else well)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
