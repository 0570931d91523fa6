"""Hundreds of McpServers, with stand-ins for their pods and for the servers in them.

One MCP server answers for all; a stand-in for kubelet and Deployment controller marks each Deployment as rolled out, in
the two steps in which these do it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError, Conflict, Unavailable
from fairlead_kube.informer import Informer
from fairlead_kube.resources import DEPLOYMENTS, MCP_SERVERS, Json, Scope
from rawserver import RawServer, Reply, Request, raw_server
from toolservers import answer_modern

KINDS: Final = ("url", "image")
TOOLS: Final = 10
CREATED_AT_ONCE: Final = 16


def tool(number: int) -> Json:
    """A definition of about 470 bytes, the average of real servers."""
    text = "What the tool looks at, in the words of a person who has to choose between many of its kind; "
    properties = {
        "query": {"type": "string", "description": text},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
        "verbose": {"type": "boolean", "description": "Whether to say more"},
    }
    schema = {"type": "object", "properties": properties, "required": ["query"]}
    return {"name": f"tool_{number}", "description": f"Number {number}. {text}", "inputSchema": schema}


class Fleet:
    """Server that answers at every address. Changing `tools` changes its list."""

    def __init__(self, server: RawServer, tools: list[Json]) -> None:
        self.server = server
        self.tools = tools

    @property
    def port(self) -> int:
        return self.server.port


@contextlib.asynccontextmanager
async def answering() -> AsyncIterator[Fleet]:
    """Run the MCP server that answers for all."""
    tools = [tool(number) for number in range(TOOLS)]

    async def handle(request: Request, reply: Reply) -> None:
        answer_modern(request, reply, tools)
        server.seen.clear()

    async with raw_server(handle) as server:
        yield Fleet(server, tools)


def namespace_of(kind: str) -> str:
    """Namespace of the servers of a kind. Writes in this namespace are for these servers."""
    return f"bench-{kind}"


def manifest(kind: str, number: int, port: int) -> Json:
    """One McpServer of `kind`."""
    name = f"{kind}-{number}"
    spec = (
        {"url": f"http://127.0.0.1:{port}/{name}/mcp"} if kind == "url" else {"image": {"name": "example.com/server:1"}}
    )
    metadata = {"name": name, "namespace": namespace_of(kind)}
    return {"apiVersion": MCP_SERVERS.api_version, "kind": MCP_SERVERS.kind, "metadata": metadata, "spec": spec}


async def create(kube: Kube, count: int, port: int) -> None:
    """Create `count` McpServers, half of each kind, several at the same time."""
    work = iter([manifest(KINDS[number % 2], number, port) for number in range(count)])

    async def create_some() -> None:
        for item in work:
            while not await _is_created(kube, item):
                pass

    async with asyncio.TaskGroup() as group:
        for _ in range(CREATED_AT_ONCE):
            group.create_task(create_some())


async def _is_created(kube: Kube, item: Json) -> bool:
    """Create an McpServer. Returns False if the API server was too busy to answer in time."""
    try:
        await kube.create(MCP_SERVERS, item["metadata"]["namespace"], item)
    except Unavailable:
        return False
    except Conflict:  # it was created, but the answer was late
        return True
    return True


class Readiness:
    """Counts Ready McpServers; an informer feeds it."""

    def __init__(self) -> None:
        self._ready: set[tuple[str, str]] = set()
        self.moved = asyncio.Event()

    def replace(self, objects: Sequence[Json], version: str) -> None:
        for item in objects:
            self.update(item)

    def update(self, item: Json) -> None:
        conditions = item.get("status", {}).get("conditions") or ()
        if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
            self._ready.add((item["metadata"]["namespace"], item["metadata"]["name"]))
            self.moved.set()

    def delete(self, item: Json) -> None:
        self._ready.discard((item["metadata"]["namespace"], item["metadata"]["name"]))

    async def reaches(self, count: int) -> None:
        """Wait until `count` servers are ready."""
        while len(self._ready) < count:
            self.moved.clear()
            await self.moved.wait()

    def __len__(self) -> int:
        return len(self._ready)


class Kubelet:
    """Marks Deployments as rolled out; an informer feeds it. `run` must be running."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._due: asyncio.Queue[Json] = asyncio.Queue()

    def replace(self, objects: Sequence[Json], version: str) -> None:
        for item in objects:
            self.update(item)

    def update(self, item: Json) -> None:
        if item.get("status", {}).get("observedGeneration") != item["metadata"]["generation"]:
            self._due.put_nowait(item["metadata"])

    def delete(self, item: Json) -> None:
        """Delete a Deployment's pods with it."""

    async def run(self) -> None:
        while True:
            metadata = await self._due.get()
            for available in (0, 1):
                try:
                    await self._mark(metadata, available)
                except Unavailable:
                    self._due.put_nowait(metadata)
                except ApiError:
                    break  # the Deployment has been deleted meanwhile

    async def _mark(self, metadata: Json, available: int) -> None:
        status = {"observedGeneration": metadata["generation"], "replicas": 1, "updatedReplicas": 1}
        status |= {"availableReplicas": available, "readyReplicas": available, "unavailableReplicas": 1 - available}
        body = {"metadata": {"name": metadata["name"]}, "status": status}
        await self._kube.apply(
            DEPLOYMENTS, metadata["namespace"], body, subresource="status", manager="kube-controller-manager"
        )


@contextlib.asynccontextmanager
async def watched(kube: Kube) -> AsyncIterator[Readiness]:
    """Run the stand-in for kubelets, and count Ready servers, within the context."""
    readiness, kubelet = Readiness(), Kubelet(kube)
    informers = [
        Informer(kube, Scope(MCP_SERVERS, Json), readiness),
        Informer(kube, Scope(DEPLOYMENTS, Json, namespace_of("image")), kubelet),
    ]
    tasks = [asyncio.create_task(work) for work in (*(each.run() for each in informers), kubelet.run(), kubelet.run())]
    try:
        for informer in informers:
            await informer.synced.wait()
        yield readiness
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
