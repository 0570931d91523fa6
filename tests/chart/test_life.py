"""The chart on a real API server: installed on an empty cluster, upgraded, uninstalled, installed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane import PlaneFactory
from helmworld import NAMESPACE, Helm, get
from waiting import until

pytestmark = pytest.mark.timeout(300)


def test_installed_upgraded_uninstalled_and_installed_again(private_plane: PlaneFactory, tmp_path: Path) -> None:
    plane = private_plane(controllers=True, crds=False)
    helm = Helm(tmp_path, plane)
    helm.install()
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=20s")
    assert {item["metadata"]["name"] for item in get(plane, "deployments", "-n", NAMESPACE)} == {
        "fairlead-operator",
        "fairlead-gateway",
    }
    (before,) = get(plane, "secrets", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=fairlead")

    helm.upgrade("--set", "gateway.replicas=3")
    (after,) = get(plane, "secrets", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=fairlead")
    assert after["data"] == before["data"]

    helm.uninstall()
    left = "deployments,replicasets,services,endpointslices,secrets,roles,rolebindings,poddisruptionbudgets"
    until("everything gone", lambda: get(plane, left, "-n", NAMESPACE) == [], seconds=30)
    assert len(get(plane, "crds")) == 3

    helm.install()
    assert len(get(plane, "deployments", "-n", NAMESPACE)) == 2
