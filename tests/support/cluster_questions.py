"""Questions of end-to-end tests to the cluster that KUBECONFIG names; `installation` is the release on it.

Images are built here and loaded into the nodes, and some servers run on this machine, where pods reach the node: the
cluster of `hack/cluster`, or a kind cluster.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead_mcp.addresses import authority
from installation import NAMESPACE, Json, kubectl, node_address, own_address, program, run
from ports import free_port

RELEASE = NAMESPACE


def needs(reason: str | None) -> None:
    """Skip the test with a printed reason. In CI, where the machine is known to be able, fail instead."""
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def load_image(archive: Path, image: str) -> str:
    """Load an archive that was built on this machine into the node's image store."""
    run("hack/cluster", "load", archive)
    return image


def build_image(folder: Path, image: str, dockerfile: str) -> str:
    """Build an image of this repository and load it into the node's image store."""
    archive = folder / "image.tar"
    if shutil.which("buildah"):
        run("hack/kubernetes/python-base")
        base = "BASE=localhost/python:3.13-slim"
        run("buildah", "bud", "--isolation", "chroot", "--build-arg", base, "-t", image, "-f", dockerfile, ".")
        run("buildah", "push", image, f"docker-archive:{archive}:{image}")
    else:
        run("docker", "build", "-t", image, "-f", dockerfile, ".")
        run("docker", "save", "-o", archive, image)
    return load_image(archive, image)


@contextmanager
def mirror(folder: Path, *packages: str) -> Iterator[str]:
    """URL, reachable from pods, of a package index with these packages and their dependencies (PEP 503)."""
    download = ["-m", "pip", "download", "-q", "--python-version", "3.13", "--only-binary=:all:", "-d", str(folder)]
    run(sys.executable, *download, *packages)
    for wheel in folder.glob("*.whl"):
        folder_of_project = folder / re.sub(r"[-_.]+", "-", wheel.name.split("-")[0]).lower()
        folder_of_project.mkdir(exist_ok=True)
        wheel.rename(folder_of_project / wheel.name)
    address = own_address(node_address())
    port = free_port()
    serve = [sys.executable, "-m", "http.server", str(port), "--bind", address, "--directory", str(folder)]
    process = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://{authority(address, port)}/"
    finally:
        process.terminate()
        process.wait(10)


def mcp_server(name: str, **spec: Any) -> str:
    """Manifest of a server whose image, if any, is already in the node's store. The server is checked every second,
    because a test waits for it.
    """
    server: dict[str, Any] = {"name": "server", "readinessProbe": {"periodSeconds": 1}}
    if "image" in spec:
        server["imagePullPolicy"] = "Never"
    if "url" not in spec:
        spec = {"podTemplate": {"spec": {"containers": [server]}}} | spec
    return json.dumps(
        {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}, "spec": spec}
    )


def service_outside(name: str, address: str, port: int) -> list[Json]:
    """Manifests of a Service that leads to an address on this machine."""
    ports = [{"name": "http", "port": port, "protocol": "TCP"}]
    slice_: Json = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv6" if ":" in address else "IPv4",
        "ports": ports,
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
    return [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports}}, slice_]


def ready(namespace: str, name: str) -> str:
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    return kubectl("get", "mcps", "-n", namespace, name, "-o", path)


def condition(namespace: str, name: str, kind: str) -> dict[str, Any]:
    """One condition of a server; {} if the server does not have it yet."""
    server = json.loads(kubectl("get", "mcps", "-n", namespace, name, "-o", "json"))
    conditions = server.get("status", {}).get("conditions") or ()
    return next((dict(each) for each in conditions if each["type"] == kind), {})


def catalog(name: str) -> dict[str, Any] | None:
    """Published catalog document of a server."""
    listing = kubectl("get", "configmaps", "-n", RELEASE, "-l", f"fairlead.dev/server={name}", "-o", "json")
    items = json.loads(listing)["items"]
    return json.loads(items[0]["data"]["document.json"]) if items else None


def kubectl_quiet(*words: str) -> str:
    done = subprocess.run([program("kubectl"), *words], capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr
