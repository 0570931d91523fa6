"""An operator in this process with a real API server, and helpers that read and change its objects.

No pod runs there: the test is the kubelet (`pods_are`), and the host names of servers lead to ports of this machine
(`Hosts`). Waits are bounded looks at the API server, which is another process.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import pytest
from kubernetes.aio.client import Configuration

from controlplane import ControlPlane
from fairlead_api.documents.catalog import Catalog, Credential
from fairlead_api.documents.codec import catalog_name, decode
from fairlead_api.documents.store import DocumentAssembler
from fairlead_api.meta import ServerKey
from fairlead_kube.client import Kube
from fairlead_kube.connection import load_configuration
from fairlead_kube.resources import LEASES
from fairlead_operator.app import Dependencies, Operator, build
from fairlead_operator.enforcement.simulated import SimulatedNetwork
from fairlead_operator.kube.documents import blob_from
from fairlead_operator.kube.watched_lease import ALL_NAMESPACES
from fairlead_operator.settings import Settings
from shownconditions import cause
from waiting import LONGEST

Json = dict[str, Any]
T = TypeVar("T")
GROUP = "/apis/fairlead.dev/v1alpha1"
STEP = 0.05

QUICK = Settings.of(
    interval_floor=0.5, lease_seconds=3.0, sweep_seconds=2.0, discovery_timeout=5.0, figures_seconds=0.5
)
"""Short intervals, so that tests do not wait for timers."""


@dataclass
class Hosts:
    """Host names of the cluster, and the local ports that they resolve to. Other names do not resolve."""

    ports: dict[str, int] = field(default_factory=dict)
    pods: dict[str, list[int]] = field(default_factory=dict)
    """Ports of hosts with several addresses."""

    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        if host in self.pods:
            return [("127.0.0.1", port) for port in self.pods[host]]
        if host in self.ports:
            return [("127.0.0.1", self.ports[host])]
        if host in ("127.0.0.1", "localhost"):
            return [("127.0.0.1", port)]
        raise OSError(f"{host} is not known here")


@dataclass
class World:
    """A tenant's namespace, a release's namespace, and the API server with administrator's rights."""

    plane: ControlPlane
    namespace: str
    release: str
    hosts: Hosts = field(default_factory=Hosts)

    def request(self, method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
        return self.plane.request(method, path, body, **more)

    def server_path(self, name: str, subresource: str = "") -> str:
        return f"{GROUP}/namespaces/{self.namespace}/mcpservers/{name}{subresource}"

    def path(self, plural: str, name: str = "", subresource: str = "") -> str:
        """URL path of an object in the servers' namespace."""
        root = {"deployments": "/apis/apps/v1", "networkpolicies": "/apis/networking.k8s.io/v1"}
        root["poddisruptionbudgets"] = "/apis/policy/v1"
        path = f"{root.get(plural, '/api/v1')}/namespaces/{self.namespace}/{plural}"
        return path + (f"/{name}" if name else "") + subresource

    def create(self, name: str, spec: Json, **metadata: Any) -> Json:
        """Create an McpServer."""
        body = {
            "apiVersion": "fairlead.dev/v1alpha1",
            "kind": "McpServer",
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "spec": spec,
        }
        status, answer = self.request("POST", f"{GROUP}/namespaces/{self.namespace}/mcpservers", body)
        assert status == 201, answer
        return dict(answer)

    def patch_server(self, name: str, patch: Json) -> None:
        status, answer = self.request(
            "PATCH", self.server_path(name), patch, content_type="application/merge-patch+json"
        )
        assert status == 200, answer

    def get(self, path: str) -> Json | None:
        status, answer = self.request("GET", path)
        assert status in (200, 404), answer
        return answer if status == 200 else None

    def server(self, name: str) -> Json:
        server = self.get(self.server_path(name))
        assert server is not None, f"{name} is gone"
        return server

    def condition(self, name: str, type_: str) -> Json:
        """A condition of a server; empty if there is none."""
        conditions = self.server(name).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == type_), {})

    def is_(self, name: str, type_: str, status: str, word: str = "") -> bool:
        """Whether a condition has this status, for the given cause or reason, at the current generation."""
        condition = self.condition(name, type_)
        right = condition.get("status") == status and word in ("", cause(condition), condition.get("reason"))
        return right and condition["observedGeneration"] == self.server(name)["metadata"]["generation"]

    def documents(self) -> dict[str, bytes]:
        """Complete documents of the release, as a gateway reads them."""
        status, listing = self.request("GET", f"/api/v1/namespaces/{self.release}/configmaps")
        assert status == 200, listing
        reader = DocumentAssembler()
        reader.replace(blob_from(item) for item in listing["items"] if "fairlead.dev/document" in _labels(item))
        return reader.documents

    def catalog(self, name: str) -> Catalog | None:
        data = self.documents().get(catalog_name(ServerKey(self.namespace, name)))
        document = decode(data) if data is not None else None
        assert document is None or isinstance(document, Catalog)
        return document

    def config_map_path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.release}/configmaps/{name}"

    def tokens(self) -> list[str]:
        """Tokens of stdio servers, as the gateway finds them in the release's credentials."""
        _, listing = self.request("GET", f"/api/v1/namespaces/{self.release}/secrets")
        values = [value for item in listing["items"] for value in (item.get("data") or {}).values()]
        return [msgspec.json.decode(base64.b64decode(value), type=Credential).token for value in values]

    def pods_are(self, name: str, available: int, *, old: int = 0) -> None:
        """Write the Deployment status that the controller would write after pods were started or lost. `old`: further
        pods of an earlier template.
        """
        deployment = self.get(self.path("deployments", name))
        assert deployment is not None
        generation = deployment["metadata"]["generation"]
        status = {"observedGeneration": generation, "replicas": 1 + old, "updatedReplicas": 1}
        status |= {"availableReplicas": available, "readyReplicas": available, "unavailableReplicas": 1 - available}
        path = self.path("deployments", name, "/status")
        code, answer = self.request("PATCH", path, {"status": status}, content_type="application/merge-patch+json")
        assert code == 200, answer

    async def until(self, what: str, condition: Callable[[], T], *, seconds: float = 2 * LONGEST) -> T:
        """First truthy value of `condition`, which is called in a thread. Raises AssertionError after `seconds`."""
        value = None
        try:
            async with asyncio.timeout(seconds):
                while not (value := await asyncio.to_thread(condition)):  # noqa: ASYNC110  # of another process
                    await asyncio.sleep(STEP)
        except TimeoutError:
            raise AssertionError(f"{what}: not within {seconds:g} s; {await asyncio.to_thread(self.picture)}") from None
        return value

    def picture(self) -> str:
        """Status of each server, policy and tier of this world, for the message of a failing test."""
        paths = (self.server_path(""), f"{GROUP}/namespaces/{self.namespace}/toolpolicies", f"{GROUP}/latencytiers")
        listings = [self.request("GET", path.rstrip("/"))[1] for path in paths]
        shown = [{i["metadata"]["name"]: i.get("status") for i in listing.get("items", ())} for listing in listings]
        return json.dumps(shown, indent=1)


