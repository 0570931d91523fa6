"""A real cluster whose node is this machine, and an operator and a gateway on it, for end-to-end tests.

Operator and gateway run on this machine as the README says, in a mount namespace of their own in which names resolve as
they do in a pod. Images are built here and loaded into the node, so `hack/cluster` is needed and not just any cluster.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ports import free_port

REPOSITORY = Path(__file__).resolve().parents[2]
RELEASE = "fairlead-system"
LISTENER = "localhost/fairlead-busybox:e2e"
RUNNER = "localhost/fairlead-runner:e2e"


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


def loaded(archive: Path, image: str) -> str:
    """An archive that was built here, put into the node's store."""
    run("hack/cluster", "load", archive)
    return image


def built(folder: Path, image: str, dockerfile: str) -> str:
    """An image of this repository, in the node's store."""
    needs(None if shutil.which("buildah") else "buildah is not installed: no image can be built")
    run("hack/kubernetes/python-base")
    base = "BASE=localhost/python:3.13-slim"
    run("buildah", "bud", "--isolation", "chroot", "--build-arg", base, "-t", image, "-f", dockerfile, ".")
    archive = folder / "image.tar"
    run("buildah", "push", image, f"docker-archive:{archive}:{image}")
    return loaded(archive, image)


def listener(folder: Path) -> str:
    """An image with the static busybox of this machine."""
    busybox = shutil.which("busybox")
    needs(None if busybox else "busybox is not installed: apt-get install busybox-static")
    archive = folder / "busybox.tar"
    command = [str(REPOSITORY / "hack/kubernetes/image"), LISTENER, str(busybox), f"bin/busybox={busybox}"]
    with archive.open("wb") as file:
        subprocess.run(command, stdout=file, check=True)
    return loaded(archive, LISTENER)


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


def node_address() -> str:
    """Where pods reach what listens on this machine."""
    path = "jsonpath={.items[0].status.addresses[?(@.type=='InternalIP')].address}"
    return kubectl("get", "nodes", "-o", path)


@contextmanager
def mirror(folder: Path, *packages: str) -> Iterator[str]:
    """URL of an index, for pods, that has these packages and all that they need (PEP 503: a folder for each)."""
    download = ["-m", "pip", "download", "-q", "--python-version", "3.13", "--only-binary=:all:", "-d", str(folder)]
    run(sys.executable, *download, *packages)
    for wheel in folder.glob("*.whl"):
        place = folder / re.sub(r"[-_.]+", "-", wheel.name.split("-")[0]).lower()
        place.mkdir(exist_ok=True)
        wheel.rename(place / wheel.name)
    address, port = node_address(), free_port()
    serve = [sys.executable, "-m", "http.server", str(port), "--bind", address, "--directory", str(folder)]
    process = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://{address}:{port}/"
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def installed(folder: Path, **environment: str) -> Iterator[str]:
    """URL of a gateway on the cluster's documents, an operator beside it; both as `fairlead` commands.

    `environment` is set for both.
    """
    port = free_port()
    fairlead = str(Path(sys.executable).with_name("fairlead"))
    run(fairlead, "crds", "--install")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RELEASE}}
    kubectl("apply", "-f", "-", stdin=json.dumps(namespace))
    settings = ["env", *(f"{name}={value}" for name, value in environment.items()), fairlead]
    operator = [*settings, "operator", "--namespace", RELEASE, "--metrics-port", str(free_port())]
    serve = [
        *settings,
        "gateway",
        "--anonymous",
        "allow",
        "--namespace",
        RELEASE,
        "--port",
        str(port),
        "--metrics-port",
        str(free_port()),
    ]
    with ExitStack() as processes:
        processes.enter_context(on_cluster_network(folder, "operator", *operator))
        processes.enter_context(on_cluster_network(folder, "gateway", *serve))
        yield f"http://127.0.0.1:{port}"
        for log in sorted(folder.glob("*.log")):
            sys.stderr.write(f"--- {log.name}\n{log.read_text()[-4000:]}")


def mcp_server(name: str, **spec: Any) -> str:
    """The manifest of a server whose image, if it has one, is in the node's store already."""
    if "image" in spec:
        containers = [{"name": "server", "imagePullPolicy": "Never"}]
        spec = {"podTemplate": {"spec": {"containers": containers}}} | spec
    return json.dumps(
        {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}, "spec": spec}
    )


def ready(namespace: str, name: str) -> str:
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    return kubectl("get", "mcp", "-n", namespace, name, "-o", path)


def condition(namespace: str, name: str, kind: str) -> dict[str, Any]:
    """One condition of a server, {} while it has none of that kind."""
    server = json.loads(kubectl("get", "mcp", "-n", namespace, name, "-o", "json"))
    found = server.get("status", {}).get("conditions") or ()
    return next((dict(each) for each in found if each["type"] == kind), {})


def catalog(name: str) -> dict[str, Any] | None:
    """The catalog document of a server, as published."""
    listing = kubectl("get", "configmaps", "-n", RELEASE, "-l", f"fairlead.dev/server={name}", "-o", "json")
    items = json.loads(listing)["items"]
    return json.loads(items[0]["data"]["document.json"]) if items else None


def kubectl_quiet(*words: str) -> str:
    done = subprocess.run(["kubectl", *words], capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr
