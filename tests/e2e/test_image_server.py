"""A server from `kubectl apply` to an answered call, on a cluster whose nodes run pods.

Operator and gateway run on this machine as the README says, in a mount namespace of their own in which names resolve as
they do in a pod. The image is built here and loaded into the node, so the test needs `hack/cluster` and not just any
cluster.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from planeprocesses import free_port
from waiting import until, until_async

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGE = "localhost/fairlead-demo:e2e"
RELEASE = "fairlead-system"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def run(*command: str | Path, check: bool = True) -> str:
    done = subprocess.run([str(word) for word in command], cwd=REPOSITORY, capture_output=True, text=True)
    if check and done.returncode:
        raise AssertionError(f"{command} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def kubectl(*words: str, stdin: str | None = None) -> str:
    done = subprocess.run(["kubectl", *words], input=stdin, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise AssertionError(f"kubectl {' '.join(words)}: {done.stderr}")
    return done.stdout


def needs(reason: str | None) -> None:
    """Skip with a printed reason; where CI has decided that this machine can, a skip is a failure."""
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The demo server as an image, in the node's store."""
    needs(None if shutil.which("buildah") else "buildah is not installed: no image can be built")
    run("hack/kubernetes/python-base")
    base = "BASE=localhost/python:3.13-slim"
    dockerfile = "tests/e2e/images/demo/Dockerfile"
    run("buildah", "bud", "--isolation", "chroot", "--build-arg", base, "-t", IMAGE, "-f", dockerfile, ".")
    archive = tmp_path_factory.mktemp("image") / "demo.tar"
    run("buildah", "push", IMAGE, f"docker-archive:{archive}:{IMAGE}")
    run("hack/cluster", "load", archive)
    return IMAGE


@contextmanager
def on_cluster_network(folder: Path, name: str, *command: str) -> Iterator[subprocess.Popen[str]]:
    """`command` with the cluster's DNS, its output in `folder`; ended by SIGTERM, which has to do within 20 s."""
    resolver = folder / "resolv.conf"
    dns = kubectl("get", "service", "-n", "kube-system", "kube-dns", "-o", "jsonpath={.spec.clusterIP}")
    resolver.write_text(f"nameserver {dns}\nsearch svc.cluster.local cluster.local\noptions ndots:5\n")
    script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script, str(resolver), *command],
            stdout=log, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a gateway on the cluster's documents, an operator beside it; both as `fairlead` commands."""
    folder = tmp_path_factory.mktemp("processes")
    port = free_port()
    fairlead = str(Path(sys.executable).with_name("fairlead"))
    run(fairlead, "crds", "--install")
    kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RELEASE}})
    )
    operator = [fairlead, "operator", "--namespace", RELEASE, "--metrics-port", str(free_port())]
    serve = [fairlead, "gateway", "--namespace", RELEASE, "--port", str(port), "--metrics-port", str(free_port())]
    with ExitStack() as processes:
        processes.enter_context(on_cluster_network(folder, "operator", *operator))
        processes.enter_context(on_cluster_network(folder, "gateway", *serve))
        yield f"http://127.0.0.1:{port}"
        for log in sorted(folder.glob("*.log")):
            sys.stderr.write(f"--- {log.name}\n{log.read_text()[-4000:]}")


@pytest.fixture
def namespace() -> Iterator[str]:
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


def demo(name: str, image: str, **spec: Any) -> str:
    body = {
        "image": image,
        "port": 8080,
        "podTemplate": {"spec": {"containers": [{"name": "server", "imagePullPolicy": "Never"}]}},
    }
    return json.dumps(
        {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}, "spec": body | spec}
    )


def ready(namespace: str, name: str) -> str:
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    return kubectl("get", "mcp", "-n", namespace, name, "-o", path)


async def test_an_image_is_deployed_discovered_listed_and_called(image: str, gateway: str, namespace: str) -> None:
    name = f"demo-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=demo(name, image))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=90)
    columns = kubectl("get", "mcp", "-n", namespace, name).splitlines()
    assert columns[0].split() == ["NAME", "TRANSPORT", "TOOLS", "READY", "REASON", "AGE"]
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
    kubectl("apply", "-n", namespace, "-f", "-", stdin=demo(name, image))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=90)
    kubectl("delete", "pods", "-n", namespace, "--all", "--grace-period=1")
    async with Client(f"{gateway}/mcp") as client:

        async def answers() -> bool:
            return not (await client.call_tool(f"{name}__get_stock", {"item": "rope"})).is_error

        await until_async("an answer from the new pod", answers, seconds=60)
    kubectl("delete", "mcp", "-n", namespace, name)
    until("no pods", lambda: "No resources" in kubectl_quiet("get", "pods", "-n", namespace), seconds=60)
    documents = ["get", "configmaps", "-n", RELEASE, "-l", f"fairlead.dev/server={name}", "-o", "name"]
    until("no catalog", lambda: kubectl(*documents) == "", seconds=10)


def kubectl_quiet(*words: str) -> str:
    done = subprocess.run(["kubectl", *words], capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr
