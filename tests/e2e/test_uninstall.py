"""Uninstalling leaves nothing behind. By its name, this test runs last, because it removes the installation."""

from __future__ import annotations

import pytest

from installation import NAMESPACE, RELEASE, Installation, kubectl
from waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300, func_only=True)]


def of_fairlead(*words: str) -> list[str]:
    """Names of objects that belong to Fairlead."""
    return [line for line in kubectl("get", *words, "-o", "name").split() if RELEASE in line]


def test_an_uninstall_leaves_nothing(installation: Installation) -> None:
    assert of_fairlead("clusterroles,clusterrolebindings,crds")
    assert of_fairlead("configmaps,secrets,leases,services,deployments,pods", "-n", NAMESPACE)
    installation.uninstall()
    assert of_fairlead("clusterroles,clusterrolebindings,crds") == []
    kinds = "configmaps,secrets,leases,services,deployments,pods,serviceaccounts,roles,rolebindings,networkpolicies"
    until("nothing", lambda: of_fairlead(kinds, "-n", NAMESPACE) == [], seconds=90)
