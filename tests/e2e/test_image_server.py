"""An image server from `kubectl apply` to an answered call, on a cluster that runs pods."""

from __future__ import annotations

import json

import pytest
from mcp import Client

from cluster_questions import RELEASE, kubectl_quiet, mcp_server, ready
from installation import kubectl
from waiting import until, until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300, func_only=True)]


async def test_an_image_is_deployed_discovered_listed_and_called(image: str, gateway: str, namespace: str) -> None:
    name = f"demo-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=mcp_server(name, image={"name": image}))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=90)
    columns = kubectl("get", "mcps", "-n", namespace, name).splitlines()
    assert columns[0].split() == ["NAME", "TRANSPORT", "TOOLS", "READY", "REASON", "CONFLICTED", "AGE"]
    assert columns[1].split()[1:4] == ["streamable-http", "4", "True"]
    documents = kubectl("get", "configmaps", "-n", RELEASE, "-l", f"fairlead.dev/server={name}", "-o", "json")
    (catalog,) = json.loads(documents)["items"]
    assert "get_stock" in catalog["data"]["document.json"]
    for mode in ("auto", "legacy"):
        async with Client(f"{gateway}/mcp", mode=mode) as client:
            assert f"{name}__get_stock" in {tool.name for tool in (await client.list_tools()).tools}
            result = await client.call_tool(f"{name}__get_stock", {"item": "rope"})
            assert not result.is_error
        async with Client(f"{gateway}/servers/{namespace}/{name}/mcp", mode=mode) as client:
            assert "get_stock" in {tool.name for tool in (await client.list_tools()).tools}


async def test_a_pod_that_goes_comes_back_and_a_server_that_goes_leaves_nothing(
    image: str, gateway: str, namespace: str
) -> None:
    name = f"gone-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=mcp_server(name, image={"name": image}))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=90)
    kubectl("delete", "pods", "-n", namespace, "--all", "--grace-period=1")
    async with Client(f"{gateway}/mcp") as client:

        async def answers() -> bool:
            return not (await client.call_tool(f"{name}__get_stock", {"item": "rope"})).is_error

        await until_async("an answer from the new pod", answers, seconds=60)
    kubectl("delete", "mcps", "-n", namespace, name)
    until("no pods", lambda: "No resources" in kubectl_quiet("get", "pods", "-n", namespace), seconds=60)
    documents = ["get", "configmaps", "-n", RELEASE, "-l", f"fairlead.dev/server={name}", "-o", "name"]
    until("no catalog", lambda: kubectl(*documents) == "", seconds=10)
