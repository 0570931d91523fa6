"""The `scale` subresource of an McpServer on a real API server, with the requests of `kubectl scale` and of an
autoscaler."""

from __future__ import annotations

from operatorworld import Json, World, running

IMAGE = "registry.example/demo:1"


def scale(world: World) -> Json:
    """The subresource, as an autoscaler reads it."""
    status, answer = world.request("GET", world.server_path("demo", "/scale"))
    assert status == 200, answer
    return dict(answer)


async def test_kubectl_scale_moves_the_pods_and_an_autoscaler_finds_them_by_their_labels(world: World) -> None:
    async with running(world):
        world.create("demo", {"image": {"name": IMAGE}, "replicas": 1})
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        world.pods_are("demo", 1)
        await world.until("counted", lambda: scale(world)["status"].get("replicas") == 1)
        assert scale(world)["spec"]["replicas"] == 1
        world.plane.kubectl("-n", world.namespace, "scale", "mcps/demo", "--replicas=3")
        await world.until("more", lambda: (world.get(world.path("deployments", "demo")) or {})["spec"]["replicas"] == 3)
        deployment = world.get(world.path("deployments", "demo"))
        assert deployment is not None
        labels = dict(pair.split("=") for pair in scale(world)["status"]["selector"].split(","))
        assert labels == deployment["spec"]["selector"]["matchLabels"]
        assert labels.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


async def test_a_server_that_said_no_number_is_scaled_and_one_that_runs_elsewhere_is_not(world: World) -> None:
    scaled = ("-n", world.namespace, "scale", "--replicas=3")
    async with running(world):
        world.create("demo", {"image": {"name": IMAGE}})
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        world.plane.kubectl(*scaled, "mcps/demo")
        await world.until("more", lambda: (world.get(world.path("deployments", "demo")) or {})["spec"]["replicas"] == 3)
    world.create("elsewhere", {"url": "https://tools.example.com/mcp"})
    refused = world.plane.kubectl(*scaled, "mcps/elsewhere", check=False).stderr
    assert "replicas, resources and pod templates describe pods" in refused
