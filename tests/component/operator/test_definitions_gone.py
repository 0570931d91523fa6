"""Custom resource definitions that are deleted while the operator runs, and installed again."""

from __future__ import annotations

import pytest

from controlplane import REPOSITORY, PlaneFactory
from operatorworld import QUICK, World, running
from toolservers import sdk_server
from waiting import until_async

pytestmark = pytest.mark.timeout(180)


async def test_definitions_that_were_deleted_and_installed_again_are_followed_without_a_restart(
    private_plane: PlaneFactory, caplog: pytest.LogCaptureFixture
) -> None:
    plane = private_plane(controllers=False, crds=True)
    world = World(plane, plane.create_namespace("tools"), plane.create_namespace("release"))
    async with sdk_server() as url, running(world, QUICK, sweep_seconds=3600.0, lease_seconds=60.0):
        world.create("before", {"url": url})
        await world.until("Ready", lambda: world.is_("before", "Ready", "True"), seconds=40)
        # one by one, because the API server may need minutes to delete all at once
        for kind in ("mcpservers", "latencytiers", "toolpolicies"):
            plane.kubectl("delete", "crd", f"{kind}.fairlead.dev")
        await until_async("the feed to notice", lambda: _is_noticed(caplog), seconds=40)
        plane.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "crds"))
        plane.await_definitions()
        world.create("after", {"url": url})
        await world.until("Ready again", lambda: world.is_("after", "Ready", "True"), seconds=60)
        await world.until("the three tiers of the start, as there were none", lambda: len(_tiers(world)) == 3)


def _tiers(world: World) -> list[str]:
    return world.plane.kubectl("get", "latencytiers", "-o", "name").stdout.split()


async def _is_noticed(caplog: pytest.LogCaptureFixture) -> bool:
    return "404 page not found" in caplog.text
