"""Where `fairlead diff` and `approve` look for pins without options."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_cli.failure import Failure
from fairlead_cli.output import Output
from fairlead_cli.pinning.approving import run_diff
from fairlead_cli.pinning.holding import Cluster, location_of
from fairlead_cli.up.folders import folders, store_url


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def test_without_a_gateway_here_and_a_cluster_it_is_said_what_to_name() -> None:
    with pytest.raises(Failure, match=r"no `fairlead up` of this user is running, .*: give .* --url"):
        location_of(None, "", None, None)


def test_a_kubeconfig_names_a_cluster(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / ".kube").mkdir()
    (machine / ".kube" / "config").touch()
    assert isinstance(location_of(None, "", None, None), Cluster)
    (machine / ".kube" / "config").unlink()
    monkeypatch.setenv("KUBECONFIG", "/x")
    assert isinstance(location_of(None, "", None, None), Cluster)


def test_a_fairlead_up_of_the_user_comes_before_a_cluster(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/x")
    with folders(None, {"XDG_RUNTIME_DIR": str(machine)}) as where:
        pins = location_of(None, "", None, None)
        assert getattr(pins, "root", None) == where.documents.parent


def test_a_server_of_the_cluster_that_a_fairlead_up_hides_is_found_by_what_the_refusal_says(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/x")
    with folders(None, {"XDG_RUNTIME_DIR": str(machine)}) as where:
        where.documents.mkdir(exist_ok=True)
        pins = location_of(None, "", None, None)
        assert not isinstance(pins, str)
        with pytest.raises(Failure, match=r"looked in the `fairlead up` .*; for a cluster, add --namespace"):
            run_diff(pins, "team/search", Output.table)


def test_pins_of_a_cluster_are_described_by_the_namespace_of_the_release() -> None:
    assert Cluster("", "tools").description.startswith("namespace tools of the cluster")


def test_several_runs_are_named_by_their_urls(machine: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(machine)}
    urls = ("http://127.0.0.1:8080/mcp", "http://127.0.0.1:8081/mcp")
    with folders(None, environ) as first, folders(None, environ) as second, folders(None, environ):
        for where, url in zip((first, second), urls, strict=True):
            store_url(where.documents.parent, url)
        with pytest.raises(Failure, match="several `fairlead up` are running: choose one with ") as failed:
            location_of(None, "", None, None)
    assert all(f"--url {url}" in str(failed.value) for url in urls)
