"""Grants of users in the chart: their Secrets, who may read these, and that upgrades keep their content."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from controlplane import PlaneFactory
from fairlead_gateway.grants.secret_store import SLOTS
from helmworld import NAMESPACE, Helm, environment, get, of_kind, rendered_object

SECRETS = ("--set", "grants.store=Secrets", "--set", "grants.keysSecret=keys")
NAMES = [f"fairlead-grants-{slot}" for slot in range(SLOTS)]


def test_no_grants_are_kept_unless_a_value_says_where(helm: Helm) -> None:
    manifests = helm.template()
    assert of_kind(manifests, "Secret") == []
    assert not [name for name in environment(manifests, "gateway") if name.startswith("FAIRLEAD_GRANT")]


def test_the_gateway_may_read_and_write_the_secrets_with_grants_and_only_it_gets_their_keys(helm: Helm) -> None:
    manifests = helm.template(*SECRETS)
    secrets = of_kind(manifests, "Secret")
    assert sorted(secret["metadata"]["name"] for secret in secrets) == sorted(NAMES)
    assert all(secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for secret in secrets)
    assert not any("data" in secret or "stringData" in secret for secret in secrets)
    rules = rendered_object(manifests, "Role", "fairlead-gateway")["rules"]
    (rule,) = [rule for rule in rules if NAMES[0] in rule.get("resourceNames", ())]
    assert (rule["resourceNames"], rule["verbs"]) == (NAMES, ["get", "list", "watch", "patch"])
    variables = environment(manifests, "gateway")
    assert variables["FAIRLEAD_GRANTS"] == "secrets"
    assert variables["FAIRLEAD_GRANTS_SECRET"] == "fairlead-grants"
    assert variables["FAIRLEAD_GRANT_KEYS"] == {"secretKeyRef": {"name": "keys", "key": "keys"}}
    assert "FAIRLEAD_GRANT_KEYS" not in environment(manifests, "operator")


def test_grants_in_redis_need_no_secrets_but_the_key(helm: Helm) -> None:
    manifests = helm.template(
        "--set", "grants.store=Redis", "--set", "grants.keysSecret=keys", "--set", "redis.url=redis://redis"
    )
    assert of_kind(manifests, "Secret") == []
    variables = environment(manifests, "gateway")
    assert variables["FAIRLEAD_GRANTS"] == "redis"
    assert "FAIRLEAD_GRANTS_SECRET" not in variables


@pytest.mark.timeout(300)
def test_an_upgrade_and_another_installation_leave_the_grants_as_they_are(
    private_plane: PlaneFactory, tmp_path: Path
) -> None:
    plane = private_plane(crds=False)
    helm = Helm(tmp_path, plane)
    helm.install(*SECRETS)
    value = base64.b64encode(b"a grant").decode()
    patch = json.dumps({"data": {"record": value}})
    plane.kubectl("patch", "secret", NAMES[3], "-n", NAMESPACE, "--type=merge", "-p", patch)

    def read_secret() -> object:
        (secret,) = [item for item in get(plane, "secrets", "-n", NAMESPACE) if item["metadata"]["name"] == NAMES[3]]
        return secret["data"]

    helm.upgrade(*SECRETS, "--set", "gateway.replicas=3")
    assert read_secret() == {"record": value}
    helm.uninstall()
    assert read_secret() == {"record": value}
    helm.install(*SECRETS)
    assert read_secret() == {"record": value}
