"""A gateway that serves the documents of an operator under test: both with one real API server.

async with running(world), serving(world) as gateway:
    await until_async("its tools", shows(gateway, "demo__add"))
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from controlplane import ControlPlane
from fairlead_app.authentication import build_trust
from fairlead_app.call_path import ServerAccess
from fairlead_app.compose import CatalogFeed, compose
from fairlead_app.configuration import Models
from fairlead_app.configured_models import NO_MODELS, ConfiguredModels
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from fairlead_gateway.catalog.kube import HOLD_SECONDS, KubeCredentials, KubePins, KubeSource
from fairlead_kube.client import Kube
from fairlead_kube.connection import load_configuration
from fairlead_mcp.http.dial import Resolve, resolve_by_dns
from gatewayworld import ask, modern
from operatorworld import GROUP, Json, World


@asynccontextmanager
async def gateway_on(
    plane: ControlPlane,
    namespace: str,
    *,
    resolve: Resolve | None = None,
    kubeconfig: Path | None = None,
    hold: float = HOLD_SECONDS,
    models: Models | ConfiguredModels = NO_MODELS,
    **settings: Any,
) -> AsyncIterator[Gateway]:
    """A gateway on free ports and on the documents of one namespace."""
    async with aclosing(Kube.connect(await load_configuration(kubeconfig or plane.kubeconfig))) as kube:
        set_up = Settings.of(**{"port": 0, "metrics_port": 0, "namespace": namespace, **settings})
        gateway = compose(
            set_up,
            CatalogFeed(source=KubeSource(kube, namespace, hold=hold), pins=KubePins(kube, namespace)),
            ServerAccess(
                credentials=KubeCredentials(kube, namespace, set_up.installation.credentials),
                resolve=resolve_by_dns if resolve is None else resolve,
            ),
            trust=build_trust(set_up, kube),
            models=models if isinstance(models, ConfiguredModels) else ConfiguredModels(models),
        )
        await gateway.start()
        try:
            yield gateway
        finally:
            await gateway.stop(0)


@asynccontextmanager
async def serving(world: World, **settings: Any) -> AsyncIterator[Gateway]:
    """A gateway that serves the release's documents, and resolves host names like the operator."""
    async with gateway_on(world.plane, world.release, resolve=world.hosts.resolve, **settings) as gateway:
        yield gateway


async def names(gateway: Gateway) -> list[str]:
    """Names that the merged endpoint lists, in its order."""
    answer = await ask(gateway, modern("tools/list"))
    return [tool["name"] for tool in answer.message["result"]["tools"]]


def shows(gateway: Gateway, *expected: str) -> Callable[[], Awaitable[bool]]:
    """Whether the merged endpoint lists exactly these tools."""

    async def look() -> bool:
        return await names(gateway) == sorted(expected)

    return look


def declare(world: World, name: str, rules: list[Json], *, namespace: str = "", **spec: Any) -> None:
    """Create a ToolPolicy, or give it another spec."""
    path = f"{GROUP}/namespaces/{namespace or world.namespace}/toolpolicies"
    body: Json = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "ToolPolicy", "metadata": {"name": name}}
    body["spec"] = {"rules": rules, **spec}
    code, answer = world.request("POST", path, body)
    if code == 409:
        merge = "application/merge-patch+json"
        code, answer = world.request("PATCH", f"{path}/{name}", {"spec": body["spec"]}, content_type=merge)
    assert code in (200, 201), answer
