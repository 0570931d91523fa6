"""Settings of servers' pods, and messages about pods that do not start."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mcp import Client

from cluster_questions import condition, mcp_server, ready
from installation import kubectl
from shownconditions import cause
from waiting import until, until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300, func_only=True)]

INSISTS = "import os, sys; os.getuid() and sys.exit('this server must be run as root'); "
SERVE = "sys.argv[1:] = ['--port', '8080']; import runpy; runpy.run_path('/srv/demo.py', run_name='__main__')"


def insistent_server(name: str, image: str, **pod: Any) -> str:
    more = {"unrestrictedPodTemplate": {"spec": pod}} if pod else {}
    return mcp_server(name, image={"name": image, "command": ["python", "-c", INSISTS + SERVE]}, **more)


async def test_an_image_that_insists_on_root_is_told_how_and_runs_once_it_may(
    image: str, gateway: str, unrestricted_namespace: str
) -> None:
    namespace = unrestricted_namespace
    name = "root"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=insistent_server(name, image))
    refused = "RunAsRootRefused"
    until("a reason", lambda: cause(condition(namespace, name, "Ready")) == refused, seconds=60)
    message = condition(namespace, name, "Programmed")["message"]
    assert "this server must be run as root" in message
    assert "spec.unrestrictedPodTemplate.spec.securityContext to {runAsNonRoot: false, runAsUser: 0}" in message
    relaxed = {"securityContext": {"runAsNonRoot": False, "runAsUser": 0}}
    kubectl("apply", "-n", namespace, "-f", "-", stdin=insistent_server(name, image, **relaxed))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=90)


def test_an_image_that_does_not_exist_is_named(gateway: str, namespace: str) -> None:
    name = f"gone-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=mcp_server(name, image={"name": "localhost/no-such-image:1"}))
    until("a reason", lambda: cause(condition(namespace, name, "Ready")) == "ImagePullFailed", seconds=60)


async def test_two_replicas_are_addressed_one_by_one(image: str, gateway: str, namespace: str) -> None:
    name = f"two-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=mcp_server(name, image={"name": image}, replicas=2))
    deployment = [
        "get",
        "deployment",
        "-n",
        namespace,
        name,
        "--ignore-not-found",
        "-o",
        "jsonpath={.status.readyReplicas}",
    ]
    until("both pods", lambda: kubectl(*deployment) == "2", seconds=90)
    until("Ready", lambda: ready(namespace, name) == "True", seconds=30)
    service = json.loads(kubectl("get", "service", "-n", namespace, name, "-o", "json"))
    assert service["spec"]["clusterIP"] == "None"
    selector = f"fairlead.dev/server={name}"

    def which_pods_served() -> list[bool]:
        pods = kubectl("get", "pods", "-n", namespace, "-l", selector, "-o", "name").split()
        logs = [kubectl("logs", "-n", namespace, pod, "-c", "server") for pod in pods]
        return ["POST /mcp" in log for log in logs]

    async with Client(f"{gateway}/servers/{namespace}/{name}/mcp") as client:

        async def both_serve() -> bool:  # the cluster's DNS returns a new pod only some seconds after it is ready
            # at the same time, so that there are several connections
            calls = [client.call_tool("get_stock", {"item": "rope"}) for _ in range(12)]
            assert not any(result.is_error for result in await asyncio.gather(*calls))
            return await asyncio.to_thread(which_pods_served) == [True, True]

        await until_async("both pods serve calls", both_serve, seconds=60)
