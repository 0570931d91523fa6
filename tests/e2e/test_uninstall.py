"""Uninstalling leaves nothing behind. By its name, this test runs last, because it removes the installation."""

from __future__ import annotations

import pytest

from installation import NAMESPACE, RELEASE, Installation, kubectl
from waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300, func_only=True)]


def objects_of_release(kinds: str, *options: str) -> list[str]:
    """Names of the release's objects of these `kinds`, which are separated by commas. `options`: for `kubectl get`."""
    return [line for line in kubectl("get", kinds, *options, "-o", "name").split() if RELEASE in line]


def test_an_uninstall_leaves_nothing(installation: Installation) -> None:
    assert objects_of_release("clusterroles,clusterrolebindings,crds")
    assert objects_of_release("configmaps,secrets,leases,services,deployments,pods", "-n", NAMESPACE)
    installation.uninstall()
    assert objects_of_release("clusterroles,clusterrolebindings,crds") == []
    kinds = "configmaps,secrets,leases,services,deployments,pods,serviceaccounts,roles,rolebindings,networkpolicies"
    until("nothing", lambda: objects_of_release(kinds, "-n", NAMESPACE) == [], seconds=90)
