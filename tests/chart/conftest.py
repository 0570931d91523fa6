"""One API server for all tests that only ask whether it would accept the rendered chart."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane import ControlPlane
from helmworld import NAMESPACE, Helm

OTHERS = [Path(__file__).with_name("crds") / name for name in ("others.yaml", "gateway-api-1.6.yaml")]


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    """The real helm, without a cluster."""
    return Helm(tmp_path)


@pytest.fixture(scope="module")
def plane_with_kinds(_assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """API server with every kind that the chart can render, and with the namespaces that the chart's values files
    name."""
    folder = tmp_path_factory.mktemp("plane")
    with ControlPlane(folder, _assets) as plane:
        plane.install_crds()
        plane.kubectl("apply", "--server-side", *(f"--filename={path}" for path in OTHERS))
        plane.await_definitions()
        plane.create_namespace(NAMESPACE, {"pod-security.kubernetes.io/enforce": "restricted"})
        plane.create_namespace("team")
        yield plane
    shutil.rmtree(folder, ignore_errors=True)
