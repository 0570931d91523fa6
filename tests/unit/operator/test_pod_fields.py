"""Each pod-related field of an McpServer, set alone, in the applied Deployment."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_operator.server.kube_manifests import ManifestContext
from fairlead_operator.server.object_plan import plan
from fairlead_operator.server.secret_references import environment_config_maps
from operatorfakes import mcp_server

KEY = {"name": "s", "key": "k", "optional": True}
FIELD = {"fieldPath": "status.podIP", "apiVersion": "v1"}
RESOURCE = {"resource": "limits.memory", "containerName": "server", "divisor": "1Mi"}


def deployment(**spec: Any) -> dict[str, Any]:
    """The applied Deployment of a server."""
    wanted = plan(mcp_server(**{"image": {"name": "demo:1"}, **spec}), ManifestContext("fairlead-system"))
    (deployment_manifest,) = [manifest for kind, manifest in wanted.apply if kind.kind == "Deployment"]
    return deployment_manifest


def server(**spec: Any) -> dict[str, Any]:
    """The container that runs the server."""
    containers = deployment(**spec)["spec"]["template"]["spec"]["containers"]
    container: dict[str, Any] = next(each for each in containers if each["name"] == "server")
    return container


@pytest.mark.parametrize(
    ("spec", "member", "value"),
    [
        ({"image": {"name": "demo:2"}}, "image", "demo:2"),
        ({"image": {"name": "x", "command": ["/app/server"]}}, "command", ["/app/server"]),
        ({"image": {"name": "x", "args": ["--index", "/data"]}}, "args", ["--index", "/data"]),
        ({"image": {"name": "x", "port": 9000}}, "ports", [{"name": "mcp", "containerPort": 9000, "protocol": "TCP"}]),
        (
            {"resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "1Gi"}}},
            "resources",
            {"requests": {"cpu": "50m"}, "limits": {"memory": "1Gi"}},
        ),
    ],
    ids=["image", "command", "args", "port", "resources"],
)
def test_a_field_of_the_container_is_in_it(spec: dict[str, Any], member: str, value: Any) -> None:
    value_set = server(**spec)[member]
    if member == "ports":
        assert [port["containerPort"] for port in value_set] == [9000]
    else:
        assert value_set == value


@pytest.mark.parametrize(
    "variable",
    [
        {"name": "A", "value": "1"},
        {"name": "A", "valueFrom": {"secretKeyRef": KEY}},
        {"name": "A", "valueFrom": {"configMapKeyRef": KEY}},
        {"name": "A", "valueFrom": {"fieldRef": FIELD}},
        {"name": "A", "valueFrom": {"resourceFieldRef": RESOURCE}},
    ],
    ids=["value", "secret", "config map", "field", "resource"],
)
def test_a_variable_reaches_the_container_with_all_its_members(variable: dict[str, Any]) -> None:
    assert variable in server(env=[variable])["env"]


@pytest.mark.parametrize(
    "source",
    [
        {"prefix": "X_", "secretRef": {"name": "s", "optional": True}},
        {"prefix": "X_", "configMapRef": {"name": "c", "optional": True}},
    ],
    ids=["secret", "config map"],
)
def test_a_source_of_variables_reaches_the_container_with_all_its_members(source: dict[str, Any]) -> None:
    assert server(envFrom=[source])["envFrom"] == [source]


def test_replicas_are_those_of_the_deployment() -> None:
    assert deployment(replicas=3)["spec"]["replicas"] == 3


def test_config_maps_are_found_in_the_environment_of_every_container_and_nowhere_else() -> None:
    key = {"name": "ZONE", "valueFrom": {"configMapKeyRef": {"name": "zones", "key": "zone"}}}
    overlay = {
        "containers": [{"name": "server", "env": [key]}],
        "initContainers": [{"name": "prepare", "envFrom": [{"configMapRef": {"name": "prepared", "optional": True}}]}],
        "volumes": [{"name": "mounted", "configMap": {"name": "mounted"}}],
    }
    spec = {
        "envFrom": [{"configMapRef": {"name": "common"}}, {"secretRef": {"name": "secret"}}],
        "env": [{"name": "A", "value": "1"}],
        "podTemplate": {"spec": overlay},
        "unrestrictedPodTemplate": {"spec": "of any shape"},
        "openapi": {"configMapRef": {"name": "document"}},
    }
    assert environment_config_maps(spec) == ["common", "prepared", "zones"]
    assert environment_config_maps({}) == []
