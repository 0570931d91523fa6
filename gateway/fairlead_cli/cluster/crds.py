"""`fairlead crds`: prints the custom resource definitions, or installs them in a cluster."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING

from fairlead_api.crd import crd_files, crd_manifests
from fairlead_api.meta import API_VERSION
from fairlead_cli.cluster.reaching import on_cluster
from fairlead_cli.failure import Failure
from fairlead_cli.output import Output, print_json

if TYPE_CHECKING:
    from fairlead_kube.client import Kube


def print_crds(output: Output) -> None:
    """Print all CRDs as one YAML stream or one JSON list; `kubectl apply -f -` accepts both."""
    if output is Output.json:
        print_json({"apiVersion": "v1", "kind": "List", "items": crd_manifests()})
        return
    for content in crd_files().values():
        sys.stdout.write(f"---\n{content}")


def install_crds(kubeconfig: str, timeout: float, output: Output) -> None:
    """Install the CRDs by server-side apply, and wait until the API server serves their resources. Raises Failure."""
    try:
        on_cluster(
            kubeconfig,
            partial(_install, timeout=timeout, output=output),
            rights="Installing CRDs requires the rights of a cluster administrator.",
        )
    except TimeoutError as error:
        raise Failure(f"the cluster did not serve the new resources within {timeout:g} s; try again") from error


async def _install(kube: Kube, timeout: float, output: Output) -> None:
    from fairlead_kube.resources import CUSTOM_RESOURCE_DEFINITIONS

    async with asyncio.timeout(timeout):
        manifests = crd_manifests()
        for manifest in manifests:
            await kube.apply(CUSTOM_RESOURCE_DEFINITIONS, None, manifest, manager="fairlead-crds")
            if output is Output.table:
                print(f"{manifest['metadata']['name']} applied")
        await _wait_until_served(kube, {manifest["spec"]["names"]["plural"] for manifest in manifests})
    if output is Output.json:
        print_json({"applied": [manifest["metadata"]["name"] for manifest in manifests], "served": API_VERSION})
    else:
        print(f"{API_VERSION} is served")


async def _wait_until_served(kube: Kube, plurals: set[str]) -> None:
    from fairlead_kube.errors import NotFound

    while True:
        try:
            listing = await kube.get_path(f"/apis/{API_VERSION}")
        except NotFound:
            listing = {}
        if plurals <= {resource.get("name") for resource in listing.get("resources", ())}:
            return
        await asyncio.sleep(0.2)
