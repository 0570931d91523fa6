"""Random operations on everything that the operator reads, by a seed, and the documents that are expected afterwards.

Operators run in this process with a real API server, each behind its own proxy. Declared objects are created, edited
and deleted, as are documents and workloads. API servers become unreachable or are killed, watches expire, leaders hand
over or die, the Lease is written with a wrong clock, and events are lost. After the last operation, the documents have
to become equal to those that a new operator writes for the same objects into an empty namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from apiproxy import ApiProxy
from controlplane import ControlPlane
from document_pictures import Picture, complete, picture_of
from fairlead_kube.resources import LEASES
from fairlead_operator.app import Dependencies, build
from fairlead_operator.kube.watched_lease import ALL_NAMESPACES
from fairlead_operator.settings import Settings
from operatorworld import GROUP, QUICK, Hosts, Json, World, configuration_of
from rawserver import RawServer, Reply, Request, raw_server
from toolservers import answer_modern, tool

NAMES: Final = tuple("abcdefgh")
LISTS: Final = 0.5
"""Seconds between complete lists of custom resources."""
PATIENCE: Final = 60.0
"""Maximum seconds until the documents are correct after the last operation."""
QUIET: Final = 1.2
"""Seconds for which they must stay correct: longer than a list and its effects."""
COMPLETE: Final = 2.2
"""Seconds without changes after which the fresh operator's documents count as complete. The servers document is written
at most every two seconds."""
IN_PEACE: Final = 20
"""Number of changes after the last failure."""
WATCHED: Final = 3
"""Number of custom resource kinds that Kopf watches."""
PAUSED: Final = 0.3
"""Share of operations that are followed by a pause, in which the operator can continue its work."""
CHAOS: Final = QUICK.replace(list_seconds=LISTS, lease_seconds=30.0, sweep_seconds=600.0, figures_seconds=600.0)
"""No periodic sweep, which would find lost events."""


@dataclass
class Replica:
    """One operator, and its proxy to the API server."""

    proxy: ApiProxy
    task: asyncio.Task[None]

    async def end(self, *, killed: bool = False) -> None:
        """End the operator: it releases the Lease, or with `killed` writes nothing more, as after SIGKILL.

        If the operator ended earlier because of an exception, raises this exception.
        """
        if self.task.done():
            self.task.result()
            raise AssertionError("the operator ended by itself")
        if killed:
            await self.proxy.vanish()
        self.task.cancel()
        await asyncio.wait([self.task], timeout=20)
        assert self.task.done(), f"the operator did not stop:\n{under_way()}"
        await self.proxy.__aexit__(None, None, None)


@dataclass
class Chaos:
    """World of one seed. `lost` is the share of custom resource events that never reach an operator."""

    plane: ControlPlane
    world: World
    folder: Path
    server: RawServer
    rng: random.Random
    settings: Settings = CHAOS
    lost: float = 0.0
    done: Counter[str] = field(default_factory=Counter)
    replica: Replica | None = None
    beside: bool = False
    """Whether its operators run beside those of another release, which never happens in practice."""

    async def start(self) -> None:
        """Start another operator. It leads as soon as no other one does."""
        number = self.done["leaders"]
        self.done["leaders"] += 1
        folder = self.folder / f"operator-{number}"
        folder.mkdir()
        proxy = ApiProxy(self.plane, folder)
        await proxy.__aenter__()
        if self.lost:
            events = random.Random(number)
            proxy.report_loss(lambda: events.random() < self.lost)
        settings = self.settings.replace(namespace=self.world.release, identity=f"replica-{number}")
        configuration = await configuration_of(self.plane, str(proxy.kubeconfig))
        operator = build(settings, configuration, dependencies=Dependencies(resolve=self.world.hosts.resolve))
        if self.beside:
            operator.watched_lease._namespace = self.world.release
        self.replica = Replica(proxy, asyncio.create_task(operator.run(), name=f"operator {number}"))

    async def request(self, method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
        return await asyncio.to_thread(self.world.request, method, path, body, **more)

    # Declared objects

    def collection(self, plural: str) -> str:
        if plural == "secrets":
            return f"/api/v1/namespaces/{self.world.namespace}/secrets"
        return (
            f"{GROUP}/{plural}" if plural == "latencytiers" else f"{GROUP}/namespaces/{self.world.namespace}/{plural}"
        )

    def content(self, plural: str, name: str) -> Json:
        """Complete random content of an object of a kind, so that creating and editing are the same."""
        rng = self.rng
        labels = {"team": rng.choice("xyz")}
        if plural == "secrets":
            metadata = {
                "labels": {"fairlead.dev/credential": "true"},
                "annotations": {"fairlead.dev/hosts": "127.0.0.1"},
            }
            return {"metadata": metadata, "stringData": {"token": f"t{rng.randrange(1000)}"}, "type": "Opaque"}
        if plural == "latencytiers":
            return {"spec": {"maxLatency": f"{rng.randrange(1, 9)}s"}}
        if plural == "toolpolicies":
            rules = [{"action": rng.choice(["Allow", "Deny"]), "tools": [rng.choice(["*", "add"])]}]
            selector = rng.choice([None, {"matchLabels": labels}])
            return {"spec": {"rules": rules, **({"servers": selector} if selector else {})}}
        # The object is deleted first, because documents keep some of a server's past: if two servers want the same
        # prefix, the first one has it. A fresh operator cannot know which was first, so each has its own prefix.
        spec: Json = {"prefix": rng.choice([name, f"{name}2"]), "discovery": {"onDisconnect": "Remove"}}
        if rng.random() < 0.25:
            return {
                "metadata": {"labels": labels},
                "spec": {**spec, "image": {"name": f"example.com/s:{rng.randrange(9)}"}},
            }
        spec["url"] = self.server.url
        if rng.random() < 0.3:
            spec["auth"] = {"bearer": {"secretRef": {"name": rng.choice(NAMES[:3]), "key": "token"}}}
        return {"metadata": {"labels": labels}, "spec": spec}

    async def declare(self) -> None:
        """Create, edit or delete one declared object."""
        plural = self.rng.choice(["mcpservers", "mcpservers", "mcpservers", "toolpolicies", "latencytiers", "secrets"])
        name = self.rng.choice(NAMES[:3] if plural == "secrets" else NAMES)
        path = f"{self.collection(plural)}/{name}"
        status, _ = await self.request("GET", path)
        if status == 200 and self.rng.random() < 0.45:
            self.done[f"delete {plural}"] += 1
            await self.request("DELETE", path)
            return
        kind = {"mcpservers": "McpServer", "toolpolicies": "ToolPolicy", "latencytiers": "LatencyTier"}.get(
            plural, "Secret"
        )
        version = "v1" if plural == "secrets" else "fairlead.dev/v1alpha1"
        body = self.content(plural, name)
        body = {"apiVersion": version, "kind": kind, **body, "metadata": {**body.get("metadata", {}), "name": name}}
        self.done[f"{'edit' if status == 200 else 'create'} {plural}"] += 1
        if status == 200 and plural == "mcpservers" and self.rng.random() < 0.3:
            await self.request("DELETE", path)  # created again with the same name
        query = "?fieldManager=chaos&force=true"
        code, answer = await self.request("PATCH", path + query, body, content_type="application/apply-patch+yaml")
        assert code in (200, 201, 422), answer  # 422: an immutable field

    # The operator's own objects

    async def meddle(self) -> None:
        """Edit or delete a document or a workload, like a user."""
        plural, root = self.rng.choice(
            [
                ("configmaps", f"/api/v1/namespaces/{self.world.release}/configmaps"),
                ("configmaps", f"/api/v1/namespaces/{self.world.release}/configmaps"),
                ("deployments", self.world.path("deployments")),
                ("services", self.world.path("services")),
            ]
        )
        _, listing = await self.request("GET", root)
        names = sorted(item["metadata"]["name"] for item in listing["items"])
        if not names:
            return
        path = f"{root}/{self.rng.choice(names)}"
        if self.rng.random() < 0.5:
            self.done[f"delete {plural}"] += 1
            await self.request("DELETE", path)
            return
        self.done[f"edit {plural}"] += 1
        patch: Json = (
            {"data": {"document": "x"}} if plural == "configmaps" else {"metadata": {"labels": {"by": "hand"}}}
        )
        if plural == "deployments":
            patch["spec"] = {"replicas": 3}
        await self.request("PATCH", path, patch, content_type="application/merge-patch+json")

    # Failures of the operator and the API server

    async def outage(self) -> None:
        """Make an object while the API server cannot be reached."""
        assert self.replica is not None
        await self.replica.proxy.vanish()
        for _ in range(self.rng.randrange(1, 6)):
            await self.declare()
        await asyncio.sleep(self.rng.random() * 0.2)
        await self.replica.proxy.appear()

    async def expire(self) -> None:
        """Break watches, some of them several times. Changes in between are visible only in lists."""
        assert self.replica is not None
        self.replica.proxy.expire(self.rng.randrange(1, 30))
        for _ in range(self.rng.randrange(3)):
            await self.declare()

    async def change_leader(self) -> None:
        """End or kill the leader and start another operator, with a change in between."""
        assert self.replica is not None
        killed = self.rng.random() < 0.5
        self.done["leaders killed"] += killed
        await self.replica.end(killed=killed)
        if killed:  # the test does not wait until the Lease of a dead leader expires
            await self._edit_lease({"leaseDurationSeconds": 1})
        for _ in range(self.rng.randrange(3)):
            await self.declare()
        await self.start()

    async def late_clock(self) -> None:
        """Renew the Lease with a time far in the past or in the future."""
        year = self.rng.choice([2001, 2099])
        await self._edit_lease({"renewTime": f"{year}-01-01T00:00:00.000000Z"})

    async def _edit_lease(self, spec: Json) -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.world.release}/leases/fairlead-operator"
        await self.request("PATCH", path, {"spec": spec}, content_type="application/merge-patch+json")

    async def kill_apiserver(self) -> None:
        """Kill and restart the API server. etcd keeps its data."""
        await asyncio.to_thread(self.plane.kill_apiserver)
        await asyncio.to_thread(self.plane.start_apiserver)
        await self.declare()

    async def operations(self, count: int, kills: int = 0) -> None:
        """Run `count` random operations, most without a pause, including `kills` of the API server."""
        rare: list[Callable[[], Any]] = [self.outage, self.expire, self.change_leader, self.late_clock]
        killed = set(self.rng.sample(range(count), kills))
        for number in range(count):
            dice = self.rng.random()
            if number in killed:
                operation: Callable[[], Any] = self.kill_apiserver
            else:
                operation = self.rng.choice(rare) if dice < 0.12 else self.meddle if dice < 0.25 else self.declare
            self.done[operation.__name__] += 1
            await operation()
            if self.rng.random() < PAUSED:
                await asyncio.sleep(self.rng.random() * 0.03)

    async def declare_in_peace(self, count: int) -> None:
        """Make `count` changes of declared objects while the operator watches them: no new watch lists them."""
        assert self.replica is not None
        async with asyncio.timeout(PATIENCE):
            while self.replica.proxy.watch_count < WATCHED:  # noqa: ASYNC110  # of another thread and process
                await asyncio.sleep(0.05)
        for _ in range(count):
            await self.declare()

    # Expected documents

    async def expected_documents(self) -> Picture:
        """Documents that a new operator writes into an empty namespace."""
        fresh = replace_release(self, self.plane.create_namespace(f"{self.world.release}-fresh"))
        await fresh.start()
        assert fresh.replica is not None
        try:
            return await fresh.steady()
        finally:
            await fresh.replica.end()
            await asyncio.to_thread(self.plane.remove_namespace, fresh.world.release)

    async def steady(self) -> Picture:
        """Picture of the documents after they contain all declared objects and have not changed for a while."""
        # computed each time: an operator may complete the first tiers, which another one began to create
        picture = await self._wait_until_steady(lambda picture: complete(picture, self.declared_names()), COMPLETE)
        declared = await asyncio.to_thread(self.declared_names)
        names = {
            "catalogs": [*picture["catalogs"]],
            **{kind: picture.get(kind) for kind in ("policies", "tiers", "servers")},
        }
        assert complete(picture, declared), f"a fresh operator does not get as far as {declared}, but to {names}"
        return picture

    async def becomes(self, wanted: Picture) -> Picture:
        """The picture after it has been `wanted` for a while, or else when the time is up."""
        return await self._wait_until_steady(lambda picture: picture == wanted)

    async def _wait_until_steady(self, right: Callable[[Picture], bool], quiet: float = QUIET) -> Picture:
        loop = asyncio.get_running_loop()
        last: Picture = {}
        end = loop.time() + PATIENCE
        since = 0.0
        while loop.time() < end:
            picture = await asyncio.to_thread(picture_of, self.world)
            if picture != last or not await asyncio.to_thread(right, picture):
                since = loop.time()
                last = picture
            elif loop.time() - since >= quiet:
                break
            await asyncio.sleep(0.05)
        return last

    def declared_names(self) -> dict[str, set[str]]:
        """Names of declared objects, and of servers that must have a catalog."""
        names: dict[str, set[str]] = {}
        servers: dict[str, Json] = {}
        for plural in ("mcpservers", "toolpolicies", "latencytiers", "secrets"):
            _, listing = self.world.request("GET", self.collection(plural))
            names[plural] = {item["metadata"]["name"] for item in listing["items"]}
            if plural == "mcpservers":
                servers = {item["metadata"]["name"]: item["spec"] for item in listing["items"]}
        names["catalogs"] = {
            name
            for name, spec in servers.items()
            if "url" in spec and ("auth" not in spec or spec["auth"]["bearer"]["secretRef"]["name"] in names["secrets"])
        }
        return names


def under_way() -> str:
    """Tasks of this loop, and the lines at which they wait."""
    lines = []
    for task in asyncio.all_tasks():
        where = [f"{stack_frame.f_code.co_qualname} line {stack_frame.f_lineno}" for stack_frame in task.get_stack()]
        lines.append(f"  {task.get_name()}, cancelled {task.cancelling()} times: {', '.join(where)}")
    return "\n".join(sorted(lines))


def replace_release(chaos: Chaos, release: str) -> Chaos:
    """A view of the world by an operator of another release, which has no documents yet."""
    folder = chaos.folder / "fresh"
    folder.mkdir()
    world = World(chaos.plane, chaos.world.namespace, release, chaos.world.hosts)
    return Chaos(chaos.plane, world, folder, chaos.server, chaos.rng, CHAOS, beside=True)


@contextlib.asynccontextmanager
async def chaos(
    plane: ControlPlane, folder: Path, seed: int, settings: Settings = CHAOS, *, lost: float = 0.0
) -> AsyncIterator[Chaos]:
    """An operator on a control plane without other declared objects. Everything is removed at the end."""

    async def handle(request: Request, reply: Reply) -> None:
        answer_modern(request, reply, [tool("add"), tool("sub")])

    tenant = plane.create_namespace(f"tenant-{seed}")
    release = plane.create_namespace(f"release-{seed}")
    async with raw_server(handle) as server:
        run = Chaos(plane, World(plane, tenant, release, Hosts()), folder, server, random.Random(seed), settings, lost)
        await run.start()
        try:
            yield run
        finally:
            if run.replica is not None:
                await run.replica.end()
            for namespace in (tenant, release):
                await asyncio.to_thread(plane.remove_namespace, namespace)
            plane.request("DELETE", LEASES.path(*ALL_NAMESPACES))  # after a killed process, this would wait for it
            plane.request("DELETE", f"{GROUP}/latencytiers")


async def compare(run: Chaos, operations: int, kills: int = 0) -> tuple[Picture, Picture]:
    """Run the operations. Returns the resulting documents, and those of a fresh operator."""
    await run.operations(operations, kills)
    await run.declare_in_peace(IN_PEACE)
    wanted = await run.expected_documents()
    return await run.becomes(wanted), wanted
