"""Changes by others are reverted at once, and at growing intervals if they keep changing the object; in virtual
time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.store import Blob
from fairlead_api.meta import MANAGER, ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import ConditionType, Reason
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_kube.client import Kube
from fairlead_kube.errors import Conflict
from fairlead_kube.resources import CONFIG_MAPS, DEPLOYMENTS, MCP_SERVERS, Kind
from fairlead_operator.kube.credentials import CredentialStore, shard_name
from fairlead_operator.kube.declared_resources import DeclaredServers
from fairlead_operator.kube.documents import KubeDocuments
from fairlead_operator.kube.drift import CALM_S, DriftRepairs, Writers, WriteTarget
from fairlead_operator.kube.installationsecret import InstallationSecret
from fairlead_operator.kube.owned import OwnedObjects
from fairlead_operator.kube.platform import KubePlatform, KubePlatformParts
from fairlead_operator.ports import ConditionVerdict
from fairlead_operator.server.status import Facts, Verdicts, build_status
from operatorfakes import NOW, mcp_server
from virtualtime import in_virtual_time

pytestmark = in_virtual_time
Json = dict[str, Any]
KEY = ServerKey("team", "demo")
OWNER = {"kind": "McpServer", "name": "demo", "uid": "s1", "controller": True}
METADATA = {"name": "demo", "namespace": "team", "ownerReferences": [OWNER]}
MANIFEST = {"metadata": METADATA, "spec": {"replicas": 1}}
MINUTE = 60.0


class Cluster:
    """A cluster with one object. `rival` is called after each write of the operator."""

    def __init__(self) -> None:
        self.item: Json | None = None
        self.times: list[float] = []
        """Times of the operator's writes, by the clock of the loop."""
        self.rival: Callable[[], None] = lambda: None
        self.merged: Callable[[Json], Json] = lambda body: body
        """Computes the outcome of an apply."""
        self._version = 0
        self.kube = cast("Kube", self)
        """This object as the API client; only the methods that the test needs exist."""

    def becomes(self, content: Json, manager: str, subresource: str = "") -> Json:
        """Write the object as `manager`. Returns the object."""
        self._version += 1
        entry = {"manager": manager, "time": f"2026-11-20T12:00:00.{self._version:09}Z", "subresource": subresource}
        before = (self.item or {}).get("metadata", {}).get("managedFields", [])
        managed = [*(each for each in before if each["manager"] != manager), entry]
        metadata = {**content["metadata"], "uid": "d1", "resourceVersion": str(self._version), "managedFields": managed}
        self.item = {**content, "metadata": metadata}
        return self.item

    async def apply(self, _kind: Kind, _namespace: str | None, body: Json, *, subresource: str = "") -> Json:
        loop = asyncio.get_running_loop()
        self.times.append(loop.time())
        loop.call_soon(self.rival)
        return self.becomes(self.merged(body), MANAGER, subresource)

    async def create(self, kind: Kind, namespace: str | None, body: Json) -> Json:
        return await self.apply(kind, namespace, body)

    async def merge(self, kind: Kind, namespace: str | None, name: str, patch: Json) -> Json:
        return await self.apply(kind, namespace, {"metadata": {"name": name, "namespace": namespace}, **patch})

    async def get(self, *_: object) -> Json:
        return self.item or MANIFEST

    async def list(self, *_: object) -> tuple[list[Json], str]:
        return [self.item] if self.item is not None else [], str(self._version)

    def in_minute(self, number: int) -> int:
        """Number of the operator's writes in a minute."""
        return sum(1 for time in self.times if number * MINUTE <= time < (number + 1) * MINUTE)


class Looks:
    """Work queue for one key, which runs the work once per `enqueue`, never concurrently."""

    def __init__(self, work: Callable[[], Awaitable[object]]) -> None:
        self._work = work
        self._wanted = asyncio.Event()
        self.count = 0

    def enqueue(self, *_: object) -> None:
        self._wanted.set()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self.count += 1
            await self._work()

    async def run_for(self, seconds: float) -> None:
        running = asyncio.create_task(self.run())
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.wait([running])


