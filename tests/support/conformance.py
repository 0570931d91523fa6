"""The official conformance suite against a server, bare and through the gateway, and the difference.

The suite comes from npm at a pinned version and needs Node 22, which comes from npm too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ports import free_port

SUITE: Final = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE: Final = "node@22"
REVISIONS: Final = ("2025-11-25", "2026-07-28")
ROOT: Final = Path(__file__).parents[2]
SUBJECT: Final = ROOT / "tests" / "support" / "conformance_subject.py"
BASELINE: Final = ROOT / "tests" / "conformance" / "baseline.txt"
START_SECONDS: Final = 60.0
SUITE_SECONDS: Final = 420.0
PASSED: Final = "SUCCESS"
OVERTIME: Final = ":scenario-timeout"
FAILED: Final = "FAILURE"


class CannotRun(Exception):
    """Something that the suite needs is missing; the message says what."""


@dataclass
class Outcome:
    """Result of a run: every check of a scenario by `scenario:check`, with the worst status that it had."""

    checks: dict[str, str] = field(default_factory=dict)
    passed: int = 0
    failed: int = 0

    @property
    def failing(self) -> set[str]:
        return {name for name, status in self.checks.items() if status == FAILED}

    @property
    def passing(self) -> set[str]:
        return {name for name, status in self.checks.items() if status == PASSED}


def has_npx() -> bool:
    return shutil.which("npx") is not None


def run_suite(url: str, revision: str, folder: Path) -> Outcome:
    """Run all scenarios of a revision. Raises CannotRun where npx is missing or the suite does not come."""
    npx = shutil.which("npx")
    if npx is None:
        raise CannotRun("npx is not installed")
    command = [npx, "-y", "-p", NODE, "-p", SUITE, "conformance", "server", "--url", url, "--requirements", revision]
    ran = subprocess.run(
        [*command, "-o", str(folder)], capture_output=True, text=True, timeout=SUITE_SECONDS, check=False
    )
    outcome = read_outcome(folder)
    if not outcome.checks:
        raise CannotRun(f"the suite did not run: {(ran.stderr or ran.stdout).strip()[-400:]}")
    return outcome


def read_outcome(folder: Path) -> Outcome:
    """The results that the suite left, one folder per scenario."""
    outcome = Outcome()
    for file in sorted(folder.glob("*/checks.json")):
        scenario = file.parent.name.removeprefix("server-")
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", scenario)
        for check in json.loads(file.read_text()):
            name, status = f"{scenario}:{check['id']}", check["status"]
            outcome.passed += status == PASSED
            outcome.failed += status == FAILED
            outcome.checks[name] = min(outcome.checks.get(name, status), status, key=_rank)
    return outcome


def _rank(status: str) -> int:
    """The worst first; what is neither a failure nor a success lies between."""
    return {FAILED: 0, PASSED: 2}.get(status, 1)


def baseline() -> set[str]:
    """Checks that the subject fails as well when nothing is in front of it."""
    lines = (line.partition("#")[0].strip() for line in BASELINE.read_text().splitlines())
    return {line for line in lines if line}


@contextmanager
def process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours until the block ends."""
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
    """Whether an MCP endpoint lists tools."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=2):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return error.code == 400  # a server that wants a session
    except OSError:
        return False


def await_endpoint(url: str, log: Path) -> None:
    """Raises CannotRun when it does not come up."""
    deadline = time.monotonic() + START_SECONDS
    while not answers(url):
        if time.monotonic() > deadline:
            raise CannotRun(f"{url} did not come up: {log.read_text()[-400:]}")
        time.sleep(0.1)


def gateway_over(url: str, port: int, folder: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """`fairlead up` over one server, which is `subject` there; its log is `up.log` in `folder`.

    Its tools are not probed: the suite looks at calls of its own.
    """
    spec = {"url": url, "calibration": {"probe": "Never"}}
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


@contextmanager
def subject_and_gateway(folder: Path) -> Iterator[tuple[str, str]]:
    """The URLs of the subject and of its endpoint at a gateway (`fairlead up`), on `localhost` as the suite wants."""
    bare, port = free_port(), free_port()
    direct = f"http://localhost:{bare}/mcp"
    through = f"http://localhost:{port}/servers/default/subject/mcp"
    with ExitStack() as stack:
        stack.enter_context(process([sys.executable, str(SUBJECT), str(bare)], folder / "subject.log"))
        await_endpoint(direct, folder / "subject.log")
        stack.enter_context(gateway_over(f"http://127.0.0.1:{bare}/mcp", port, folder))
        await_endpoint(through, folder / "up.log")
        yield direct, through


@dataclass
class Comparison:
    """Both runs of one revision."""

    revision: str
    bare: Outcome
    through: Outcome

    @property
    def lost(self) -> dict[str, str]:
        """Checks that pass bare and not through the gateway, with their status there."""
        missing = sorted(self.bare.passing - self.through.passing)
        return {name: self.through.checks.get(name, "not looked at") for name in missing}

    def wrong(self, known: set[str]) -> list[str]:
        """Sentences about everything that should not be."""
        said = [f"{name} passes bare and is {status} through" for name, status in self.lost.items()]
        said += [f"{name} fails bare and is not in the baseline" for name in self.bare.failing - known]
        return sorted(said)


def compare(folder: Path, revisions: tuple[str, ...] = REVISIONS) -> list[Comparison]:
    """Run everything. Raises CannotRun."""
    found = []
    with subject_and_gateway(folder) as (direct, through):
        for revision in revisions:
            bare = run_suite(direct, revision, folder / f"bare-{revision}")
            if any(name.endswith(OVERTIME) for name in bare.failing):
                # the subject asks on a stream that the suite opens beside its requests, and now and then too late
                bare = run_suite(direct, revision, folder / f"bare-again-{revision}")
            one = Comparison(revision, bare, run_suite(through, revision, folder / f"through-{revision}"))
            if one.lost:
                # the suite waits 1.5 s for a changed list, which a loaded machine may miss once
                again = run_suite(through, revision, folder / f"through-again-{revision}")
                one = Comparison(revision, bare, again)
            found.append(one)
    return found


def judge(compared: list[Comparison], known: set[str]) -> list[str]:
    """Everything that is wrong, stale entries of the baseline included."""
    failing = set().union(*(one.bare.failing for one in compared))
    said = [f"{one.revision}: {sentence}" for one in compared for sentence in one.wrong(known)]
    return said + [f"{name} stands in the baseline and does not fail" for name in sorted(known - failing)]


def run_clients(folder: Path) -> list[str]:
    """Run and print the client scenarios; sentences about those that did not pass. Raises CannotRun."""
    from conformance_clients import SCENARIOS, run  # it needs what stands here

    results = [run(one, folder / f"{one.subject}-{one.revision}-{one.name}") for one in SCENARIOS]
    print("\n".join(result.sentence for result in results))
    return [result.sentence for result in results if not result.well]


def main(folder: Path) -> int:
    """Print both and the difference; 1 when anything is wrong, 3 when it cannot run."""
    os.environ.setdefault("NO_UPDATE_NOTIFIER", "1")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        compared = compare(folder)
        for one in compared:
            bare, through = f"{one.bare.passed}/{one.bare.failed}", f"{one.through.passed}/{one.through.failed}"
            print(f"{one.revision}: bare {bare}, through the gateway {through} (checks passed/failed)")
        wrong = judge(compared, baseline()) + run_clients(folder)
    except CannotRun as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 3
    well = "every check that passes bare passes through the gateway, and all of clients pass"
    print("\n".join(wrong) if wrong else well)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
