"""A server by image: its objects, their repair after changes by others, and the condition Ready meanwhile."""

from __future__ import annotations

import pytest

from fairlead_api.documents.catalog import HttpEndpoint
from fairlead_api.documents.codec import catalog_name
from fairlead_api.meta import ServerKey
from fairlead_operator.server.kube_manifests import ANNOTATION_CONFIG_MAPS
from operatorworld import World, running
from toolservers import SDK_TOOLS, broken_server, sdk_server

OWNED = ("serviceaccounts", "services", "networkpolicies", "deployments")


def serve(world: World, name: str, url: str) -> None:
    """Let the Service's name resolve to a server on this machine."""
    world.hosts.ports[f"{name}.{world.namespace}.svc"] = int(url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])


async def ready(world: World, name: str, url: str) -> None:
    """An image server with running pods and published tools."""
    serve(world, name, url)
    world.create(name, {"image": {"name": "registry.example/demo:1"}})
    await world.until("a Deployment", lambda: world.get(world.path("deployments", name)))
    world.pods_are(name, 1)
    await world.until("Ready", lambda: world.is_(name, "Ready", "True"))


async def test_an_image_server_gets_its_objects_and_waits_for_its_pods(world: World) -> None:
    async with running(world):
        created = world.create("demo", {"image": {"name": "registry.example/demo:1"}, "replicas": 2})
        await world.until("Deploying", lambda: world.is_("demo", "Programmed", "Unknown", "Deploying"))
        objects = [world.get(world.path(plural, "demo")) for plural in (*OWNED, "poddisruptionbudgets")]
        assert world.is_("demo", "Ready", "Unknown", "Deploying")
        assert world.catalog("demo") is None
    for item in objects:
        assert item is not None
        (owner,) = item["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (created["metadata"]["uid"], True)


async def test_an_image_server_is_ready_once_its_pods_are_up_and_its_tools_are_listed(world: World) -> None:
    async with sdk_server() as url, running(world):
        await ready(world, "demo", url)
        catalog = world.catalog("demo")
    assert catalog is not None
    assert {tool.name for tool in catalog.tools} == set(SDK_TOOLS)
    assert isinstance(catalog.endpoint, HttpEndpoint)
    assert catalog.endpoint.url == f"http://demo.{world.namespace}.svc:8080/mcp"


async def test_a_server_with_fewer_pods_than_asked_for_is_ready_and_says_what_keeps_the_others(world: World) -> None:
    async with sdk_server() as url, running(world):
        await ready(world, "demo", url)
        world.patch_server("demo", {"spec": {"replicas": 3}})
        path = world.path("deployments", "demo")
        await world.until("three wanted", lambda: (world.get(path) or {})["spec"]["replicas"] == 3)
        refusal = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: q"}
        patch = {"status": {"conditions": [refusal]}}
        world.request("PATCH", f"{path}/status", patch, content_type="application/merge-patch+json")
        await world.until("told", lambda: world.is_("demo", "PartiallyInvalid", "True", "PodsMissing"))
        message = world.condition("demo", "PartiallyInvalid")["message"]
        assert "1 of 3 pods are up, and others cannot start: pods cannot be created: exceeded quota: q" in message
        assert world.is_("demo", "Ready", "True")
        world.patch_server("demo", {"spec": {"replicas": 1}})
        await world.until("nothing to say", lambda: world.condition("demo", "PartiallyInvalid") == {})


async def test_a_server_whose_port_changes_is_called_at_the_old_one_until_the_rollout_is_over(world: World) -> None:
    merge = "application/merge-patch+json"
    host = f"http://demo.{world.namespace}.svc"

    def published_url() -> str:
        catalog = world.catalog("demo")
        return catalog.endpoint.url if catalog is not None and isinstance(catalog.endpoint, HttpEndpoint) else ""

    async with sdk_server() as url, running(world):
        await ready(world, "demo", url)
        template = (world.get(world.path("deployments", "demo")) or {})["spec"]["template"]
        metadata = {"name": "demo-pod", "labels": template["metadata"]["labels"]}
        world.request("POST", world.path("pods"), {"metadata": metadata, "spec": template["spec"]})
        conditions = [{"type": "Ready", "status": "True"}]
        world.request(
            "PATCH",
            world.path("pods", "demo-pod", "/status"),
            {"status": {"conditions": conditions}},
            content_type=merge,
        )
        world.patch_server("demo", {"spec": {"prefix": "moved", "image": {"port": 9000}}})
        generation = world.server("demo")["metadata"]["generation"]
        await world.until("looked at", lambda: world.server("demo")["status"].get("observedGeneration") == generation)
        world.pods_are("demo", 1, old=1)
        await world.until("the new prefix", lambda: getattr(world.catalog("demo"), "prefix", "") == "moved")
        during_rollout = published_url()
        world.request("DELETE", f"{world.path('pods', 'demo-pod')}?gracePeriodSeconds=0")
        world.pods_are("demo", 1)
        await world.until("the new port", lambda: published_url() == f"{host}:9000/mcp")
    assert during_rollout == f"{host}:8080/mcp"


@pytest.mark.parametrize("plural", OWNED)
async def test_an_object_that_is_deleted_by_hand_comes_back(world: World, plural: str) -> None:
    async with running(world):
        world.create("demo", {"image": {"name": "registry.example/demo:1"}})
        await world.until("objects", lambda: world.get(world.path("deployments", "demo")))
        before = world.get(world.path(plural, "demo"))
        assert before is not None
        world.request("DELETE", f"{world.path(plural, 'demo')}?propagationPolicy=Background")

        def back() -> bool:
            item = world.get(world.path(plural, "demo"))
            return item is not None and item["metadata"]["uid"] != before["metadata"]["uid"]

        await world.until(f"{plural} again", back)


async def test_a_service_port_that_is_edited_by_hand_is_put_right(world: World) -> None:
    async with running(world):
        world.create("demo", {"image": {"name": "registry.example/demo:1"}})
        await world.until("objects", lambda: world.get(world.path("deployments", "demo")))
        patch = {"spec": {"ports": [{"name": "mcp", "port": 9999, "targetPort": "mcp"}]}}
        code, answer = world.request(
            "PATCH", world.path("services", "demo"), patch, content_type="application/merge-patch+json"
        )
        assert (code, answer["spec"]["ports"][0]["port"]) == (200, 9999)

        def right() -> bool:
            item = world.get(world.path("services", "demo"))
            return item is not None and [port["port"] for port in item["spec"]["ports"]] == [8080]

        await world.until("port 8080 alone", right)


async def test_an_image_and_a_sidecar_that_are_edited_by_hand_are_put_right(world: World) -> None:
    async with running(world):
        world.create("demo", {"image": {"name": "registry.example/demo:1"}})
        await world.until("objects", lambda: world.get(world.path("deployments", "demo")))
        containers = [{"name": "server", "image": "registry.example/other:2"}, {"name": "miner", "image": "miner:1"}]
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        world.request(
            "PATCH",
            world.path("deployments", "demo"),
            patch,
            content_type="application/strategic-merge-patch+json",
        )

        def right() -> bool:
            item = world.get(world.path("deployments", "demo"))
            assert item is not None
            return [c["image"] for c in item["spec"]["template"]["spec"]["containers"]] == ["registry.example/demo:1"]

        await world.until("its own image alone", right)


@pytest.mark.parametrize("meddling", ["emptied", "deleted", "unlabelled", "foreign key"])
async def test_a_catalog_that_is_meddled_with_is_made_whole_again(world: World, meddling: str) -> None:
    async with sdk_server() as url, running(world):
        world.create("demo", {"url": url})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        name = catalog_name(ServerKey(world.namespace, "demo"))
        path = world.config_map_path(name)
        before = world.documents()[name]
        generation = world.server("demo")["metadata"]["resourceVersion"]
        patches = {
            "emptied": {"data": None},
            "unlabelled": {"metadata": {"labels": None}},
            "foreign key": {"data": {"document.json": "{}", "more": "x"}},
        }
        if meddling == "deleted":
            world.request("DELETE", path)
        else:
            world.request("PATCH", path, patches[meddling], content_type="application/merge-patch+json")

        def whole() -> bool:
            item = world.get(path)
            return item is not None and set(item.get("data", {})) == {"document.json"} and name in world.documents()

        await world.until("the whole catalog", whole)
        assert world.documents()[name][:200] == before[:200]
        assert world.server("demo")["metadata"]["resourceVersion"] == generation, "the McpServer was not touched"


@pytest.mark.parametrize(
    ("broken", "reason"), [("500", "ServerError"), ("html", "HTMLInsteadOfMCP"), ("half json", "TruncatedJSON")]
)
async def test_a_pod_that_is_up_and_does_not_speak_mcp_is_never_ready(world: World, broken: str, reason: str) -> None:
    async with broken_server(broken) as server, running(world):
        serve(world, "demo", server.url)
        world.create("demo", {"image": {"name": "registry.example/demo:1"}})
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        world.pods_are("demo", 1)
        await world.until("Verified False", lambda: world.is_("demo", "Verified", "False", reason))
        assert world.is_("demo", "Ready", "False", reason)
        assert world.is_("demo", "Programmed", "True")
        assert world.catalog("demo") is None


async def test_a_ready_server_whose_pods_go_is_down_with_its_catalog_kept_offline(world: World) -> None:
    async with sdk_server() as url, running(world):
        await ready(world, "demo", url)
        world.pods_are("demo", 0)
        await world.until("not Ready", lambda: world.is_("demo", "Ready", "False", "Unreachable"))
        assert world.is_("demo", "Programmed", "True")
        await world.until("offline", lambda: (c := world.catalog("demo")) is not None and not c.online)
        status = world.server("demo")["status"]
        assert status["toolsOffline"] == status["tools"] == len(SDK_TOOLS)
        world.pods_are("demo", 1)
        await world.until("Ready again", lambda: world.is_("demo", "Ready", "True"))
        await world.until("online", lambda: (c := world.catalog("demo")) is not None and c.online)


async def test_an_object_of_the_same_name_that_is_somebody_elses_is_left_alone(world: World) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "demo", "namespace": world.namespace},
        "spec": {"ports": [{"port": 80}]},
    }
    world.request("POST", world.path("services"), theirs)
    async with running(world):
        world.create("demo", {"image": {"name": "registry.example/demo:1"}})
        await world.until("refused", lambda: world.is_("demo", "Programmed", "False", "NameTaken"))
        assert "Service" in world.condition("demo", "Programmed")["message"]
    service = world.get(world.path("services", "demo"))
    assert service is not None
    assert service["spec"]["ports"][0]["port"] == 80


