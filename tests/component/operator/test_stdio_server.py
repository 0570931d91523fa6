"""A stdio server in an image: its token, its pods, and their adoption by a new operator."""

from __future__ import annotations

from typing import Any

from fairlead_api.documents.catalog import TcpEndpoint
from fairlead_api.documents.codec import catalog_name
from fairlead_api.meta import ServerKey
from fairlead_operator.server import stdio_gate
from gated_stdio_server import gated
from operatorworld import World, running
from toolservers import SDK_STDIO, SDK_TOOLS

SPEC: dict[str, Any] = {
    "image": {"name": "registry.example/demo:1", "transport": "stdio", "command": ["demo"], "port": 9000}
}


async def test_a_stdio_server_is_discovered_through_its_gate_and_survives_a_new_operator(world: World) -> None:
    async with running(world):
        world.create("demo", SPEC)
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        deployment = world.get(world.path("deployments", "demo"))
        assert deployment is not None
        (token,) = world.tokens()
        command = deployment["spec"]["template"]["spec"]["containers"][0]["command"]
        assert stdio_gate.digest(token) in command
        assert token not in str(deployment)
        async with gated(SDK_STDIO, token=token) as server:
            world.hosts.ports[f"demo.{world.namespace}.svc"] = server.port
            world.pods_are("demo", 1)
            await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        catalog = world.catalog("demo")
        assert catalog is not None
        assert catalog.endpoint == TcpEndpoint(host=f"demo.{world.namespace}.svc", port=9000)
        assert [tool.name for tool in catalog.tools] == list(SDK_TOOLS)
        assert token.encode() not in b"".join(world.documents().values())
        assert world.server("demo")["status"]["endpoint"] == f"tcp://demo.{world.namespace}.svc:9000"
    async with gated(SDK_STDIO, token=token) as server:
        world.hosts.ports[f"demo.{world.namespace}.svc"] = server.port
        published = catalog_name(ServerKey(world.namespace, "demo"))
        world.request("DELETE", f"/api/v1/namespaces/{world.release}/configmaps/{published}")
        async with running(world):  # a new operator learns the tools only by a discovery
            await world.until("asked again", lambda: world.catalog("demo"))
            await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))  # written after the catalog
            after = world.get(world.path("deployments", "demo"))
            assert after is not None
            assert after["metadata"]["generation"] == deployment["metadata"]["generation"], "no pod was replaced"
            assert world.tokens() == [token]


async def test_a_stdio_server_with_keys_of_persons_is_listed_without_one_and_names_its_program(world: World) -> None:
    image = {**SPEC["image"], "args": ["--quiet"]}
    spec = {"image": image, "session": "PerClient", "auth": {"userKey": {"env": "DEMO_KEY"}}}
    async with running(world):
        world.create("demo", spec)
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        (token,) = world.tokens()
        async with gated(SDK_STDIO, token=token, key_variable="DEMO_KEY") as server:
            world.hosts.ports[f"demo.{world.namespace}.svc"] = server.port
            world.pods_are("demo", 1)
            await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
            first = program_of(world)
            assert first[0] == "registry.example/demo:1"
            world.patch_server("demo", {"spec": {"env": [{"name": "DEMO_URL", "value": "http://elsewhere"}]}})
            await world.until("the rollout", lambda: first[1] not in str(world.get(world.path("deployments", "demo"))))
            world.pods_are("demo", 1)
            await world.until("another program", lambda: program_of(world)[1] != first[1])
        deployment = world.get(world.path("deployments", "demo"))
        assert deployment is not None
        assert "DEMO_KEY" in deployment["spec"]["template"]["spec"]["containers"][0]["command"]


async def test_pods_with_the_token_of_an_earlier_installation_are_being_replaced_and_have_not_failed(
    world: World,
) -> None:
    """The log of such a pod says nothing: its gate starts no process."""
    async with running(world), gated(SDK_STDIO, token="of-before") as old:
        world.create("demo", SPEC)
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        (token,) = world.tokens()
        world.hosts.ports[f"demo.{world.namespace}.svc"] = old.port
        world.pods_are("demo", 1, old=1)
        await world.until("waits", lambda: world.is_("demo", "Verified", "Unknown", "BeingReplaced"))
        assert world.is_("demo", "Ready", "Unknown", "BeingReplaced")
        async with gated(SDK_STDIO, token=token) as new:
            world.hosts.ports[f"demo.{world.namespace}.svc"] = new.port
            world.pods_are("demo", 1)
            await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))


async def test_a_program_that_ends_at_once_has_failed_when_its_pods_are_complete(world: World) -> None:
    async with running(world):
        world.create("demo", SPEC)
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        (token,) = world.tokens()
        async with gated("false", token=token) as server:
            world.hosts.ports[f"demo.{world.namespace}.svc"] = server.port
            world.pods_are("demo", 1)
            await world.until("failed", lambda: world.is_("demo", "Verified", "False", "StartFailed"))


def program_of(world: World) -> tuple[str, str]:
    """The program in the endpoint of the catalog, and its digest."""
    catalog = world.catalog("demo")
    assert catalog is not None
    assert isinstance(catalog.endpoint, TcpEndpoint)
    return catalog.endpoint.program, catalog.endpoint.program_digest


async def test_a_lost_token_is_made_again_and_the_pods_get_it(world: World) -> None:
    async with running(world):
        world.create("demo", SPEC)
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        (token,) = world.tokens()
        _, listing = world.request("GET", f"/api/v1/namespaces/{world.release}/secrets")
        for item in listing["items"]:
            world.request("DELETE", f"/api/v1/namespaces/{world.release}/secrets/{item['metadata']['name']}")
        (renewed,) = await world.until("another token", lambda: world.tokens())
        assert renewed != token

        def is_told() -> bool:
            return stdio_gate.digest(renewed) in str(world.get(world.path("deployments", "demo")))

        await world.until("the digest in the Deployment", is_told)


async def test_a_missing_secret_of_the_environment_keeps_the_token(world: World) -> None:
    async with running(world):
        reference = {"secretKeyRef": {"name": "none", "key": "k"}}
        world.create("demo", {**SPEC, "env": [{"name": "KEY", "valueFrom": reference}]})
        await world.until("refused", lambda: world.is_("demo", "ResolvedRefs", "False", "SecretNotFound"))
        (token,) = world.tokens()
        assert world.get(world.path("deployments", "demo")) is None
        labels = {"fairlead.dev/credential": "true"}
        world.request(
            "POST", world.path("secrets"), {"metadata": {"name": "none", "labels": labels}, "stringData": {"k": "v"}}
        )
        made = await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        assert stdio_gate.digest(token) in str(made)
