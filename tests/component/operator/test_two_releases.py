"""Operators of two releases on a real API server: if both follow a namespace, one of them writes there. The other
waits, is not ready, and names the first.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import aiohttp
import pytest

from controlplane import ControlPlane, PlaneFactory
from fairlead_kube.resources import LEASES
from fairlead_operator.app import Operator
from fairlead_operator.kube.watched_lease import ALL_NAMESPACES, ONE_NAMESPACE
from fairlead_operator.probes import serve
from operatorworld import QUICK, Json, World, running
from toolservers import sdk_server

pytestmark = pytest.mark.timeout(120)
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def plane(module_plane: PlaneFactory) -> ControlPlane:
    return module_plane(audit=True)


@pytest.fixture
def tenant(plane: ControlPlane) -> Iterator[str]:
    """A namespace of this test. At its end, no operator has the Lease of all namespaces."""
    name = plane.create_namespace(f"tenant-{uuid.uuid4().hex[:8]}")
    yield name
    plane.remove_namespace(name)
    namespace, lease = ALL_NAMESPACES
    plane.request("DELETE", f"{LEASES.path(namespace)}/{lease}")


@pytest.fixture
def blue(plane: ControlPlane, tenant: str) -> Iterator[World]:
    world = World(plane, tenant, plane.create_namespace(tenant.replace("tenant", "blue")))
    yield world
    plane.remove_namespace(world.release)


@pytest.fixture
def green(blue: World) -> Iterator[World]:
    world = dataclasses.replace(blue, release=blue.plane.create_namespace(blue.release.replace("blue", "green")))
    yield world
    blue.plane.remove_namespace(world.release)


def account(world: World) -> str:
    """A kubeconfig with a user of its own, so that the audit log distinguishes this release's operator."""
    return str(world.plane.kubeconfig_for(f"operator-of-{world.release}", ["system:masters"]))


def resources_written_by(world: World) -> set[str]:
    """Resources that this release's operator has written, without its Leases."""
    assert world.plane.audit is not None
    writes = world.plane.audit.writes()
    return {w.resource for w in writes if w.user == f"operator-of-{world.release}" and w.resource != "leases"}


@contextlib.asynccontextmanager
async def operator_of(world: World, watched: str = "", **more: object) -> AsyncIterator[Operator]:
    settings = {"identity": f"pod-of-{world.release}", "watch_namespace": watched, **more}
    async with running(world, QUICK, kubeconfig=account(world), **settings) as operator:
        yield operator


async def leads(world: World, operator: Operator) -> None:
    await world.until("leading", lambda: operator.controller is not None)


async def waits(world: World, operator: Operator) -> None:
    await world.until("waiting", lambda: operator.watched_lease.waiting)


