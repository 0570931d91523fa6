"""Another writer on a real API server undoes the operator's writes as fast as it can: the operator names it, and does
not fight.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from controlplane import PlaneFactory
from fairlead_operator.app import Operator
from operatorworld import QUICK, Json, World, running
from toolservers import sdk_server

pytestmark = pytest.mark.timeout(150)
MERGE = "application/merge-patch+json"
OPERATOR = "operator-under-test"
FIGHT = 500
"""Number of requests of a rival, which take several seconds."""
IN_A_MINUTE = 9
"""Maximum number of repairs of one object in a minute."""


@pytest.fixture
def audited_world(private_plane: PlaneFactory) -> World:
    plane = private_plane(audit=True)
    return World(plane, plane.create_namespace("tenant"), plane.create_namespace("release"))


def writes_to(world: World, resource: str) -> int:
    """Number of the operator's writes to a resource in the tenant's namespace so far."""
    assert world.plane.audit is not None
    return sum(
        1
        for write in world.plane.audit.writes()
        if (write.user, write.resource, write.namespace) == (OPERATOR, resource, world.namespace)
    )


class Rival:
    """Writer that merges a patch again and again, with a field manager of its own."""

    def __init__(self, world: World, path: str, patch: Json, manager: str) -> None:
        self._world = world
        self._patch = patch
        self._path = f"{path}?fieldManager={manager}"
        self.requests = 0

    async def run(self) -> None:
        while True:
            status, answer = await asyncio.to_thread(
                self._world.request, "PATCH", self._path, self._patch, content_type=MERGE
            )
            assert status == 200, answer
            self.requests += 1


@contextlib.asynccontextmanager
async def fighting(rival: Rival) -> AsyncIterator[None]:
    task = asyncio.create_task(rival.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


def events(world: World, name: str) -> list[str]:
    """Messages of the Events about a server whose reason is a conflict."""
    _, listing = world.request("GET", f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events")
    about = [item for item in listing["items"] if item["regarding"]["name"] == name]
    return [item["note"] for item in about if item["reason"] == "Conflicted"]


async def test_a_foreign_manager_in_a_loop_is_named_and_the_operator_writes_no_faster_than_its_pace(
    audited_world: World,
) -> None:
    world = audited_world
    kubeconfig = str(world.plane.kubeconfig_for(OPERATOR, ["system:masters"]))
    async with running(world, QUICK, kubeconfig=kubeconfig) as operator:
        world.create("pods", {"image": {"name": "registry.example/demo:1"}})
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "pods")))
        path = world.path("networkpolicies", "pods")
        before = writes_to(world, "networkpolicies")
        rival = Rival(world, path, {"spec": {"ingress": [{}]}}, "argocd-controller")
        async with fighting(rival):
            await world.until("the conflict", lambda: world.is_("pods", "Conflicted", "True", "WritesUndone"))
            await world.until("a fight", lambda: rival.requests >= FIGHT)
        message = world.condition("pods", "Conflicted")["message"]
        assert f"NetworkPolicy {world.namespace}/pods is changed or deleted again and again by field manager" in message
        assert "argocd-controller" in message
        await world.until("an Event", lambda: any("argocd-controller" in note for note in events(world, "pods")))
        assert count_repairs(operator, "networkpolicies") <= IN_A_MINUTE
        assert writes_to(world, "networkpolicies") - before <= 3 * IN_A_MINUTE, "an apply, a merge, and one more"
        assert count_repairs(operator, "deployments") == 0


async def test_a_status_that_is_changed_in_a_loop_is_shown_at_the_pace_too(audited_world: World) -> None:
    world = audited_world
    kubeconfig = str(world.plane.kubeconfig_for(OPERATOR, ["system:masters"]))
    async with sdk_server() as url, running(world, QUICK, kubeconfig=kubeconfig) as operator:
        world.create("remote", {"url": url})
        await world.until("Ready", lambda: world.is_("remote", "Ready", "True"))
        path = world.server_path("remote", "/status")
        rival = Rival(world, path, {"status": {"tools": 99, "conditions": []}}, "other-operator")
        async with fighting(rival):
            await world.until("four repairs", lambda: count_repairs(operator, "mcpservers") >= 4)
            await world.until("a fight", lambda: rival.requests >= FIGHT)
        assert count_repairs(operator, "mcpservers") <= IN_A_MINUTE

        def is_told() -> bool:
            return world.is_("remote", "Conflicted", "True", "WritesUndone")

        await world.until("the conflict", is_told)
        assert "by field manager other-operator" in world.condition("remote", "Conflicted")["message"]
        assert world.is_("remote", "Ready", "True")


def count_repairs(operator: Operator, resource: str) -> float:
    """Number of repairs in the operator's metric."""
    registry = operator.telemetry.registry
    return registry.get_sample_value("fairlead_operator_undone_writes_total", {"resource": resource}) or 0.0
