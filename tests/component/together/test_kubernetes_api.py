"""The API of Kubernetes as tools: the API server's own document, and calls that read with a service account's token."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

from gatewayworld import ask, calling
from operatorworld import World, running
from togetherworld import names, serving
from waiting import until_async

GROUP = "/apis/apps/v1"
LIST = "apps__listAppsV1NamespacedDeployment"
READ = "apps__readAppsV1NamespacedDeployment"
FORBIDDEN = "apps__listAppsV1NamespacedStatefulSet"
CONTAINERS = [{"name": "web", "image": "example.com/web:1"}]


def create(world: World, path: str, body: dict[str, Any]) -> Any:
    status, answer = world.request("POST", path, body)
    assert status == 201, answer
    return answer


def token_of_a_reader(world: World) -> str:
    """Token of a service account that may read Deployments, and nothing else."""
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{world.namespace}"
    create(world, world.path("serviceaccounts"), {"metadata": {"name": "reader"}})
    rules = [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]}]
    create(world, f"{roles}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": world.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    create(world, f"{roles}/rolebindings", {"metadata": {"name": "reader"}, "subjects": [subject], "roleRef": role})
    answer = create(world, world.path("serviceaccounts", "reader", "/token"), {"spec": {}})
    return str(answer["status"]["token"])


def declare(world: World) -> None:
    """Create the McpServer `apps` with all GET operations of the group except watches, and the objects to which it
    refers."""
    status, document = world.request("GET", f"/openapi/v3{GROUP}")
    assert status == 200
    data = base64.b64encode(gzip.compress(json.dumps(document).encode())).decode()
    create(world, world.path("configmaps"), {"metadata": {"name": "apps"}, "binaryData": {"openapi.json.gz": data}})
    secret = {
        "metadata": {"name": "reader", "labels": {"fairlead.dev/credential": "true"}},
        "stringData": {"token": token_of_a_reader(world)},
    }
    create(world, world.path("secrets"), secret)
    openapi = {
        "configMapRef": {"name": "apps"},
        "baseURL": world.plane.server,
        "caBundle": (world.plane.folder / "pki" / "ca.crt").read_text(),
        "include": ["GET *"],
        "exclude": ["GET */watch/*"],
    }
    world.create("apps", {"openapi": openapi, "auth": {"bearer": {"secretRef": {"name": "reader", "key": "token"}}}})


async def test_an_api_servers_own_document_is_tools_that_read_with_a_token(world: World) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}}
    spec = {"selector": {"matchLabels": labels}, "replicas": 0, "template": template}
    async with running(world), serving(world) as gateway:
        create(world, world.path("deployments"), {"metadata": {"name": "web"}, "spec": spec})
        declare(world)
        await world.until("Ready", lambda: world.is_("apps", "Ready", "True"))

        async def is_listed() -> bool:
            return LIST in await names(gateway)

        await until_async("the tools", is_listed)
        listed = await names(gateway)
        assert all(name.startswith(("apps__list", "apps__read", "apps__get")) for name in listed)
        report = world.server("apps")["status"]["openapi"]
        assert report.get("leftOut", 0) == 0
        deployments = await call_tool(gateway, LIST, namespace=world.namespace, limit=10)
        assert [item["metadata"]["name"] for item in deployments["items"]] == ["web"]
        assert (await call_tool(gateway, READ, namespace=world.namespace, name="web"))["spec"]["replicas"] == 0
        refused = (await ask(gateway, calling(FORBIDDEN, {"namespace": world.namespace}))).message
        assert refused["result"]["isError"]
        assert "403" in json.dumps(refused["result"]["content"])


async def call_tool(gateway: Any, tool: str, **arguments: Any) -> Any:
    """Structured content of a successful call."""
    result = (await ask(gateway, calling(tool, arguments))).message["result"]
    assert not result.get("isError"), result
    return result["structuredContent"] if "structuredContent" in result else json.loads(result["content"][0]["text"])
