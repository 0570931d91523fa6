"""Leadership on a real API server, with short times: which replica may write, and when none may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controlplane import PlaneFactory
from fairlead_kube.client import Kube
from fairlead_kube.resources import LEASES
from fairlead_operator.kube.lease import Lease, LeaseOptions, Timings
from operatorworld import Json, World, configuration_of
from waiting import eventually

TIMES = Timings(duration=3.0, renew=0.2, deadline=1.0, grace=0.5)


@pytest.fixture
def own_world(private_plane: PlaneFactory) -> World:
    plane = private_plane(crds=False)
    return World(plane, plane.create_namespace("tenant"), plane.create_namespace("release"))


class Leader:
    """Runs a Lease, and records when its tasks begin and end."""

    def __init__(self, kube: Kube, world: World, identity: str, **more: Any) -> None:
        self.lease = Lease(kube, world.release, "lease", identity, LeaseOptions(timings=TIMES, **more))
        self.began = asyncio.Event()
        self.ended = asyncio.Event()
        self.stubborn = False

    async def work(self) -> None:
        self.began.set()
        self.ended.clear()
        try:
            await asyncio.Event().wait()
        finally:
            if self.stubborn:
                await asyncio.sleep(1.5)  # delays the cancellation for longer than the grace period
            self.began.clear()
            self.ended.set()


@asynccontextmanager
async def contending(leader: Leader) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(leader.lease.run(leader.work))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=10)
        assert task.done()


@asynccontextmanager
async def connected(world: World) -> AsyncIterator[Kube]:
    kube = Kube.connect(await configuration_of(world.plane))
    try:
        yield kube
    finally:
        await kube.aclose()


async def within(seconds: float, event: asyncio.Event) -> float:
    """Wait for an event. Returns the seconds."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    async with asyncio.timeout(seconds):
        await event.wait()
    return loop.time() - start


def lease_object(world: World) -> Json:
    _, lease = world.request("GET", LEASES.path(world.release, "lease"))
    return dict(lease)


async def test_a_holder_that_vanishes_is_followed_after_the_leases_duration_and_not_before(world: World) -> None:
    async with connected(world) as kube:
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 2, "renewTime": "2099-01-01T00:00:00.000000Z"}
        body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": "lease"}, "spec": spec}
        assert world.request("POST", LEASES.path(world.release), body)[0] == 201
        heir = Leader(kube, world, "heir")
        async with contending(heir):
            assert await within(10, heir.began) >= 1.9
        assert lease_object(world)["spec"]["leaseTransitions"] == 1


async def test_a_released_lease_is_taken_at_once_by_one_of_two(world: World) -> None:
    async with connected(world) as kube:
        first, second, third = (Leader(kube, world, name) for name in ("first", "second", "third"))
        async with contending(second), contending(third):
            async with contending(first):
                await eventually(lambda: any(leader.lease.leading() for leader in (first, second, third)))
                holders = [leader for leader in (first, second, third) if leader.lease.leading()]
            (holder,) = holders
            others = [leader for leader in (first, second, third) if leader is not holder]
            assert not any(leader.lease.leading() for leader in others)


async def test_a_leader_whose_lease_is_taken_from_it_stops_and_contends_again(world: World) -> None:
    async with connected(world) as kube:
        leader = Leader(kube, world, "leader")
        async with contending(leader):
            await within(10, leader.began)
            lease = lease_object(world)
            patch = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 2}}
            path = LEASES.path(world.release, "lease")
            assert world.request("PATCH", path, patch, content_type="application/merge-patch+json")[0] == 200
            await within(10, leader.ended)
            assert not leader.lease.leading()
            await within(10, leader.began)
        assert lease_object(world)["spec"]["leaseTransitions"] > lease["spec"]["leaseTransitions"]


async def test_without_the_api_server_a_leader_stops_by_its_deadline_and_leads_again_afterwards(
    own_world: World,
) -> None:
    world = own_world
    async with connected(world) as kube:
        leader = Leader(kube, world, "leader")
        async with contending(leader):
            await within(10, leader.began)
            world.plane.kill_apiserver()
            assert await within(20, leader.ended) < TIMES.duration, "nobody else may lead before"
            assert not leader.lease.leading()
            await asyncio.to_thread(world.plane.start_apiserver)
            await within(40, leader.began)
            assert leader.lease.leading()


async def test_tasks_that_do_not_end_after_a_loss_end_the_process(world: World) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    async with connected(world) as kube:
        leader = Leader(kube, world, "leader", end_process=lambda: loop.call_soon_threadsafe(ended.set))
        leader.stubborn = True
        async with contending(leader):
            await within(10, leader.began)
            patch = {"spec": {"holderIdentity": "thief"}}
            path = LEASES.path(world.release, "lease")
            world.request("PATCH", path, patch, content_type="application/merge-patch+json")
            await within(20, ended)


async def test_a_leader_whose_work_breaks_down_releases_the_lease_and_says_so(world: World) -> None:
    async def work() -> None:
        raise RuntimeError("boom")

    async with connected(world) as kube:
        lease = Lease(kube, world.release, "lease", "leader", LeaseOptions(timings=TIMES))
        with pytest.raises(RuntimeError, match="boom"):
            await lease.run(work)
    assert lease_object(world)["spec"]["holderIdentity"] == ""


async def test_a_write_gets_no_more_time_than_is_left_until_another_may_lead(world: World) -> None:
    now = 1000.0
    async with connected(world) as kube:
        lease = Lease(kube, world.release, "lease", "leader", LeaseOptions(timings=TIMES, monotonic=lambda: now))
        assert lease.allowance() == 0

        async def work() -> None:
            await asyncio.Event().wait()

        task = asyncio.create_task(lease.run(work))
        await eventually(lease.leading, seconds=10)
        assert TIMES.deadline < lease.allowance() < TIMES.duration
        now += TIMES.deadline - 0.01
        assert 0 < lease.allowance() < TIMES.duration - TIMES.deadline
        now += 0.02
        assert lease.allowance() == 0
        task.cancel()
        await asyncio.wait([task], timeout=10)
