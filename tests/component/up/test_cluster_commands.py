"""`fairlead crds --install`, `operator` and `gateway` with a real API server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from controlplane import PlaneFactory
from forkserver import program_words
from ports import free_port


def fairlead(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*program_words(), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.timeout(240)
def test_crds_are_installed_once_and_again_and_are_served_then(private_plane: PlaneFactory) -> None:
    plane = private_plane(crds=False)
    missing = fairlead("operator", "--kubeconfig", plane.kubeconfig)
    assert missing.returncode == 1
    assert "not installed" in missing.stderr
    assert "fairlead crds" in missing.stderr

    for _ in range(2):
        result = fairlead("crds", "--install", "--kubeconfig", plane.kubeconfig)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.splitlines()[-1] == "fairlead.dev/v1alpha1 is served"
    assert plane.kubectl("get", "mcpservers,latencytiers,toolpolicies", "-A").returncode == 0
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=fairlead("crds").stdout, check=False)

    nobody = plane.kubeconfig_for("nobody")
    for words in (["crds", "--install"], ["operator"], ["gateway", "--port", str(free_port())]):
        refused = fairlead(*words, "--kubeconfig", nobody)
        assert refused.returncode == 1, words
        assert refused.stderr.strip(), words
        assert "Traceback" not in refused.stderr


def test_an_api_server_that_is_away_is_a_sentence(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{free_port()}'}}}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
    )
    for words in (["crds", "--install"], ["operator"]):
        result = fairlead(*words, "--kubeconfig", kubeconfig)
        assert result.returncode == 1
        assert result.stderr.count("\n") == 1
        assert "127.0.0.1" in result.stderr


def test_a_kubeconfig_that_is_none_is_named(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("hello: [")
    for words in (["crds", "--install"], ["operator"], ["gateway"]):
        result = fairlead(*words, "--kubeconfig", kubeconfig)
        assert result.returncode == 1
        assert "Traceback" not in result.stderr
        assert str(kubeconfig) in result.stderr
