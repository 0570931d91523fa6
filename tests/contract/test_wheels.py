"""Wheels: compiled wheels of a release for each supported interpreter, and a pure wheel from any tree."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_a_release_has_a_compiled_wheel_for_each_interpreter_that_is_supported() -> None:
    settings = PROJECT["tool"]["cibuildwheel"]
    versions = [
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["project"]["classifiers"]
        if ":: Python :: 3" in classifier
    ]

    assert settings["build"] == [f"cp{version.replace('.', '')}-*" for version in versions]
    assert settings["environment"] == {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true"}
    assert ", compiled" in settings["test-command"]


def test_the_release_workflow_builds_for_each_kind_of_machine_and_checks_what_is_built_here() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    steps = [step.get("run", "") for job in jobs.values() for step in job["steps"]]

    machines = ["ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "macos-15-intel"]
    assert jobs["compiled"]["strategy"]["matrix"]["runner"] == machines
    assert any("cibuildwheel --output-dir" in step for step in steps)
    assert "hack/release --dry-run --only wheels" in steps
    assert "hack/release --dry-run --only install" in steps


def test_only_the_job_that_publishes_packages_has_the_identity_that_the_index_trusts() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    jobs = workflow["jobs"]

    assert workflow["permissions"] == {"contents": "read"}
    assert jobs["pypi"]["permissions"] == {"id-token": "write"}
    assert [name for name, job in jobs.items() if "environment" in job] == ["pypi"]
    writing = {name for name, job in jobs.items() if "write" in job.get("permissions", {}).values()}
    assert all("if" in jobs[name] or name == "image" for name in writing)  # `image` pushes if there is a tag


def test_without_being_asked_the_wheel_is_pure_python(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, timeout=50, check=True)

    (wheel,) = tmp_path.glob("*.whl")

    assert wheel.name.endswith("-py3-none-any.whl")
    held = set(ZipFile(wheel).namelist())
    assert [name for name in held if name.endswith(".so")] == []
    for package in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        parent = Path(package).parent
        files = subprocess.run(
            ["git", "ls-files", package], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        wanted = {str(Path(name).relative_to(parent)) for name in files.splitlines()}
        assert {name for name in wanted if not name.endswith("/NOTICE")} <= held


@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.timeout(1800)  # compiles, and fetches a gateway's dependencies
def test_a_compiled_wheel_and_a_pure_one_install_in_a_fresh_environment_and_call_tools() -> None:
    done = subprocess.run(
        ["hack/wheel", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=1700, check=False
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert ", compiled" in done.stdout
    assert "-py3-none-any.whl: installed" in done.stdout


def test_images_are_built_from_every_package_of_the_wheel() -> None:
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert [package for package in packages if f"!{package}" not in lines] == []
