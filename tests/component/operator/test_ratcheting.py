"""Objects that violate a newer rule, which the API server allows to change (KEP-4008): a change cannot add
violations."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from controlplane import ControlPlane, PlaneFactory
from fairlead_api.crd import crd_manifests
from fairlead_api.meta import ServerKey
from fairlead_operator.kube.declared_resources import BrokenResource, DeclaredServers
from fairlead_operator.server.overlay import merge
from podtemplates import TEMPLATES, Json, pod, server, template_with_security
from waiting import until

TRIES: Final = 100
NAMESPACE: Final = "default"
SERVERS: Final = f"/apis/fairlead.dev/v1alpha1/namespaces/{NAMESPACE}/mcpservers"
MERGE: Final = "application/merge-patch+json"
HARMLESS: Final = frozenset({"name", "image", "mountPath", "containerPort", "port", "devicePath"})
OLD: Final[dict[str, Json]] = {
    "privileged": template_with_security(privileged=True),
    "escalates": template_with_security(allowPrivilegeEscalation=True),
    "capable": template_with_security(capabilities={"add": ["SYS_ADMIN"]}),
    "root": template_with_security(runAsUser=0),
    "perhaps-root": pod(securityContext={"runAsNonRoot": False}),
    "unconfined": template_with_security(seccompProfile={"type": "Unconfined"}),
    "of-the-node": pod(hostNetwork=True),
    "annotated": {"metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}},
}
"""Pod templates of servers that were created before the rules existed."""


def _moved_privileges() -> Iterator[Json]:
    """Templates that move privileges of old servers to another container."""
    for name, template in OLD.items():
        for container in template.get("spec", {}).get("containers", ()):
            other = {**container, "name": "proxy", "image": "proxy:1"}
            yield pod(containers=[other])
            yield pod(initContainers=[other])
            yield server(**{**container, "name": name, "image": "proxy:1"})


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Values by path. List items appear in paths by name."""
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from _leaves(member, f"{path}.{name}")
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{item.get('name', number) if isinstance(item, dict) else item}]")
    elif path.rpartition(".")[2] not in HARMLESS:
        yield path, json.dumps(value)


def _object(name: str, template: Json) -> Json:
    spec = {"image": {"name": "registry.example/demo:1"}, "podTemplate": template}
    return {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}, "spec": spec}


def _apply(plane: ControlPlane, *, loose: bool) -> None:
    """Apply the CRDs as generated, or with a schema that accepts any pod template."""
    manifests = copy.deepcopy(crd_manifests())
    for manifest in manifests if loose else ():
        if manifest["spec"]["names"]["kind"] == "McpServer":
            spec = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            spec["properties"]["podTemplate"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all(manifests))
    plane.await_definitions()


def _refuses(plane: ControlPlane) -> bool:
    tried = _object("probe", template_with_security(runAsNonRoot=False))
    return plane.request("POST", f"{SERVERS}?dryRun=All", tried)[0] == 422


@pytest.mark.timeout(240)
def test_no_change_of_an_object_from_before_a_rule_adds_what_is_forbidden(private_plane: PlaneFactory) -> None:
    plane = private_plane(crds=False)
    _apply(plane, loose=True)
    until("any template", lambda: plane.request("POST", f"{SERVERS}?dryRun=All", _object("p", OLD["root"]))[0] == 201)
    for name, template in OLD.items():
        assert plane.request("POST", SERVERS, _object(name, template))[0] == 201
    _apply(plane, loose=False)
    until("rules", lambda: _refuses(plane))

    tried, changed, taken = 0, 0, []
    for name in OLD:
        for template in [*(template for _, template in TEMPLATES), *_moved_privileges()]:
            before = plane.request("GET", f"{SERVERS}/{name}")[1]
            held = set(_leaves(before["spec"]["podTemplate"]))
            overlay = merge(before["spec"]["podTemplate"], template)
            whole = {**before, "spec": {**before["spec"], "podTemplate": overlay}}
            for method, body in (("PUT", whole), ("PATCH", {"spec": {"podTemplate": overlay}})):
                tried += 1
                kind = "application/json" if method == "PUT" else MERGE
                status, after = plane.request(method, f"{SERVERS}/{name}?dryRun=All", body, content_type=kind)
                added = set(_leaves(after["spec"]["podTemplate"])) - held if status == 200 else set()
                if added & set(_leaves(template)):
                    taken.append((name, method, sorted(added)))
        status, _ = plane.request("PATCH", f"{SERVERS}/{name}", {"spec": {"prefix": "p"}}, content_type=MERGE)
        changed += status == 200
    assert tried >= TRIES
    assert {(leaf, value) for _, _, added in taken for leaf, value in added} == set()
    assert changed == len(OLD), "they may change otherwise, or there would be nothing to hold"

    store = DeclaredServers(lambda key, was, now: None)
    for name in OLD:
        store.update(plane.request("GET", f"{SERVERS}/{name}")[1])
        assert isinstance(store.server(ServerKey(NAMESPACE, name)), BrokenResource), name
