"""Pod templates of an McpServer, on a real API server: which templates are applied, and the resulting pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_api.v1alpha1.mcpserver.podtemplate import NOT_ALLOWED
from fairlead_operator.server.kube_manifests import ManifestContext, pod_template
from operatorfakes import mcp_server
from operatorworld import Json, World, running
from podtemplates import ALLOWED, pod

IMAGE = "registry.example/demo:1"
OF_THE_NODE = pod(hostPID=True)
REASON = "PodTemplateNotAllowed"


def deployment(world: World, name: str) -> Json | None:
    return world.get(world.path("deployments", name))


async def test_an_unrestricted_template_is_refused_with_the_switch(world: World) -> None:
    async with running(world):
        world.create("demo", {"image": {"name": IMAGE}, "unrestrictedPodTemplate": OF_THE_NODE})
        await world.until("refused", lambda: world.is_("demo", "Accepted", "False", REASON))
        assert world.is_("demo", "Ready", "False", REASON)
        assert NOT_ALLOWED in world.condition("demo", "Ready")["message"]
        assert deployment(world, "demo") is None
        world.patch_server("demo", {"spec": {"unrestrictedPodTemplate": None}})
        await world.until("a Deployment", lambda: deployment(world, "demo"))


@pytest.mark.parametrize("switch", ["all namespaces", "its own"])
async def test_an_installation_may_let_servers_set_any_field(world: World, switch: str) -> None:
    given: Any = {"pod_templates": "Any"} if switch == "all namespaces" else {"any_pod_templates_in": world.namespace}
    async with running(world, **given):
        world.create("demo", {"image": {"name": IMAGE}, "unrestrictedPodTemplate": OF_THE_NODE})
        made = await world.until("a Deployment", lambda: deployment(world, "demo"))
    assert made is not None
    assert made["spec"]["template"]["spec"]["hostPID"] is True


async def test_pods_from_before_templates_were_restricted_are_left_running_and_named(world: World) -> None:
    async with running(world, pod_templates="Any"):
        world.create("demo", {"image": {"name": IMAGE}, "unrestrictedPodTemplate": OF_THE_NODE})
        before = await world.until("a Deployment", lambda: deployment(world, "demo"))
    async with running(world):
        await world.until("refused", lambda: world.is_("demo", "Ready", "False", REASON))
        assert "pods that already run keep running" in world.condition("demo", "Ready")["message"]
        world.patch_server("demo", {"spec": {"image": {"name": "registry.example/other:1"}}})
        await world.until("refused again", lambda: world.is_("demo", "Ready", "False", REASON))
        after = deployment(world, "demo")
    assert before is not None
    assert after is not None
    assert after["spec"] == before["spec"]


@pytest.mark.parametrize("name", ALLOWED)
def test_pods_of_an_allowed_template_are_restricted_as_the_api_server_judges_it(world: World, name: str) -> None:
    """The API server's PodSecurity admission decides, in a namespace that enforces "restricted"."""
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    world.request("PATCH", f"/api/v1/namespaces/{world.namespace}", label, content_type="application/merge-patch+json")
    package = {"registry": "pypi", "name": "demo", "version": "1.0"}
    sources: tuple[dict[str, Any], ...] = ({"image": {"name": IMAGE}}, {"package": package})
    for source in sources:
        server = mcp_server("demo", podTemplate=ALLOWED[name], **source)
        template = json.loads(json.dumps(pod_template(server, ManifestContext("fairlead-system"))))
        template["spec"].pop("serviceAccountName")
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo", **template["metadata"]}}
        account = {"metadata": {"name": "default"}}
        world.request("POST", world.path("serviceaccounts"), account)
        status, answer = world.request("POST", world.path("pods") + "?dryRun=All", {**body, "spec": template["spec"]})
        assert status == 201, answer


PROBES: dict[str, Json] = {
    "exec": {"command": ["/probe"]},
    "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
    "tcpSocket": {"port": 9090},
    "grpc": {"port": 9090, "service": ""},
}


@pytest.mark.parametrize("transport", ["streamable-http", "stdio"])
@pytest.mark.parametrize("handler", PROBES)
async def test_a_readiness_probe_of_any_kind_takes_the_place_of_the_generated_one(
    world: World, handler: str, transport: str
) -> None:
    probe = {handler: PROBES[handler], "timeoutSeconds": 3}
    template = pod(containers=[{"name": "server", "readinessProbe": probe}])
    async with running(world):
        image = {"name": IMAGE, "transport": transport, **({"command": ["serve"]} if transport == "stdio" else {})}
        world.create("demo", {"image": image, "podTemplate": template})
        made = await world.until("a Deployment", lambda: deployment(world, "demo"))
    assert made is not None
    (container,) = made["spec"]["template"]["spec"]["containers"]
    timing = {"periodSeconds": 5, "failureThreshold": 3, "successThreshold": 1}
    assert container["readinessProbe"] == {**probe, **timing}


