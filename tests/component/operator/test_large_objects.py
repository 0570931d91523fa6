"""Objects of a tenant with too many values, on a real API server: only these are refused, each with one message."""

from __future__ import annotations

from functools import partial

from operatorworld import World, running

VALUES = 60_000
IMAGE = {"name": "registry.example/demo:1"}


async def test_a_server_with_too_many_values_is_refused_once_and_its_neighbor_runs(world: World) -> None:
    async with running(world, pod_templates="Any"):
        world.create("large", {"image": IMAGE, "unrestrictedPodTemplate": {"x": [[]] * VALUES}})
        world.create("demo", {"image": IMAGE})
        await world.until("refused", lambda: world.is_("large", "Accepted", "False"))
        assert "it has more than 50,000 values" in world.condition("large", "Accepted")["message"]
        await world.until("a neighbor", lambda: world.get(world.path("deployments", "demo")))
        # the API server may answer the first write of a large status after the time-out, so the operator may repeat it
        versions = []
        for port in (9000, 9001, 9002):
            world.patch_server("demo", {"spec": {"image": {"port": port}}})
            await world.until("a changed neighbor", partial(_has_port, world, port))
            versions.append(world.server("large")["metadata"]["resourceVersion"])
        assert versions[-1] == versions[-2], "a neighbor's change does not refuse it again"
    assert world.get(world.path("deployments", "large")) is None


def _has_port(world: World, port: int) -> bool:
    deployment = world.get(world.path("deployments", "demo"))
    assert deployment is not None
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return bool(container["ports"][0]["containerPort"] == port)