async def readiness(operator: Operator) -> tuple[int, str]:
    """Status and text of /readyz."""
    async with (
        serve(operator, "127.0.0.1", 0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/readyz") as answer,
    ):
        return answer.status, await answer.text()


async def looks_of(operator: Operator) -> None:
    """Wait until the operator has tried a few more times to get the Lease."""
    await asyncio.sleep(3 * QUICK.lease.seconds * 2 / 15)


async def test_the_second_of_two_releases_of_all_namespaces_writes_nothing_until_the_first_stops(
    blue: World, green: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with sdk_server() as url, contextlib.AsyncExitStack() as first:
        leader = await first.enter_async_context(operator_of(blue))
        await leads(blue, leader)
        async with operator_of(green) as second:
            await waits(green, second)
            blue.create("remote", {"url": url})
            blue.create("pods", {"image": {"name": "registry.example/demo:1"}})
            await blue.until("Ready", lambda: blue.is_("remote", "Ready", "True"))
            await blue.until("a Deployment", lambda: blue.get(blue.path("deployments", "pods")))
            await looks_of(second)
            status, text = await readiness(second)
            assert status == 503
            replica = f"(replica pod-of-{blue.release}) leads"
            assert f"operator fairlead-operator in namespace {blue.release} {replica}" in text
            assert any(replica in record.getMessage() for record in caplog.records)
            assert resources_written_by(green) == set()
            assert second.controller is None
            assert second.watched_lease.allowance() == 0

            await first.aclose()
            await leads(green, second)
            assert (await readiness(second))[0] == 200
            await green.until("a catalog of the second", lambda: green.catalog("remote"))
            policy = green.path("networkpolicies", "pods")
            await green.until(
                "its gateways let in", lambda: green.release in str((green.get(policy) or {}).get("spec"))
            )


async def test_an_operator_of_all_namespaces_goes_on_when_one_of_a_single_namespace_starts(
    blue: World, green: World
) -> None:
    async with contextlib.AsyncExitStack() as whole:
        everywhere = await whole.enter_async_context(operator_of(blue))
        await leads(blue, everywhere)
        async with operator_of(green, green.namespace) as single:
            await waits(green, single)
            await the_first_alone_writes(blue, everywhere, green, single)
            await whole.aclose()
            await leads(green, single)


async def test_an_operator_of_a_single_namespace_stops_for_one_of_all(blue: World, green: World) -> None:
    """Otherwise, a client that may write Leases in one namespace could prevent the operator of all namespaces from
    leading."""
    async with operator_of(green, green.namespace) as single:
        await leads(green, single)
        async with operator_of(blue) as everywhere:
            await waits(green, single)
            await leads(blue, everywhere)
            await the_first_alone_writes(blue, everywhere, green, single)
        await leads(green, single)


async def the_first_alone_writes(blue: World, first: Operator, green: World, second: Operator) -> None:
    assert first.controller is not None
    assert second.controller is None
    assert f"(replica pod-of-{blue.release})" in (await readiness(second))[1]
    blue.create("pods", {"image": {"name": "registry.example/demo:1"}})
    await blue.until("a Deployment", lambda: blue.get(blue.path("deployments", "pods")))
    await looks_of(second)
    assert not {"deployments", "mcpservers"} & resources_written_by(green)


async def test_releases_of_one_namespace_share_a_leader_and_those_of_two_do_not(blue: World, green: World) -> None:
    other = blue.plane.create_namespace(blue.release.replace("blue", "other"))
    async with operator_of(blue, blue.namespace) as first:
        await leads(blue, first)
        async with operator_of(green, green.namespace) as second:
            await waits(green, second)
            assert f"namespace {blue.release}" in second.watched_lease.explanation
        async with operator_of(green, other) as second:
            await leads(green, second)
            assert first.controller is not None


async def test_a_release_whose_leader_crashed_goes_on_at_once_and_another_waits_for_longer(
    blue: World, green: World
) -> None:
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    spec = {
        "holderIdentity": f"{green.release}/fairlead-operator/crashed",
        "leaseDurationSeconds": 600,
        "renewTime": now,
    }
    namespace, name = ALL_NAMESPACES
    body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": name}, "spec": spec}
    assert blue.request("POST", LEASES.path(namespace), body)[0] == 201
    async with operator_of(blue) as other:
        await waits(blue, other)
        async with operator_of(green) as heir:
            await leads(green, heir)
            assert other.controller is None


async def test_a_lease_that_a_tenant_makes_up_keeps_nobody_from_leading_the_cluster(blue: World) -> None:
    """Users who may edit a namespace may write Leases in it."""
    path = LEASES.path(blue.namespace)
    spec: Json = {"holderIdentity": "x" * 100_000, "leaseDurationSeconds": 2_000_000}
    body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": ONE_NAMESPACE}, "spec": spec}
    assert blue.request("POST", path, body)[0] == 201

    async def renew() -> None:
        while True:
            spec["renewTime"] = datetime.now(UTC).isoformat(timespec="microseconds")
            await asyncio.to_thread(
                blue.request, "PATCH", f"{path}/{ONE_NAMESPACE}", {"spec": spec}, content_type=MERGE
            )
            await asyncio.sleep(0.1)

    renewing = asyncio.create_task(renew())
    try:
        async with operator_of(blue) as operator:
            await blue.until("leading", lambda: operator.controller is not None, seconds=30)
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])
