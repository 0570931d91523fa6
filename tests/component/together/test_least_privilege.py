"""Operator and gateway with exactly the rights of operator/rbac.yaml, on a real API server with an audit log: all
granted rights are used, all other requests are refused, and a single namespace suffices.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from cilium import definition
from controlplane import ControlPlane, PlaneFactory
from fairlead_api.documents.codec import RULES_NAME, catalog_name, decode
from fairlead_api.documents.rules import Rules
from fairlead_api.meta import ServerKey
from fairlead_kube.client import Kube
from fairlead_operator.kube.preflight import check_cluster
from gatewayworld import ask, calling
from operatorworld import GROUP, QUICK, World, configuration_of, running, simulated_network
from petstore import DOCUMENT
from rights import Accounts, Grant, granted_rights, refused_requests, used_rights
from togetherworld import serving, shows
from toolservers import modern_server, tool
from waiting import until_async

NEW_BY_APPLY = "a server-side apply of an object that is new is a patch in the audit log and asks for create too"
UNSEEN = {
    **{
        Grant("fairlead-operator", "everywhere", group, resource, "create"): NEW_BY_APPLY
        for group, resource in [
            ("apps", "deployments"),
            ("", "services"),
            ("", "serviceaccounts"),
            ("networking.k8s.io", "networkpolicies"),
            ("policy", "poddisruptionbudgets"),
            ("cilium.io", "ciliumnetworkpolicies"),
        ]
    },
    Grant("fairlead-operator", "release", "", "configmaps", "create"): NEW_BY_APPLY,
}
"""Rights that no request in the log shows, each with the reason."""
KEYS: dict[str, Any] = {"api_key_secrets": ("fairlead-api-keys",), "anonymous": "allow"}
"""Settings of a gateway with API keys."""


def world_on(plane: ControlPlane) -> World:
    name = f"team-{uuid.uuid4().hex[:8]}"
    return World(plane, plane.create_namespace(name), plane.create_namespace(f"{name}-release"))


@contextmanager
def world_of(plane: ControlPlane) -> Iterator[World]:
    world = world_on(plane)
    try:
        yield world
    finally:
        for namespace in (world.namespace, world.release):
            plane.remove_namespace(namespace)


def add_secret(world: World, name: str, *, labelled: bool = True) -> None:
    labels = {"fairlead.dev/credential": "true"} if labelled else {}
    secret = {"metadata": {"name": name, "labels": labels}, "stringData": {"token": "s3cret"}}
    assert world.request("POST", world.path("secrets"), secret)[0] == 201


def bearer(name: str) -> dict[str, Any]:
    return {"bearer": {"secretRef": {"name": name, "key": "token"}}}


def add_policy(world: World) -> None:
    policy = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "ToolPolicy",
        "metadata": {"name": "all", "namespace": world.namespace},
        "spec": {"rules": [{"action": "Allow", "tools": ["*"]}]},
    }
    status, answer = world.request("POST", f"{GROUP}/namespaces/{world.namespace}/toolpolicies", policy)
    assert status == 201, answer


@pytest.mark.timeout(240)
async def test_every_right_is_used_by_a_run_and_nothing_is_asked_for_beyond_them(private_plane: PlaneFactory) -> None:
    """Fails for an unnecessary right in the manifest, and for a request that the manifest does not cover."""
    plane = private_plane(audit=True)
    assert plane.audit is not None
    with world_of(plane) as world:
        accounts = Accounts.of(world, probes=True)
        add_secret(world, "key")
        add_secret(world, "other", labelled=False)
        add_policy(world)
        plane.apply(json.dumps(definition()))
        plane.await_definitions()
        await upgrade_tiers(world, accounts)
        async with (
            modern_server([tool("add")], call=lambda request: {"content": []}) as server,
            simulated_network(world),
            running(world, kubeconfig=str(accounts.operator), network_policy_probe="Daily"),
            serving(
                world, kubeconfig=accounts.gateway, anonymous="allow", api_key_secrets=("fairlead-api-keys",)
            ) as gateway,
        ):
            world.create("remote", {"url": server.url, "auth": bearer("key"), "pin": True})
            world.create("unlabelled", {"url": server.url, "auth": bearer("other")})
            document = {"metadata": {"name": "petstore"}, "data": {"openapi.json": json.dumps(DOCUMENT)}}
            assert world.request("POST", world.path("configmaps"), document)[0] == 201
            world.create("pets", {"openapi": {"configMapRef": {"name": "petstore"}, "include": ["listPets"]}})
            named = {"egress": {"rules": [{"domainNames": ["api.example.com"], "ports": [443]}]}}
            world.create("pods", {"image": {"name": "registry.example/demo:1"}, "replicas": 2, "network": named})
            await world.until("remote Ready", lambda: world.is_("remote", "Ready", "True"))
            await world.until("pets Ready", lambda: world.is_("pets", "Ready", "True"))
            await world.until("refused", lambda: world.is_("unlabelled", "ResolvedRefs", "False", "SecretNotLabelled"))
            await world.until("a Deployment", lambda: world.get(world.path("deployments", "pods")))
            await world.until("a probe", lambda: world.is_("pods", "NetworkPolicyEnforced", "True"))
            await until_async("the tool", shows(gateway, "remote__add", "pets__listPets"))
            answer = await ask(gateway, calling("remote__add", {}))
            assert "isError" not in answer.message["result"]
            await world.until("the size of a tier", lambda: sizes(world) != {None})
            world.patch_server("pods", {"spec": {"image": None, "replicas": None, "network": None, "url": server.url}})
            await world.until("no Deployment", lambda: world.get(world.path("deployments", "pods")) is None)
            assert world.request("DELETE", world.server_path("remote"))[0] == 200
            await world.until("no catalog", lambda: world.catalog("remote") is None)
            # its credential is deleted after its catalog; a remaining one is reported below
            with suppress(AssertionError):
                await world.until("every right used", lambda: not unused_rights(plane, world))
            requests = plane.audit.requests()
        assert [str(request) for request in refused_requests(requests, world)] == []
        assert sorted(map(str, unused_rights(plane, world))) == []
        assert sorted(map(str, set(UNSEEN) - granted_rights())) == []


async def upgrade_tiers(world: World, accounts: Accounts) -> None:
    """Let the operator adopt a default tier of an older operator. Afterwards, there are no tiers."""
    spec = {"maxLatency": "500ms", "default": True}
    body = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "LatencyTier", "metadata": {"name": "fast"}, "spec": spec}
    tiers = f"{GROUP}/latencytiers"
    assert world.request("POST", f"{tiers}?fieldManager=fairlead-operator", body)[0] == 201

    def is_withdrawn() -> bool:
        return world.request("GET", f"{tiers}/fast")[1]["spec"]["default"] is False

    async with running(world, kubeconfig=str(accounts.operator)):
        await world.until("the older default withdrawn", is_withdrawn)
    assert world.request("DELETE", f"{tiers}/fast")[0] == 200


def unused_rights(plane: ControlPlane, world: World) -> set[Grant]:
    """Granted rights that the log could show and does not show yet."""
    assert plane.audit is not None
    return granted_rights() - used_rights(plane.audit.requests(), world) - set(UNSEEN)


def sizes(world: World) -> set[int | None]:
    _, listing = world.request("GET", f"{GROUP}/latencytiers")
    return {item.get("status", {}).get("tools") for item in listing["items"]}


DENIED = [
    ("fairlead-gateway", "get", "", "secrets", "RELEASE", "other"),
    ("fairlead-gateway", "list", "", "secrets", "RELEASE", ""),
    ("fairlead-gateway", "get", "", "secrets", "TENANT", "fairlead-credentials-0"),
    ("fairlead-gateway", "update", "", "configmaps", "RELEASE", RULES_NAME),
    ("fairlead-gateway", "patch", "", "configmaps", "RELEASE", RULES_NAME),
    ("fairlead-gateway", "create", "", "configmaps", "RELEASE", ""),
    ("fairlead-gateway", "list", "", "configmaps", "TENANT", ""),
    ("fairlead-gateway", "list", "fairlead.dev", "mcpservers", "TENANT", ""),
    ("fairlead-gateway", "list", "", "pods", "RELEASE", ""),
    ("fairlead-gateway", "create", "", "pods", "RELEASE", ""),
    ("fairlead-operator", "create", "fairlead.dev", "mcpservers", "TENANT", ""),
    ("fairlead-operator", "patch", "fairlead.dev", "mcpservers", "TENANT", "demo"),
    ("fairlead-operator", "delete", "fairlead.dev", "mcpservers", "TENANT", "demo"),
    ("fairlead-operator", "patch", "fairlead.dev", "toolpolicies", "TENANT", "all"),
    ("fairlead-operator", "create", "", "secrets", "TENANT", ""),
    ("fairlead-operator", "patch", "", "secrets", "TENANT", "key"),
    ("fairlead-operator", "delete", "", "secrets", "RELEASE", "fairlead-credentials-0"),
    ("fairlead-operator", "list", "", "configmaps", "TENANT", ""),
    ("fairlead-operator", "create", "", "configmaps", "TENANT", ""),
    ("fairlead-operator", "create", "", "pods", "TENANT", ""),
    ("fairlead-operator", "create", "", "pods", "RELEASE", ""),
    ("fairlead-operator", "create", "batch", "jobs", "RELEASE", ""),
    ("fairlead-operator", "create", "batch", "jobs", "TENANT", ""),
    ("fairlead-operator", "create", "", "pods/exec", "TENANT", "demo"),
    ("fairlead-operator", "get", "", "pods/log", "TENANT", "demo"),
    ("fairlead-operator", "create", "", "serviceaccounts/token", "TENANT", "demo"),
    ("fairlead-operator", "create", "rbac.authorization.k8s.io", "rolebindings", "TENANT", ""),
    ("fairlead-operator", "list", "", "namespaces", "", ""),
    ("fairlead-operator", "list", "", "nodes", "", ""),
    ("fairlead-operator", "list", "coordination.k8s.io", "leases", "", ""),
    ("fairlead-operator", "update", "coordination.k8s.io", "leases", "TENANT", "fairlead-namespace"),
    ("fairlead-operator", "update", "coordination.k8s.io", "leases", "default", "another"),
    ("fairlead-gateway", "update", "coordination.k8s.io", "leases", "default", "fairlead-all-namespaces"),
    ("fairlead-operator", "impersonate", "", "users", "", ""),
]


def is_allowed(world: World, account: str, verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
    """Verdict of the API server's own authorizer about an account."""
    plural, _, sub = resource.partition("/")
    namespace = namespace.replace("RELEASE", world.release).replace("TENANT", world.namespace)
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": sub}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{world.release}:{account}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{world.release}", "system:authenticated"],
            "resourceAttributes": {**attributes, "namespace": namespace, "name": name},
        },
    }
    status, answer = world.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


