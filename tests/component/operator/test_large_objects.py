"""Objects of a tenant with more values than are read, on a real API server: each is refused alone, and said so once."""

from __future__ import annotations

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
        before = world.condition("large", "Accepted")
        world.patch_server("demo", {"spec": {"image": {"port": 9000}}})
        await world.until("a changed neighbor", lambda: _port(world) == 9000)
        assert world.condition("large", "Accepted") == before
    assert world.get(world.path("deployments", "large")) is None


def _port(world: World) -> int:
    deployment = world.get(world.path("deployments", "demo"))
    assert deployment is not None
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return int(container["ports"][0]["containerPort"])
