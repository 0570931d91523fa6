"""The control plane of other tests is a real one, and its fixtures work as documented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from controlplane import ControlPlane, PlaneFactory
from waiting import until


def example_crd(group: str) -> dict[str, Any]:
    """A namespaced kind Boat whose `length` must be positive, by a CEL rule."""
    rule = {"rule": "self.length > 0", "message": "a boat has a length"}
    spec = {"type": "object", "properties": {"length": {"type": "integer"}}, "x-kubernetes-validations": [rule]}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boats.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def boat(group: str, length: int) -> str:
    """A Boat called `dinghy`."""
    metadata = {"name": "dinghy"}
    return json.dumps({"apiVersion": f"{group}/v1", "kind": "Boat", "metadata": metadata, "spec": {"length": length}})


def test_the_shared_plane_is_ready_and_answers_kubectl(control_plane: ControlPlane) -> None:
    assert control_plane.kubectl("get", "--raw", "/readyz").stdout == "ok"


def test_a_crd_is_accepted_and_its_cel_rule_refuses_with_its_message(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply(json.dumps(example_crd("harbor.example")))
    control_plane.await_definitions()
    control_plane.apply(boat("harbor.example", 3), namespace=namespace)

    refused = control_plane.kubectl("-n", namespace, "apply", "-f", "-", stdin=boat("harbor.example", -1), check=False)

    assert refused.returncode == 1
    assert "a boat has a length" in refused.stderr


def test_a_user_without_rights_is_refused_until_rbac_grants_them(control_plane: ControlPlane, namespace: str) -> None:
    reader = control_plane.kubeconfig_for("reader", ["crew"])
    refused = control_plane.kubectl("-n", namespace, "get", "secrets", kubeconfig=reader, check=False)
    assert refused.returncode == 1
    assert 'User "reader" cannot list resource "secrets"' in refused.stderr

    control_plane.kubectl("-n", namespace, "create", "role", "r", "--verb=list", "--resource=secrets")
    control_plane.kubectl("-n", namespace, "create", "rolebinding", "r", "--role=r", "--group=crew")

    def is_allowed() -> bool:
        listed = control_plane.kubectl("-n", namespace, "get", "secrets", kubeconfig=reader, check=False)
        return listed.returncode == 0

    until("the group's role in force", is_allowed)


def test_removing_a_namespace_leaves_nothing_of_the_test_behind(control_plane: ControlPlane) -> None:
    name = control_plane.create_namespace("leaving")
    control_plane.kubectl("-n", name, "create", "configmap", "luggage")
    control_plane.kubectl("-n", name, "create", "deployment", "porter", "--image=none")

    control_plane.remove_namespace(name)

    status, _ = control_plane.request("GET", f"/api/v1/namespaces/{name}")
    assert status == 404
    assert control_plane.request("GET", f"/api/v1/namespaces/{name}/configmaps")[1]["items"] == []
    assert control_plane.request("GET", f"/apis/apps/v1/namespaces/{name}/deployments")[1]["items"] == []


def test_a_paused_plane_stands_still_and_goes_on_with_the_next_request(control_plane: ControlPlane) -> None:
    for asks in (lambda: control_plane.request("GET", "/readyz")[0] == 200, lambda: control_plane.kubectl("version")):
        control_plane.pause()
        until("all of its programs stopped", lambda: set(states(control_plane)) == {"T"})
        assert asks()
        assert "T" not in states(control_plane)


def states(plane: ControlPlane) -> list[str]:
    """States of a plane's processes, as /proc names them."""
    return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in plane.pids().values()]


def test_a_private_plane_keeps_its_objects_over_the_death_of_its_api_server(
    private_plane: PlaneFactory,
) -> None:
    plane = private_plane(crds=False)
    plane.create_namespace("kept")

    plane.kill_apiserver()
    assert plane.kubectl("get", "namespaces", check=False).returncode == 1
    plane.start_apiserver()

    assert plane.request("GET", "/api/v1/namespaces/kept")[0] == 200


def test_with_controllers_owned_objects_and_namespaces_go_by_themselves(private_plane: PlaneFactory) -> None:
    plane = private_plane(controllers=True, crds=False)
    plane.create_namespace("short-lived")
    configmaps = "/api/v1/namespaces/short-lived/configmaps"
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
    _, made = plane.request("POST", configmaps, owner)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": made["metadata"]["uid"]}
    owned = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "owned", "ownerReferences": [reference]},
    }
    plane.request("POST", configmaps, owned)

    plane.request("DELETE", f"{configmaps}/owner")
    until("the owned object collected", lambda: plane.request("GET", f"{configmaps}/owned")[0] == 404)

    plane.request("DELETE", "/api/v1/namespaces/short-lived")
    gone = "/api/v1/namespaces/short-lived"
    until("the namespace finished", lambda: plane.request("GET", gone)[0] == 404, seconds=30)
