"""The client scenarios of the conformance suite, with our client code as their subject.

Scenarios of OAuth (`auth/*`) are left out, because these clients only send credentials that they were given.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance import ROOT, CannotRun, suite_path
from conformance_outcome import PASSED, read_outcome

DRIVER: Final = ROOT / "tests" / "support" / "conformance_driver.py"
SCENARIO_SECONDS: Final = 120
SOFT: Final = frozenset({"INFO", "SKIPPED"})
"""Statuses of a scenario's remarks, and of optional parts."""


@dataclass(frozen=True)
class Scenario:
    """One scenario of the suite at one revision, for one of our clients."""

    name: str
    revision: str
    subject: str


def _all(subject: str, revision: str, *names: str) -> list[Scenario]:
    return [Scenario(name, revision, subject) for name in names]


SCENARIOS: Final = (
    *_all("session", "2025-11-25", "initialize", "tools_call", "sse-retry", "json-schema-2020-12-preservation"),
    *_all(
        "session",
        "2026-07-28",
        "tools_call",
        "request-metadata",
        "http-standard-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ),
    *_all(
        "gateway",
        "2025-11-25",
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ),
    *_all(
        "gateway",
        "2026-07-28",
        "tools_call",
        "request-metadata",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
        "sep-2322-client-request-state",
    ),
)


@dataclass(frozen=True)
class Result:
    """Result of a scenario: number of passed checks, and the other checks by status."""

    scenario: Scenario
    passed: int
    missed: dict[str, str]
    output: str
    """Output of the suite and of Fairlead's client."""

    @property
    def sentence(self) -> str:
        scenario = self.scenario
        missed = "".join(f", {name} is {status}" for name, status in self.missed.items())
        return f"{scenario.subject} as client, {scenario.revision} {scenario.name}: {self.passed} passed{missed}"

    @property
    def well(self) -> bool:
        return self.passed > 0 and not self.missed


def run(scenario: Scenario, folder: Path) -> Result:
    """Run one scenario. Raises CannotRun without npx, or if the download fails."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        "conformance",
        "client",
        "--command",
        f"{sys.executable} {DRIVER} {scenario.subject}",
        "--scenario",
        scenario.name,
        "--spec-version",
        scenario.revision,
        "--timeout",
        str(SCENARIO_SECONDS * 1000),
        "-o",
        str(folder),
    ]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SCENARIO_SECONDS * 2,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PATH": suite_path()},
    )
    outcome = read_outcome(folder)
    if not outcome.checks:
        raise CannotRun(f"{scenario.name} did not run: {(ran.stderr or ran.stdout).strip()[-400:]}")
    missed = {name: status for name, status in outcome.checks.items() if status not in (PASSED, *SOFT)}
    return Result(scenario, outcome.passed, missed, ran.stdout + ran.stderr)
