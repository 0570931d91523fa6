"""Workflows agree with the scripts that they run, with the supported interpreters, and with each other."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".ci" / "run"
WORKFLOWS = {file.stem: yaml.safe_load(file.read_text()) for file in (ROOT / ".github" / "workflows").glob("*.yml")}


def jobs(name: str) -> dict[str, Any]:
    jobs_of_workflow: dict[str, Any] = WORKFLOWS[name]["jobs"]
    return jobs_of_workflow


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def scopes() -> dict[str, set[str]]:
    """Parts of each scope of `.ci/run`."""
    lines = re.findall(r"^  (pr|merge|nightly)\) parts=\(([a-z0-9 ]+)\) ;;$", SCRIPT.read_text(), re.MULTILINE)
    return {scope: set(parts.split()) for scope, parts in lines}


def parts_run(name: str) -> Iterator[tuple[str, str]]:
    """Parts of `.ci/run` that a workflow runs: `part`, and the job's condition."""
    for job in jobs(name).values():
        for command in commands(job):
            if match := re.search(r'\.ci/run (?:"\$PART"|(\w+))', command):
                for part in [match[1]] if match[1] else job["strategy"]["matrix"]["part"]:
                    yield part, str(job.get("if", ""))


def test_a_pull_request_and_the_merge_queue_run_the_parts_of_their_scope() -> None:
    ran = list(parts_run("ci"))
    for scope, event in (("pr", "pull_request"), ("merge", "merge_group")):
        parts = {part for part, condition in ran if not condition or f"'{event}'" in condition}
        assert parts == scopes()[scope], scope


def test_nightly_workflows_run_every_part_of_the_night() -> None:
    assert {part for part, _ in parts_run("nightly")} == scopes()["nightly"] - {"check"}


def test_the_check_of_a_branch_stands_for_all_jobs() -> None:
    assert set(jobs("ci")["all"]["needs"]) == jobs("ci").keys() - {"all"}


def test_nightly_workflows_pair_each_python_with_both_ends_of_kubernetes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = [
        classifier.rpartition(" ")[2] for classifier in project["classifiers"] if ":: Python :: 3" in classifier
    ]
    assert jobs("nightly")["tests"]["strategy"]["matrix"] == {"python": versions, "kubernetes": ["oldest", "newest"]}


@pytest.mark.parametrize("name", ["ci", "nightly"])
def test_tests_of_a_cluster_are_not_skipped_in_silence(name: str) -> None:
    on_clusters = [job for job in jobs(name).values() if {".ci/run e2e", ".ci/run smoke"} & {*commands(job)}]
    assert on_clusters
    for job in on_clusters:
        first, possible, _ = commands(job)
        assert first == 'hack/kubernetes/kind install >>"$GITHUB_PATH"'
        assert possible.partition(" #")[0] == "hack/e2e --possible"


def test_scripts_that_are_run_are_there() -> None:
    texts = [SCRIPT.read_text(), *(file.read_text() for file in (ROOT / ".github").rglob("*.yml"))]
    named = {name for text in texts for name in re.findall(r"(?<![\w/'])hack/[a-z0-9/]+(?![\w.*/'])", text)}
    assert {"hack/test", "hack/check", "hack/e2e", "hack/bench"} <= named
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_an_unknown_scope_is_refused_before_anything_is_installed() -> None:
    done = subprocess.run([SCRIPT], env={"CI_SCOPE": "all"}, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (2, "CI_SCOPE=all: pr, merge or nightly\n")


def updated_folders(ecosystem: str) -> set[str]:
    """Folders that Dependabot updates, without leading slash."""
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    (update,) = [update for update in updates if update["package-ecosystem"] == ecosystem]
    return {folder.strip("/") for folder in update.get("directories", [update.get("directory")])}


@pytest.mark.parametrize(
    ("ecosystem", "file", "left_out"),
    [("docker", "Dockerfile", set()), ("gomod", "go.mod", {"tests/support/foreign_readers/go"})],
)
def test_dependencies_of_every_image_and_go_module_are_kept_new(ecosystem: str, file: str, left_out: set[str]) -> None:
    listed = subprocess.run(["git", "ls-files", f"**/{file}"], cwd=ROOT, capture_output=True, text=True, check=True)
    folders = {path.rpartition("/")[0] for path in listed.stdout.split()} - left_out
    assert folders
    assert {
        folder for folder in folders if not any(Path(folder).match(pattern) for pattern in updated_folders(ecosystem))
    } == set()


def test_each_line_of_owners_names_what_is_there() -> None:
    lines = [line.split() for line in (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()]
    paths = [words[0] for words in lines if words and not words[0].startswith("#")]
    assert [path for path in paths if path != "*" and not (ROOT / path.strip("/")).exists()] == []
