"""Where `fairlead diff` and `approve` look without options."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_cli.failure import Failure
from fairlead_cli.pinning.holding import Cluster, location_of
from fairlead_cli.up.folders import folders


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
