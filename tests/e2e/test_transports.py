"""Every transport on a real cluster: from `kubectl apply` to an answered call."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from mcp import Client

from cluster_questions import RELEASE, catalog, condition, mcp_server, ready
from fairlead_mcp.addresses import authority
from installation import POD_IP, kubectl
from shownconditions import cause
from waiting import until, until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300, func_only=True)]

SSE = """
import os
from mcp.server import MCPServer
server = MCPServer("told")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
server.run("sse", host=os.environ["POD_IP"], port=8080)
"""


def stdio(name: str, image: str, command: str = "mcp-server-time") -> str:
    return mcp_server(
        name, image={"name": image, "transport": "stdio", "command": [command], "args": ["--local-timezone", "UTC"]}
    )


def sse(name: str, image: str) -> str:
    return mcp_server(name, image={"name": image, "transport": "sse", "command": ["python", "-c", SSE]}, env=[POD_IP])


def processes(namespace: str) -> str:
    """Processes in the only pod of a namespace."""
    pod = kubectl("get", "pods", "-n", namespace, "-o", "name").strip()
    return kubectl("exec", "-n", namespace, pod, "-c", "server", "--", "/fairlead/busybox", "ps")


def pod_ip(namespace: str, name: str) -> str:
    selector = f"fairlead.dev/server={name}"
    return kubectl("get", "pods", "-n", namespace, "-l", selector, "-o", "jsonpath={.items[0].status.podIP}")


async def test_a_stdio_server_in_an_image_is_served_through_the_listener(
    time_image: str, gateway: str, namespace: str
) -> None:
    name = f"time-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=stdio(name, time_image))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=90)
    document = catalog(name)
    assert document is not None
    assert document["endpoint"] == {"transport": "stdio-tcp", "host": f"{name}.{namespace}.svc", "port": 8080}
    for mode in ("auto", "legacy"):
        async with Client(f"{gateway}/mcp", mode=mode) as client:
            assert f"{name}__get_current_time" in {tool.name for tool in (await client.list_tools()).tools}
            result = await client.call_tool(f"{name}__get_current_time", {"timezone": "UTC"})
            assert not result.is_error, result


async def test_a_wrong_token_starts_no_server(time_image: str, gateway: str, namespace: str) -> None:
    name = f"gate-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=stdio(name, time_image))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=90)
    until("the discovery's own server has ended", lambda: "python" not in processes(namespace), seconds=20)
    reader, writer = await asyncio.open_connection(pod_ip(namespace, name), 8080)
    writer.write(b"not the token\n")
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    assert "python" not in processes(namespace)


def test_the_token_stands_nowhere_but_in_the_credentials(time_image: str, gateway: str, namespace: str) -> None:
    name = f"word-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=stdio(name, time_image))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=90)
    stored = kubectl("get", "secrets", "-n", RELEASE, "-l", "fairlead.dev/credentials-store=true", "-o", "json")
    values = {k: v for secret in json.loads(stored)["items"] for k, v in secret.get("data", {}).items()}
    token = json.loads(base64.b64decode(next(v for k, v in values.items() if name in k)))["token"]
    assert len(token) > 30
    everything = kubectl("get", "pods,deployments,replicasets,configmaps,secrets", "-n", namespace, "-o", "json")
    assert token not in everything + kubectl("get", "configmaps", "-n", RELEASE, "-o", "json")


async def test_a_server_that_speaks_http_and_events_is_served_from_an_image(
    image: str, gateway: str, namespace: str
) -> None:
    name = f"told-{namespace[-8:]}"
    kubectl(
        "apply",
        "-n",
        namespace,
        "-f",
        "-",
        stdin=sse(name, image),
    )
    until("Ready", lambda: ready(namespace, name) == "True", seconds=90)
    async with Client(f"{gateway}/servers/{namespace}/{name}/mcp") as client:
        result = await client.call_tool("add", {"a": 2, "b": 3})
        assert result.structured_content == {"result": 5}


async def test_a_server_that_speaks_http_and_events_is_served_by_url(image: str, gateway: str, namespace: str) -> None:
    name = f"away-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=sse("there", image))
    url = f"http://there.{namespace}.svc:8080/sse"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=mcp_server(name, url=url, remote={"transport": "sse"}))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=90)
    async with Client(f"{gateway}/mcp") as client:
        result = await client.call_tool(f"{name}__add", {"a": 2, "b": 3})
        assert result.structured_content == {"result": 5}


def test_a_service_of_another_namespace_is_refused_by_its_address_too(gateway: str, namespace: str) -> None:
    """The cluster's DNS resolves the address to the Service's name. No denied network is configured."""
    address = kubectl("get", "service", "fairlead-gateway", "-n", RELEASE, "-o", "jsonpath={.spec.clusterIP}")
    name = f"inward-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=mcp_server(name, url=f"http://{authority(address, 80)}/mcp"))
    until("refused", lambda: cause(condition(namespace, name, "Ready")) == "AddressNotAllowed", seconds=60)
    assert f"{address} leads to a Service of namespace {RELEASE}" in condition(namespace, name, "Ready")["message"]


async def test_a_pod_that_is_replaced_ends_its_stdio_server_and_the_next_call_finds_the_new_one(
    time_image: str, gateway: str, namespace: str
) -> None:
    name = f"roll-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=stdio(name, time_image))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=90)
    async with Client(f"{gateway}/mcp") as client:

        async def answers() -> bool:
            return not (await client.call_tool(f"{name}__get_current_time", {"timezone": "UTC"})).is_error

        await until_async("an answer", answers, seconds=10)
        kubectl("delete", "pods", "-n", namespace, "--all", "--grace-period=1")
        await until_async("an answer from the new pod", answers, seconds=60)


async def test_a_command_that_does_not_exist_is_named_as_the_reason(
    time_image: str, gateway: str, namespace: str
) -> None:
    name = f"none-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=stdio(name, time_image, "no-such-program"))
    until("a reason", lambda: cause(condition(namespace, name, "Ready")) == "CommandNotFound", seconds=60)
