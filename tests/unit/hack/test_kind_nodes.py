"""kind clusters of the end-to-end jobs: the real `kind` reads their configurations.

Docker is a fake that has every image, starts no container, and records kind's commands.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[3] / "hack" / "kubernetes"
DOCKER = """#!/bin/sh
echo "docker $*" >>"$NOTES"
case "$1 $2" in
  "-v "*) echo "Docker version 29.0.0, build 0" ;;
  "info "*) echo '{"CgroupDriver": "systemd", "CgroupVersion": "2"}' ;;
  "network ls") case "$*" in *.Name*) echo kind ;; *) echo 1 ;; esac ;;
  "network inspect") echo '[{"Name": "kind", "Id": "1"}]' ;;
  "run "*) echo "no container is started here" >&2; exit 1 ;;
esac
"""


def kind_program(release: str) -> Path:
    """The release of kind that supports a release of Kubernetes. Skips the test with a reason if it cannot be
    installed."""
    environment = {**os.environ, "KUBE_RELEASE": release}
    command = [str(FOLDER / "kind"), "install"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return Path(done.stdout.strip()) / "kind"


def create(folder: Path, kind: Path, config: Path) -> tuple[str, list[str]]:
    """kind's output on standard error, and the words of its `docker run`."""
    (folder / "docker").write_text(DOCKER)
    (folder / "docker").chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder), "NOTES": str(folder / "notes")}
    words = [str(kind), "create", "cluster", "--name", "tried", "--config", str(config)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    notes = (folder / "notes").read_text().splitlines() if (folder / "notes").exists() else []
    return done.stderr, next((line.split() for line in notes if line.startswith("docker run ")), [])


@pytest.mark.timeout(700)
@pytest.mark.parametrize("release", ["newest", "oldest"])
def test_kind_takes_the_configuration_and_starts_one_node_of_its_image(release: str, tmp_path: Path) -> None:
    config = FOLDER / f"kind-{release}.yaml"
    (node,) = yaml.safe_load(config.read_text())["nodes"]
    output, started = create(tmp_path, kind_program(release), config)
    assert "no container is started here" in output, output
    assert started[-1].endswith(node["image"].partition("@")[2])
    assert "tried-control-plane" in started


@pytest.mark.timeout(700)
def test_a_configuration_that_kind_does_not_know_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "wrong.yaml"
    config.write_text((FOLDER / "kind-newest.yaml").read_text() + "    labbels: {a: b}\n")
    output, started = create(tmp_path, kind_program("newest"), config)
    assert "labbels" in output
    assert started == []


def test_nodes_are_of_the_releases_that_tests_know_and_named_by_digest() -> None:
    releases = dict(re.findall(r"\bKUBE_(NEWEST|OLDEST)=v(1\.\d+)\.", (FOLDER / "env.sh").read_text()))
    for release in ("newest", "oldest"):
        (node,) = yaml.safe_load((FOLDER / f"kind-{release}.yaml").read_text())["nodes"]
        assert re.fullmatch(
            rf"kindest/node:v{re.escape(releases[release.upper()])}\.\d+@sha256:[0-9a-f]{{64}}", node["image"]
        )


def test_without_go_and_kind_the_reason_is_printed(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "KUBE_CACHE": str(tmp_path), "HOME": str(tmp_path)}
    if shutil.which("go", path=environment["PATH"]):
        pytest.skip("Go is on the path of every process here")
    done = subprocess.run(
        [str(FOLDER / "kind"), "install"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert re.fullmatch(r"no kind v[\d.]+, and no Go to compile it with\n", done.stderr)
