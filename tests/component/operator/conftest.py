"""The world of these tests: a tenant's namespace and a release's on the shared API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane import ControlPlane
from operatorworld import World, release_namespace


@pytest.fixture
def world(control_plane: ControlPlane, namespace: str) -> Iterator[World]:
    with release_namespace(control_plane, namespace) as release:
        yield World(control_plane, namespace, release)