def assert_paced_writes(cluster: Cluster) -> None:
    """Assert the limits on writes that hold in ten minutes against any other writer."""
    first, *later = (cluster.in_minute(number) for number in range(10))
    assert 5 <= first <= 9
    assert all(1 <= number <= 2 for number in later), later


class World:
    """A server's Deployment, which is reconciled after each change."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.counted = list[Kind]()
        self.drift = DriftRepairs(self.counted.append)
        self.looks = Looks(lambda: self.owned.apply(DEPLOYMENTS, MANIFEST, "s1"))
        self.owned = OwnedObjects(self.cluster.kube, self.looks.enqueue, [DEPLOYMENTS], self.drift)

    @classmethod
    async def with_deployment(cls) -> World:
        world = cls()
        await world.owned.apply(DEPLOYMENTS, MANIFEST, "s1")
        world.cluster.times.clear()
        return world

    def edit(self, manager: str = "argocd-controller", replicas: int = 5) -> None:
        edited = {**MANIFEST, "spec": {"replicas": replicas}}
        self.owned.stores[DEPLOYMENTS].update(self.cluster.becomes(edited, manager))

    async def fight(self, seconds: float) -> None:
        """Let a rival undo every repair for `seconds`."""
        self.cluster.rival = self.edit
        self.edit()
        await self.looks.run_for(seconds)


async def test_edits_are_put_back_at_once_and_nobody_is_accused_of_a_few() -> None:
    world = await World.with_deployment()
    for number in range(4):
        edited = asyncio.get_running_loop().time()
        world.edit("kubectl-edit")
        await world.looks.run_for(30 if number < 2 else CALM_S + 1)
        assert world.cluster.times[number] - edited < 0.1
        assert world.drift.verdict(KEY) is None
    assert world.counted == [DEPLOYMENTS] * 4


async def test_a_rival_that_undoes_every_repair_is_followed_ever_more_seldom_and_named() -> None:
    world = await World.with_deployment()
    await world.fight(10 * MINUTE)
    assert_paced_writes(world.cluster)
    verdict = world.drift.verdict(KEY)
    assert verdict is not None
    assert verdict.cause == Cause.WRITES_UNDONE
    words = "Deployment team/demo is changed or deleted again and again by field manager argocd-controller"
    assert words in verdict.message
    assert len(world.counted) == len(world.cluster.times)


async def test_a_rival_that_writes_in_a_loop_causes_no_look_while_it_is_too_early() -> None:
    world = await World.with_deployment()

    async def rage() -> None:
        for number in range(10 * 60 * 50):
            world.edit(replicas=2 + number)
            await asyncio.sleep(0.02)

    raging = asyncio.create_task(rage())
    await world.looks.run_for(10 * MINUTE)
    raging.cancel()
    assert_paced_writes(world.cluster)
    assert world.looks.count <= 2 * len(world.cluster.times)


async def test_a_change_that_is_wanted_waits_for_no_pause() -> None:
    world = await World.with_deployment()
    await world.fight(MINUTE)
    before = len(world.cluster.times)
    await world.owned.apply(DEPLOYMENTS, {**MANIFEST, "spec": {"replicas": 4}}, "s1")
    assert len(world.cluster.times) == before + 1


async def test_replicas_that_an_autoscaler_sets_are_not_a_dispute() -> None:
    world = World()
    world.cluster.merged = lambda body: world.cluster.item or body  # the apply changes nothing
    manifest = {"metadata": METADATA, "spec": {}}
    await world.owned.apply(DEPLOYMENTS, manifest, "s1")
    for replicas in range(2, 22):
        world.edit("horizontal-pod-autoscaler", replicas)
        await world.owned.apply(DEPLOYMENTS, manifest, "s1")
        await asyncio.sleep(15)
    assert world.counted == []
    assert len(world.cluster.times) == 21


async def test_a_rival_that_deletes_each_time_is_paced_too() -> None:
    world = await World.with_deployment()

    def delete() -> None:
        gone = world.cluster.item
        world.cluster.item = None
        world.owned.stores[DEPLOYMENTS].delete(gone or {})

    world.cluster.rival = delete
    delete()
    await world.looks.run_for(10 * MINUTE)
    assert_paced_writes(world.cluster)
    verdict = world.drift.verdict(KEY)
    assert verdict is not None
    assert "by a client that its managedFields do not name" in verdict.message


async def test_a_dispute_is_over_when_the_object_is_left_alone_and_the_server_is_looked_at_again() -> None:
    world = await World.with_deployment()
    await world.fight(2 * MINUTE)
    world.cluster.rival = lambda: None
    await world.looks.run_for(2 * MINUTE)
    looks = world.looks.count
    assert world.drift.verdict(KEY) is not None
    await world.looks.run_for(CALM_S)
    assert world.drift.verdict(KEY) is None
    assert world.looks.count == looks + 1


async def test_a_server_that_is_gone_is_forgotten_with_its_dispute() -> None:
    world = await World.with_deployment()
    await world.fight(MINUTE)
    world.owned.forget(KEY)
    assert world.drift.verdict(KEY) is None
    assert repr(world.drift) == "<DriftRepairs of 0 objects>"


async def test_a_document_that_is_changed_each_time_is_written_ever_more_seldom() -> None:
    cluster = Cluster()
    drift = DriftRepairs()
    wanted = Blob(name="doc", labels={}, annotations={}, data={"document": "1"}, binary={})
    looks = Looks(lambda: documents.publish([wanted]))
    documents = KubeDocuments(cluster.kube, "release", looks.enqueue, drift=drift)

    def edit() -> None:
        edited = {"metadata": {"name": "doc", "namespace": "release"}, "data": {"document": "x"}}
        documents.store.update(cluster.becomes(edited, "kubectl-edit"))

    cluster.rival = edit
    looks.enqueue()
    await looks.run_for(10 * MINUTE)
    assert_paced_writes(cluster)
    assert drift.seconds_until_repair(WriteTarget(CONFIG_MAPS, "release", "doc")) > 0


async def test_a_copied_credential_that_is_deleted_each_time_is_written_ever_more_seldom() -> None:
    cluster = Cluster()
    looks = Looks(lambda: store.put(KEY, Credential(token="t")))
    store = CredentialStore(cluster.kube, "release", looks.enqueue)

    def edit() -> None:
        emptied = {"metadata": {"name": shard_name(KEY), "namespace": "release"}, "data": {}}
        store.store.update(cluster.becomes(emptied, "kubectl-edit"))

    cluster.rival = edit
    looks.enqueue()
    await looks.run_for(10 * MINUTE)
    assert_paced_writes(cluster)


async def test_the_secret_of_the_installation_that_is_deleted_each_time_is_made_ever_more_seldom() -> None:
    cluster = Cluster()
    secret = InstallationSecret(cluster.kube, "release", "keys")
    await secret.ensure()
    cluster.times.clear()

    async def delete() -> None:
        while True:
            gone = cluster.item
            cluster.item = None
            await secret.delete(gone or {})

    deleting = asyncio.create_task(delete())
    await asyncio.sleep(10 * MINUTE)
    deleting.cancel()
    assert_paced_writes(cluster)


async def test_a_status_that_is_changed_each_time_is_shown_ever_more_seldom_whatever_time_it_says() -> None:
    cluster = Cluster()
    drift = DriftRepairs()
    servers = DeclaredServers(lambda *_: looks.enqueue())
    whole = {**mcp_server().to_wire(), "apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer"}
    unused = cast("Any", None)

    async def look() -> None:
        """Writes the status as a reconcile does: a changed condition gets a new time of transition."""
        shown = servers.server(KEY)
        assert isinstance(shown, McpServer)
        verdicts = Verdicts(ConditionVerdict(True, Cause.ACCEPTED, "fine"))
        await platform.report(shown, build_status(shown, verdicts, Facts(), NOW.replace(minute=looks.count % 60)))

    looks = Looks(look)
    parts = KubePlatformParts(
        servers=servers,
        owned=unused,
        resolver=unused,
        credential_store=unused,
        events=unused,
        pods=unused,
        installation=unused,
        enqueue=looks.enqueue,
        drift=drift,
    )
    platform = KubePlatform(cluster.kube, parts)

    def strip() -> None:
        servers.update(cluster.becomes({**whole, "status": McpServerStatus().to_wire()}, "stripper", "status"))

    cluster.merged = lambda body: {**whole, "status": body["status"]}
    cluster.rival = strip
    strip()
    await looks.run_for(10 * MINUTE)
    assert_paced_writes(cluster)
    verdict = drift.verdict(KEY)
    assert verdict is not None
    assert verdict.message.startswith("status of McpServer team/demo is changed")
    assert "stripper" in verdict.message


async def test_a_write_that_the_api_server_refuses_is_not_a_repair() -> None:
    drift = DriftRepairs()
    target = WriteTarget(MCP_SERVERS, "team", "demo", "status")

    async def refuse() -> Json:
        raise Conflict("somebody was faster")

    for _ in range(20):
        with pytest.raises(Conflict):
            await drift.write(target, b"content", None, lambda: None, refuse)
    assert drift.seconds_until_repair(target) == 0


def writers_of(*entries: tuple[str, str, str]) -> Writers:
    fields = [{"manager": m, "time": t, **({"subresource": s} if s else {})} for m, t, s in entries]
    return Writers.of({"metadata": {"managedFields": fields}})


@pytest.mark.parametrize(
    ("writers", "who"),
    [
        (writers_of((MANAGER, "T2", ""), ("kubectl-edit", "T3", "")), "kubectl-edit"),
        (writers_of((MANAGER, "T2", ""), ("kubectl-edit", "T2", "")), "kubectl-edit"),
        (writers_of((MANAGER, "T2", ""), ("kubectl-edit", "T1", "")), ""),
        (writers_of((MANAGER, "T3", ""), ("kubectl-edit", "T1", "")), MANAGER),
        (writers_of((MANAGER, "T2", ""), ("kube-controller-manager", "T9", "status")), ""),
        (writers_of((MANAGER, "T2", ""), ("a", "T3", ""), ("b", "T4", "")), "b"),
        (writers_of(), ""),
    ],
)
async def test_the_writer_of_a_later_change_is_read_from_managed_fields(writers: Writers, who: str) -> None:
    assert writers.last_manager_after("T2") == who


async def test_a_dispute_is_shown_beside_another_conflict_and_leaves_the_server_ready() -> None:
    good = ConditionVerdict(True, Cause.PROGRAMMED, "fine")
    undone = ConditionVerdict(True, Cause.WRITES_UNDONE, "Deployment team/demo is changed by argocd")
    taken = ConditionVerdict(True, Cause.PREFIX_TAKEN, "demo belongs to other/demo")
    verdicts = Verdicts(good, good, good, good, conflicted=taken, undone_writes=undone)
    status = build_status(mcp_server(), verdicts, Facts(), NOW)
    conflicted = status.condition(ConditionType.CONFLICTED)
    ready = status.condition(ConditionType.READY)
    assert conflicted is not None
    assert (conflicted.status, conflicted.reason) == ("True", Reason.CONFLICTED)
    assert conflicted.message.startswith("WritesUndone: Deployment team/demo is changed by argocd. PrefixTaken: demo")
    assert ready is not None
    assert ready.status == "True"
