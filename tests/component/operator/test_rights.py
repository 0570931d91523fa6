"""Missing rights are named at the start.

`together/test_least_privilege` has a whole run with exactly the rights of operator/rbac.yaml.
"""

from __future__ import annotations

import pytest
import yaml

from controlplane import REPOSITORY
from fairlead_kube.client import Kube
from fairlead_operator.kube.credentials import store_names
from fairlead_operator.kube.preflight import CannotStart, check_cluster
from operatorworld import World, configuration_of

MANIFEST = REPOSITORY / "operator" / "rbac.yaml"


async def test_the_start_says_which_right_is_missing_and_where_it_is_granted(world: World) -> None:
    nobody = world.plane.kubeconfig_for("nobody", ["system:authenticated"])
    kube = Kube.connect(await configuration_of(world.plane, str(nobody)))
    try:
        with pytest.raises(CannotStart, match=r"may not watch mcpservers: grant the rights in operator/rbac.yaml"):
            await check_cluster(kube, world.release)
    finally:
        await kube.aclose()


def test_the_gateway_may_read_every_secret_that_credentials_and_api_keys_are_kept_in_and_no_other() -> None:
    roles = [d for d in yaml.safe_load_all(MANIFEST.read_text()) if d["kind"] == "Role"]
    gateway = next(role for role in roles if role["metadata"]["name"] == "fairlead-gateway")
    granted = {tuple(rule["resourceNames"]) for rule in gateway["rules"] if rule["resources"] == ["secrets"]}
    assert granted == {tuple(store_names()), ("fairlead-api-keys",)}
