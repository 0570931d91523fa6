"""Fairlead as its users install it: by the chart, from images of this tree, on the cluster that KUBECONFIG names.

The Service is a NodePort, so that clients outside of the cluster reach it the way a load balancer would.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from fairlead_mcp.addresses import authority
from waiting import until

REPOSITORY: Final = Path(__file__).resolve().parents[2]
CHART: Final = REPOSITORY / "charts" / "fairlead"
RELEASE: Final = "fairlead"
NAMESPACE: Final = "fairlead-system"
TAG: Final = "e2e"
IMAGES: Final = REPOSITORY / "dist" / "images-e2e.yaml"
"""Chart values that name the images of `load_images`."""
DEMO: Final = f"localhost/fairlead-demo:{TAG}"
GATEWAY: Final = "app.kubernetes.io/name=fairlead,app.kubernetes.io/component=gateway"
OPERATOR: Final = "app.kubernetes.io/name=fairlead,app.kubernetes.io/component=operator"
MCP_PORT: Final = 8080
OPERATIONS_PORT: Final = 9464
POD_IP: Final = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
"""Environment variable with the pod's address in the cluster's IP family, for a server to listen on."""

Json = dict[str, Any]


class CommandFailed(AssertionError):
    """A command of the test environment failed; the message contains its output."""


def run(*command: str | Path, stdin: str | None = None, seconds: float = 600) -> str:
    """Run a command and return its standard output. Raises CommandFailed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=REPOSITORY, input=stdin, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise CommandFailed(
            f"{' '.join(words)} exited with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        )
    return done.stdout


@cache
def program(name: str) -> str:
    """Path of a Kubernetes program: from PATH, else the one that `hack/kubernetes/build` has made or makes now."""
    if path := shutil.which(name):
        return path
    return f"{run(REPOSITORY / 'hack/kubernetes/build', name, seconds=1800).strip()}/{name}"


def kubectl(*words: str, stdin: str | None = None, seconds: float = 60) -> str:
    """Run kubectl. Raises CommandFailed."""
    return run(program("kubectl"), *words, stdin=stdin, seconds=seconds)


def read(*words: str) -> Json:
    """Result of `kubectl get … -o json`."""
    document: Json = json.loads(kubectl("get", *words, "-o", "json"))
    return document


def apply(*manifests: Json, namespace: str = "") -> None:
    """Apply manifests with a single `kubectl apply`."""
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
    kubectl("apply", *(("-n", namespace) if namespace else ()), "-f", "-", stdin=body)


def pods(selector: str, namespace: str = NAMESPACE) -> list[Json]:
    """Pods that are not terminating."""
    items = read("pods", "-n", namespace, "-l", selector)["items"]
    return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]


def have_ended(selector: str, namespace: str = NAMESPACE) -> bool:
    """Whether no pod is terminating any more."""
    items = read("pods", "-n", namespace, "-l", selector)["items"]
    return not any("deletionTimestamp" in pod["metadata"] for pod in items)


def ready_pods(selector: str, namespace: str = NAMESPACE) -> list[Json]:
    """Pods that are ready and not terminating."""
    return [
        pod
        for pod in pods(selector, namespace)
        if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
    ]


@dataclass(frozen=True)
class Installation:
    """A Helm release."""

    values: tuple[str, ...]
    """Values for `helm --set`."""

    def helm(self, *words: str) -> str:
        """Run helm. Raises CommandFailed."""
        return run(program("helm"), *words, "--namespace", NAMESPACE)

    def upgrade(self, *values: str) -> None:
        """Install the release or upgrade it with other values. Waits until the new pods are ready and the old ones have
        ended.
        """
        words = [word for value in (*self.values, *values) for word in ("--set", value)]
        words += ["--values", str(IMAGES), "--install", "--create-namespace", "--wait", "--timeout", "240s"]
        self.helm("upgrade", RELEASE, str(CHART), *words)
        for selector in (OPERATOR, GATEWAY):  # neither helm nor a rollout waits for terminating pods
            until("the pods before have ended", partial(have_ended, selector), seconds=120)

    def uninstall(self) -> None:
        """Uninstall the release, and wait until its pods have ended."""
        self.helm("uninstall", RELEASE, "--wait", "--timeout", "120s", "--ignore-not-found")

    @property
    def service(self) -> Json:
        """The gateways' Service."""
        return read("service", "-n", NAMESPACE, f"{RELEASE}-gateway")

    @property
    def url(self) -> str:
        """URL for clients outside of the cluster."""
        return f"http://{authority(node_address(), self.service['spec']['ports'][0]['nodePort'])}"

    @property
    def inside(self) -> str:
        """URL for pods."""
        return f"http://{RELEASE}-gateway.{NAMESPACE}.svc:{self.service['spec']['ports'][0]['port']}"


def node_address() -> str:
    """Address of the node in the cluster's network: that of this machine, or of a kind container."""
    path = "jsonpath={.items[0].status.addresses[?(@.type=='InternalIP')].address}"
    return kubectl("get", "nodes", "-o", path)


def own_address(node: str) -> str:
    """Address of this machine from a node's point of view, at which pods reach its servers. Equal to the node's if this
    machine is the node.
    """
    family = socket.AF_INET6 if ":" in node else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((node, 9))  # selects a route, sends nothing
        return str(asking.getsockname()[0])


def obstacle() -> str | None:
    """Reason why nothing can be installed from this machine; None if it can."""
    if not (shutil.which("buildah") or shutil.which("docker") or shutil.which("apt-get")):
        return "neither docker nor buildah is here: no image can be built"
    if not (os.environ.get("KUBECONFIG") or Path("~/.kube/config").expanduser().exists()):
        return "KUBECONFIG names no cluster: hack/cluster up makes one"
    return None


def installed_already() -> str | None:
    """Complaint about an existing Fairlead in the cluster, whose operator would react to objects of tests; None if
    there is none.
    """
    deployments = read("deployments", "--all-namespaces", "-l", "app.kubernetes.io/name=fairlead")["items"]
    if not deployments:
        return None
    where = ", ".join(sorted({item["metadata"]["namespace"] for item in deployments}))
    return (
        f"Fairlead is installed in this cluster already, in {where}: `helm uninstall` it, "
        "or, of a cluster of hack/cluster, `hack/cluster down --wipe`"
    )


def load_images(*names: str) -> None:
    """Build images of this tree, load them into the nodes' image stores, and write chart values with their names."""
    run(REPOSITORY / "hack/images", "--tag", TAG, "--values", IMAGES, "--load", *names, seconds=1800)


@contextmanager
def installed(*values: str) -> Iterator[Installation]:
    """Install a release for the duration of the context. At the end everything that the chart created is removed."""
    always = ("image.pullPolicy=Never", "crds.keep=false")
    open_to_all = ("gateway.service.type=NodePort", "gateway.settings.anonymous=allow")
    installation = Installation((*always, *open_to_all, *values))
    installation.upgrade()
    try:
        yield installation
    finally:
        installation.uninstall()