def _labels(item: Json) -> Json:
    return dict(item["metadata"].get("labels") or {})


@contextlib.contextmanager
def release_namespace(plane: ControlPlane, namespace: str) -> Any:
    """A namespace for the release, separate from the tenant's."""
    name = plane.create_namespace(f"{namespace}-release")
    try:
        yield name
    finally:
        plane.request("DELETE", LEASES.path(*ALL_NAMESPACES))  # after a killed process, this would wait for it
        plane.remove_namespace(name)


@pytest.fixture
def world(control_plane: ControlPlane, namespace: str) -> Iterator[World]:
    """A tenant's and a release's namespace on the shared API server."""
    with release_namespace(control_plane, namespace) as release:
        yield World(control_plane, namespace, release)


async def configuration_of(plane: ControlPlane, kubeconfig: str = "") -> Configuration:
    """Configuration with which the operator connects."""
    return await load_configuration(kubeconfig or str(plane.kubeconfig))


@contextlib.asynccontextmanager
async def running(world: World, settings: Settings = QUICK, **changes: Any) -> AsyncIterator[Operator]:
    """Run an operator within the context. It releases its Lease at the end. `owners` of the changes are those that the
    process reads from the cluster at its start.
    """
    kubeconfig, owners = changes.pop("kubeconfig", ""), changes.pop("owners", ())
    settings = settings.replace(namespace=world.release, **changes)
    operator = build(
        settings,
        await configuration_of(world.plane, kubeconfig),
        dependencies=Dependencies(resolve=world.hosts.resolve, owners=owners),
    )
    task = asyncio.create_task(operator.run(), name="operator under test")
    try:
        yield operator
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=20)
        assert task.done(), "the operator did not stop"


@contextlib.asynccontextmanager
async def simulated_network(world: World, **how: Any) -> AsyncIterator[Kube]:
    """A client of the API server, with simulated nodes and a network for the operator's probe within the context."""
    kube = Kube.connect(await configuration_of(world.plane))
    simulated = asyncio.create_task(SimulatedNetwork(kube, world.release, **how).run(), name="simulated network")
    try:
        yield kube
        assert not simulated.done(), simulated
    finally:
        simulated.cancel()
        await asyncio.wait([simulated])
        await kube.aclose()
