"""References to Secrets that a server may not use, on a real API server: none is read, passed on, or used in a pod."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any, Final

import pytest

from fairlead_operator.kube.credentials import SELECTOR
from operatorworld import GROUP, Json, World, running
from podtemplates import pod, server, template_with_volume

TRIES: Final = 100
IMAGE: Final = {"name": "registry.example/demo:1"}
FOREIGN: Final = "only-theirs"
"""Value of every Secret that the servers here may not use."""


def _names(world: World, other: str) -> Iterator[str]:
    """Names that may refer to a Secret without the label, to a Secret of another namespace, or to a Secret of the
    release."""
    yield "unlabelled"
    for namespace, name in ((other, "labelled"), (world.release, "fairlead-credentials-0")):
        yield name
        yield f"{namespace}/{name}"
        yield f"{namespace}.{name}"
        yield f"../../{namespace}/secrets/{name}"
        yield f"..%2F..%2F{namespace}%2Fsecrets%2F{name}"


def _references(name: str, *, optional: bool) -> Iterator[Json]:
    """Specs that refer to a Secret in each way that the schema of a server allows."""
    more = {"optional": True} if optional else {}
    variable = {"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": "token", **more}}}
    every = {"secretRef": {"name": name, **more}}
    beside = {"name": "beside", "image": "beside:1"}
    yield {"image": IMAGE, "env": [variable]}
    yield {"image": IMAGE, "envFrom": [every]}
    for template in (
        server(env=[variable]),
        server(envFrom=[every]),
        pod(containers=[{**beside, "env": [variable]}]),
        pod(initContainers=[{**beside, "envFrom": [every]}]),
        template_with_volume(secret={"secretName": name, **more}),
        template_with_volume(secret={"secretName": name, "items": [{"key": "token", "path": "t"}], **more}),
        template_with_volume(projected={"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": name, **more}}]}),
        pod(imagePullSecrets=[{"name": name}]),
    ):
        yield {"image": IMAGE, "podTemplate": template}


def _unrestricted_specs(name: str) -> Iterator[Json]:
    """Specs whose unrestricted template names the Secret, in each field that Kubernetes has for this."""
    kinds = ("cephfs", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
    volumes: list[Json] = [{kind: {"secretRef": {"name": name, "namespace": "other"}}} for kind in kinds]
    volumes.append({"csi": {"driver": "d", "nodePublishSecretRef": {"name": name}}})
    volumes.append({"azureFile": {"secretName": name, "secretNamespace": "other"}})
    for volume in volumes:
        yield {"image": IMAGE, "unrestrictedPodTemplate": template_with_volume(**volume)}
    debug = {"name": "debug", "image": "debug:1", "envFrom": [{"secretRef": {"name": name}}]}
    yield {"image": IMAGE, "unrestrictedPodTemplate": pod(ephemeralContainers=[debug])}


def _credentials(name: str) -> Iterator[Json]:
    for reference in ({"name": name}, {"name": name, "namespace": "other"}, {"name": name, "key": "token"}):
        yield {"url": "http://127.0.0.1:9/mcp", "auth": {"bearer": {"secretRef": reference}}}
        yield {"url": "http://127.0.0.1:9/mcp", "auth": {"header": {"name": "X-Key", "secretRef": reference}}}


def _add_secrets(world: World, other: str) -> None:
    label, value = dict([SELECTOR.split("=")]), {"token": FOREIGN}
    hosts = {"fairlead.dev/hosts": "*"}
    for namespace, name, labels in ((world.namespace, "unlabelled", {}), (other, "labelled", label)):
        body = {"metadata": {"name": name, "labels": labels, "annotations": hosts}, "stringData": value}
        assert world.request("POST", f"/api/v1/namespaces/{namespace}/secrets", body)[0] == 201
    body = {"metadata": {"name": "fairlead-credentials-0", "labels": label}, "stringData": value}
    assert world.request("POST", f"/api/v1/namespaces/{world.release}/secrets", body)[0] == 201


def _references_of(deployment: Json) -> set[str]:
    """All names of Secrets in a Deployment's pod template."""
    names: set[str] = set()

    def look(value: Any, member: str = "") -> None:
        if isinstance(value, dict):
            if "ecret" in member:
                names.update(str(value[name]) for name in ("name", "secretName") if name in value)
            for name, each in value.items():
                look(each, name)
        elif isinstance(value, list):
            for each in value:
                look(each, member)

    look(deployment["spec"]["template"]["spec"])
    return names


@pytest.mark.timeout(240)
async def test_no_reference_leads_to_a_secret_without_the_label_or_of_another_namespace(
    world: World, control_plane: Any
) -> None:
    other = control_plane.create_namespace(f"{world.namespace}-other")
    try:
        _add_secrets(world, other)
        names = [*_names(world, other)]
        specs = [spec for name in names for spec in _references(name, optional=False)]
        for name in ("unlabelled", "labelled", f"{other}/labelled"):
            specs += [*_references(name, optional=True), *_unrestricted_specs(name), *_credentials(name)]
        async with running(world, pod_templates="Any"):
            made = []
            for number, spec in enumerate(specs):
                if await asyncio.to_thread(_make, world, number, spec):
                    made.append(f"s{number}")
            await world.until("looked at", lambda: _are_judged(world, made), seconds=120)
            deployments = world.request("GET", world.path("deployments"))[1]["items"]
            secrets = world.request("GET", f"/api/v1/namespaces/{world.release}/secrets")[1]["items"]
        read = {each["metadata"]["name"]: _references_of(each) & {*names} for each in deployments}
        copied = [
            base64.b64decode(value)
            for item in secrets
            for value in (item.get("data") or {}).values()
            if item["metadata"]["name"] != "fairlead-credentials-0"
        ]
        assert len(made) >= TRIES
        assert {name: names for name, names in read.items() if names} == {}
        assert [value for value in copied if FOREIGN.encode() in value] == []
    finally:
        control_plane.remove_namespace(other)


def _make(world: World, number: int, spec: Json) -> bool:
    """Create a server. Returns False if the API server refuses it."""
    body = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "McpServer",
        "metadata": {"name": f"s{number}"},
        "spec": spec,
    }
    status, answer = world.request("POST", f"{GROUP}/namespaces/{world.namespace}/mcpservers", body)
    assert status in (201, 422), answer
    return status == 201


def _are_judged(world: World, names: list[str]) -> bool:
    """Whether each of these servers has a condition about its references, or a Deployment."""
    items = world.request("GET", f"{GROUP}/namespaces/{world.namespace}/mcpservers")[1]["items"]
    judged = {
        item["metadata"]["name"]
        for item in items
        if any(each["type"] == "ResolvedRefs" for each in item.get("status", {}).get("conditions", ()))
    }
    return judged >= {*names}
