"""Without an API server, tests are skipped with advice how to get one, and fail in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from controlplane import REPOSITORY

ASSETS = REPOSITORY / "hack" / "kubernetes" / "assets"


def run(command: list[str | Path], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `command` in this environment plus `environment`, without the variables that locate the programs."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("KUBEBUILDER_ASSETS", "CI")}
    return subprocess.run(
        command, env=inherited | environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=50, check=False
    )


def one_test(**environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on one test that needs the shared control plane."""
    chosen = "tests/component/controlplane/test_controlplane.py::test_the_shared_plane_is_ready_and_answers_kubectl"
    return run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", chosen], **environment)


def test_the_folder_that_was_named_must_hold_the_programs(tmp_path: Path) -> None:
    done = run([ASSETS], KUBEBUILDER_ASSETS=str(tmp_path))
    assert done.returncode == 3
    assert done.stderr.strip() == f"KUBEBUILDER_ASSETS={tmp_path} lacks one of: etcd kube-apiserver kubectl"


def test_kubernetes_assets_without_programs_says_in_one_sentence_how_to_get_them(tmp_path: Path) -> None:
    done = run([ASSETS, "--cached"], KUBE_BIN=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("no Kubernetes API server: install Go 1.26 or newer and run hack/kubernetes/build")


def test_a_test_is_skipped_on_a_laptop_without_its_programs(tmp_path: Path) -> None:
    done = one_test(KUBE_BIN=str(tmp_path))
    assert done.returncode == 0
    assert "1 skipped" in done.stdout
    assert "setup-envtest" in done.stdout


def test_a_test_fails_in_ci_without_its_programs(tmp_path: Path) -> None:
    done = one_test(KUBE_BIN=str(tmp_path), CI="true")
    assert done.returncode == 1
    assert "in CI a missing API server is a failure" in done.stdout
