"""Outcomes of runs of the conformance suite. Those of its subjects without a gateway are stored in the repository.

Without a gateway, a subject has the same outcome as long as the subject, its library and the suite are unchanged. Its
stored outcome then replaces a run of minutes. `hack/conformance` updates the file when one of them has changed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

PASSED: Final = "SUCCESS"
FAILED: Final = "FAILURE"
TASKS: Final = "tasks-"
"""Prefix of scenarios of the tasks extension. The SDK lacks it, so a separate subject is used."""
KEPT: Final = Path(__file__).parents[2] / "tests" / "conformance" / "bare.json"


@dataclass
class Outcome:
    """Result of a run: for every check, as `scenario:check`, its worst status."""

    checks: dict[str, str] = field(default_factory=dict)
    passed: int = 0
    failed: int = 0

    @property
    def failing_checks(self) -> set[str]:
        return {name for name, status in self.checks.items() if status == FAILED}

    @property
    def passing_checks(self) -> set[str]:
        return {name for name, status in self.checks.items() if status == PASSED}


def read_outcome(folder: Path, *, tasks: bool = False) -> Outcome:
    """Read the suite's results, one folder per scenario: those of the tasks extension, or all others."""
    outcome = Outcome()
    for file in sorted(folder.glob("*/checks.json")):
        scenario = file.parent.name.removeprefix("server-")
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", scenario)
        if scenario.startswith(TASKS) is not tasks:
            continue
        for check in json.loads(file.read_text()):
            name = f"{scenario}:{check['id']}"
            status = check["status"]
            outcome.passed += status == PASSED
            outcome.failed += status == FAILED
            outcome.checks[name] = min(outcome.checks.get(name, status), status, key=_rank)
    return outcome


def _rank(status: str) -> int:
    """Severity of a status, worst first; unknown statuses are between failure and success."""
    return {FAILED: 0, PASSED: 2}.get(status, 1)


@dataclass(frozen=True)
class Subject:
    """A server that the suite tests: its source files, and the versions of what it runs with."""

    name: str
    files: tuple[Path, ...]
    made_with: tuple[str, ...]
    """Versions of its library, of the suite and of Node."""

    @property
    def key(self) -> dict[str, Any]:
        """Hash and versions, which change when the outcome of a run without a gateway may change."""
        source = hashlib.sha256(b"\0".join(file.read_bytes() for file in self.files)).hexdigest()
        return {"source": source, "madeWith": [*self.made_with]}


def stored_outcome(subject: Subject, run: str, file: Path = KEPT) -> Outcome | None:
    """Stored outcome of a run without a gateway; None if there is none for this version of the subject."""
    document = _read(file).get(subject.name, {})
    stored = document.get("runs", {}).get(run) if document.get("key") == subject.key else None
    if stored is None:
        return None
    checks = {name: status for status, names in stored["checks"].items() for name in names}
    return Outcome(checks, stored["passed"], stored["failed"])


def keep(subject: Subject, runs: Mapping[str, Outcome], file: Path = KEPT) -> None:
    """Write the outcomes of all runs of a subject without a gateway, replacing the previous ones."""
    documents_of_runs = {
        run: {"passed": outcome.passed, "failed": outcome.failed, "checks": _by_status(outcome.checks)}
        for run, outcome in runs.items()
    }
    documents = {**_read(file), subject.name: {"key": subject.key, "runs": documents_of_runs}}
    file.write_text(json.dumps(documents, indent=1, sort_keys=True) + "\n")


def _by_status(checks: Mapping[str, str]) -> dict[str, list[str]]:
    names_by_status: dict[str, list[str]] = {}
    for name, status in sorted(checks.items()):
        names_by_status.setdefault(status, []).append(name)
    return names_by_status


def _read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text())) if file.exists() else {}