async def test_a_config_map_in_the_environment_replaces_the_pods_when_its_data_changes_and_only_then(
    world: World,
) -> None:
    path, merge = world.path("configmaps", "zones"), "application/merge-patch+json"

    def revision() -> str:
        deployment = world.get(world.path("deployments", "demo")) or {"spec": {"template": {"metadata": {}}}}
        annotations = deployment["spec"]["template"]["metadata"].get("annotations") or {}
        return str(annotations.get(ANNOTATION_CONFIG_MAPS, ""))

    spec = {"image": {"name": "registry.example/demo:1"}, "envFrom": [{"configMapRef": {"name": "zones"}}]}
    async with running(world):
        world.create("demo", spec)
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        assert revision() == ""
        created = world.request("POST", world.path("configmaps"), {"metadata": {"name": "zones"}, "data": {"A": "1"}})
        assert created[0] == 201
        await world.until("a revision", revision)
        first = revision()
        world.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=merge)
        world.patch_server("demo", {"spec": {"replicas": 2}})
        await world.until(
            "two replicas", lambda: (world.get(world.path("deployments", "demo")) or {})["spec"]["replicas"] == 2
        )
        assert revision() == first
        world.request("PATCH", path, {"data": {"A": "2"}}, content_type=merge)
        await world.until("another revision", lambda: revision() not in ("", first))