def test_rights_that_are_not_granted_are_refused(control_plane: ControlPlane) -> None:
    with world_of(control_plane) as world:
        accounts = Accounts.of(world)
        got = [row for row in DENIED if is_allowed(world, *row)]
        assert got == []
        assert is_allowed(world, "fairlead-gateway", "get", "", "secrets", "RELEASE", "fairlead-credentials-0")
        add_secret(world, "key")
        for words in (["get", "secrets"], ["get", "mcpservers"], ["create", "configmap", "forged"]):
            done = control_plane.kubectl("-n", world.namespace, *words, kubeconfig=accounts.gateway, check=False)
            assert done.returncode == 1
            assert "orbidden" in done.stderr


@pytest.mark.timeout(180)
async def test_rights_in_one_namespace_are_enough_for_an_operator_that_watches_it(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    with world_of(control_plane) as world, world_of(control_plane) as other:
        accounts = Accounts.of(world, namespaced=True)
        add_secret(world, "key")
        settings = QUICK.replace(watch_namespace=world.namespace)
        assert not is_allowed(world, "fairlead-operator", "list", "fairlead.dev", "latencytiers", "", "")
        assert not is_allowed(world, "fairlead-operator", "list", "", "secrets", other.namespace, "")
        kube = Kube.connect(await configuration_of(control_plane, str(accounts.operator)))
        await check_cluster(kube, world.release, world.namespace, (world.namespace,))
        await kube.aclose()
        async with (
            modern_server([tool("add")], call=lambda request: {"content": []}) as server,
            running(world, settings, kubeconfig=str(accounts.operator)),
            serving(world, kubeconfig=accounts.gateway) as gateway,
        ):
            other.create("demo", {"url": server.url})
            world.create("demo", {"url": server.url, "auth": bearer("key")})
            world.create("pods", {"image": {"name": "registry.example/demo:1"}})
            await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
            await world.until("a Deployment", lambda: world.get(world.path("deployments", "pods")))
            await until_async("the tool", shows(gateway, "demo__add"))
            answer = await ask(gateway, calling("demo__add", {}))
            assert "isError" not in answer.message["result"]
            await world.until("rules", lambda: RULES_NAME in world.documents())
            rules = decode(world.documents()[RULES_NAME])
            assert isinstance(rules, Rules)
            assert {tier.name for tier in rules.tiers} == {"fast", "standard", "deep"}
            assert "status" not in other.server("demo")
            assert catalog_name(ServerKey(other.namespace, "demo")) not in world.documents()
        told = [record.getMessage() for record in caplog.records if "orbidden" in record.getMessage()]
        assert told == []
        assert [m for r in caplog.records if "the tiers are those of FAIRLEAD_TIERS" in (m := r.getMessage())]