async def test_null_of_a_server_side_apply_takes_the_readiness_probe_away(world: World) -> None:
    template = pod(containers=[{"name": "server", "readinessProbe": None}])
    head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "demo"}}
    manifest = json.dumps({**head, "spec": {"image": {"name": IMAGE}, "podTemplate": template}})
    async with running(world):
        world.plane.apply(manifest, namespace=world.namespace)
        made = await world.until("a Deployment", lambda: deployment(world, "demo"))
        assert made is not None
        assert "readinessProbe" not in made["spec"]["template"]["spec"]["containers"][0]


def optional(name: str) -> list[Json]:
    """Specs that use a Secret if it exists, each in a different way."""
    reference = {"name": name, "key": "token", "optional": True}
    whole = {"secretRef": {"name": name, "optional": True}}
    sources = [{"secret": {"name": name, "optional": True}}, {"configMap": {"name": "more", "optional": True}}]
    beside = {"name": "proxy", "image": "proxy:1", "env": [{"name": "A", "valueFrom": {"secretKeyRef": reference}}]}
    return [
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": reference}}]},
        {"envFrom": [whole]},
        {"podTemplate": pod(volumes=[{"name": "more", "secret": {"secretName": name, "optional": True}}])},
        {"podTemplate": pod(volumes=[{"name": "more", "projected": {"sources": sources}}])},
        {"podTemplate": pod(containers=[beside])},
        {"podTemplate": pod(initContainers=[{**beside, "env": [], "envFrom": [whole]}])},
    ]


def specs_with_secret(name: str) -> list[Json]:
    """Specs whose pods need a Secret, each in a different way."""
    mounted = pod(volumes=[{"name": "more", "secret": {"secretName": name}}])
    projected = pod(volumes=[{"name": "more", "projected": {"sources": [{"secret": {"name": name}}]}}])
    return [
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": "token"}}}]},
        {"podTemplate": mounted},
        {"podTemplate": projected},
        {"podTemplate": pod(imagePullSecrets=[{"name": name}])},
    ]


def secret(world: World, name: str, **labels: str) -> None:
    body = {"metadata": {"name": name, "labels": labels}, "stringData": {"token": "s3cret"}}
    status, answer = world.request("POST", world.path("secrets"), body)
    assert status == 201, answer


@pytest.mark.parametrize("spec", [*optional("theirs"), *specs_with_secret("theirs")], ids=json.dumps)
async def test_pods_get_no_secret_without_the_label_whatever_refers_to_it(world: World, spec: Json) -> None:
    secret(world, "theirs")
    async with running(world):
        world.create("demo", {"image": {"name": IMAGE}, **spec})
        await world.until("refused", lambda: world.is_("demo", "ResolvedRefs", "False", "SecretNotLabelled"))
        assert world.is_("demo", "Programmed", "Unknown", "WaitingForRefs")
        assert deployment(world, "demo") is None
        patch = {"metadata": {"labels": {"fairlead.dev/credential": "true"}}}
        world.request("PATCH", world.path("secrets", "theirs"), patch, content_type="application/merge-patch+json")
        made = await world.until("a Deployment", lambda: deployment(world, "demo"))
    assert "theirs" in json.dumps(made["spec"]) if made else False


@pytest.mark.parametrize("spec", optional("later"), ids=json.dumps)
async def test_an_optional_secret_that_is_not_there_is_in_no_pod_until_it_is_and_may_be(
    world: World, spec: Json
) -> None:
    async with running(world):
        world.create("demo", {"image": {"name": IMAGE}, **spec})
        made = await world.until("a Deployment", lambda: deployment(world, "demo"))
        assert made is not None
        assert '"later"' not in json.dumps(made["spec"])
        await world.until("resolved", lambda: world.is_("demo", "ResolvedRefs", "True"))
        secret(world, "later")
        world.patch_server("demo", {"metadata": {"annotations": {"look": "now, and not within a minute"}}})
        await world.until("refused", lambda: world.is_("demo", "ResolvedRefs", "False", "SecretNotLabelled"))
        left = deployment(world, "demo")
        assert left is not None
        assert left["spec"] == made["spec"]
        patch = {"metadata": {"labels": {"fairlead.dev/credential": "true"}}}
        world.request("PATCH", world.path("secrets", "later"), patch, content_type="application/merge-patch+json")
        await world.until("in the pods", lambda: '"later"' in json.dumps((deployment(world, "demo") or {})["spec"]))


async def test_a_name_that_no_secret_can_have_is_asked_for_nowhere(world: World) -> None:
    """The name would become part of a request's path."""
    volume = {"name": "more", "secret": {"secretName": "../../../namespaces/kube-system/secrets/token"}}
    async with running(world):
        world.create("demo", {"image": {"name": IMAGE}, "podTemplate": pod(volumes=[volume])})
        await world.until("refused", lambda: world.is_("demo", "ResolvedRefs", "False", "SecretNotFound"))
        assert deployment(world, "demo") is None
