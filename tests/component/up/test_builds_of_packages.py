"""Installing a package runs none of its code unless its manifest allows that, and even then the code gets no secret."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from curiouspackages import NAME, VERSION, curious_npm, curious_sdist
from fairlead_operator.local.runner import main
from neededprograms import needs
from upprocess import fairlead_up

NPM = needs("npm")
ROOT = Path(__file__).parents[3]
SECRETS = {"AWS_SECRET_ACCESS_KEY": "hidden", "GITHUB_TOKEN": "hidden", "FAIRLEAD_PULL_TOKEN": "hidden"}
SURROUNDINGS = {"NO_PROXY": "127.0.0.1", "SSL_CERT_DIR": "/etc/ssl/certs"}


def manifest(folder: Path, registry: str, **more: Any) -> Path:
    package = {"registry": registry, "name": NAME, "version": VERSION, **more}
    file = folder / "curious.json"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "fairlead.dev/v1alpha1",
                "kind": "McpServer",
                "metadata": {"name": NAME},
                "spec": {"package": package},
            }
        )
    )
    return file


def from_pypi(folder: Path) -> dict[str, str]:
    """Environment of an installation that finds the package, whose build writes the file of `seen_environment`."""
    curious_sdist(folder / "index", folder / "seen")
    return {"UV_OFFLINE": "1", "UV_FIND_LINKS": str(folder / "index"), "XDG_CACHE_HOME": str(folder / "cache")}


def seen_environment(folder: Path) -> dict[str, str] | None:
    """The environment that the package's code got; None if no code ran."""
    file = folder / "seen"
    return json.loads(file.read_text()) if file.exists() else None


async def test_a_package_that_has_to_be_built_is_refused_with_the_way_to_allow_it(tmp_path: Path) -> None:
    env = {**from_pypi(tmp_path), **SECRETS}
    async with fairlead_up(manifest(tmp_path, "pypi"), cwd=tmp_path, env=env) as up:
        failed = await up.server(f"default/{NAME}", "failed", within=60)
    assert failed["cause"] == "InstallFailed"
    assert "set package.allowBuild to true in the spec" in failed["message"]
    assert seen_environment(tmp_path) is None


async def test_a_build_that_is_allowed_sees_no_secret_of_ours(tmp_path: Path) -> None:
    env = {**from_pypi(tmp_path), **SECRETS, **SURROUNDINGS, "npm_config_token": "hidden"}
    async with fairlead_up(manifest(tmp_path, "pypi", allowBuild=True), cwd=tmp_path, env=env) as up:
        failed = await up.server(f"default/{NAME}", "failed", within=60)
    assert "it contains no program to run" in failed["message"], "it was installed"
    environment = seen_environment(tmp_path)
    assert environment is not None
    assert "hidden" not in environment.values()
    assert {**environment, **SURROUNDINGS} == environment
    assert environment["UV_OFFLINE"] == "1"


@NPM
async def test_install_scripts_are_not_run_and_a_server_that_fails_then_says_how_to_allow_them(tmp_path: Path) -> None:
    with curious_npm(tmp_path / "seen") as registry:
        env = {"npm_config_registry": registry, "XDG_CACHE_HOME": str(tmp_path / "cache"), **SECRETS}
        env["npm_config_cache"] = str(tmp_path / "npm")
        async with fairlead_up(manifest(tmp_path, "npm"), cwd=tmp_path, env=env) as up:
            failed = await up.server(f"default/{NAME}", "failed", within=60)
    assert f"install scripts of {NAME} were not run; package.allowBuild: true allows them" in failed["message"]
    assert seen_environment(tmp_path) is None


@NPM
async def test_an_install_script_that_is_allowed_sees_no_secret_of_ours(tmp_path: Path) -> None:
    with curious_npm(tmp_path / "seen") as registry:
        env = {"npm_config_registry": registry, "XDG_CACHE_HOME": str(tmp_path / "cache"), **SECRETS, **SURROUNDINGS}
        env |= {"npm_config_cache": str(tmp_path / "npm"), "UV_INDEX_PASSWORD": "hidden"}
        async with fairlead_up(manifest(tmp_path, "npm", allowBuild=True), cwd=tmp_path, env=env) as up:
            failed = await up.server(f"default/{NAME}", "failed", within=60)
    assert "install scripts" not in failed["message"]
    environment = seen_environment(tmp_path)
    assert environment is not None
    assert "hidden" not in environment.values()
    assert {**environment, **SURROUNDINGS} == environment


@pytest.mark.parametrize("allowed", [False, True], ids=["refused", "allowed"])
def test_the_runner_of_pods_builds_only_what_it_may_and_shows_it_no_secret(
    allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**from_pypi(tmp_path), **SECRETS}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    words = ["--allow-build"] if allowed else []
    code = main([*words, "pypi", NAME, VERSION], volume=tmp_path / "volume", log=tmp_path / "log")
    assert code == 1
    sentence = "it contains no program to run" if allowed else "set package.allowBuild to true in the spec"
    assert sentence in (tmp_path / "log").read_text()
    environment = seen_environment(tmp_path)
    assert (environment is not None) is allowed
    assert environment is None or "hidden" not in environment.values()


def test_the_runner_image_has_every_file_that_its_program_imports(tmp_path: Path) -> None:
    lines = (ROOT / "operator/runner/Dockerfile").read_text().replace("\\\n", " ").splitlines()
    for line in lines:
        if line.startswith("COPY "):
            *files, folder = line.split()[1:]
            target = tmp_path / folder.removeprefix("/")
            target.mkdir(parents=True, exist_ok=True)
            for file in files:
                shutil.copy(ROOT / file, target)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import fairlead_operator.local.runner as r; print(r.__file__)"
    isolated = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path / "opt/fairlead")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert isolated.stdout.startswith(str(tmp_path)), isolated.stderr
