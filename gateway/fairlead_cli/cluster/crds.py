"""`fairlead crds`: the custom resource definitions on standard output, or in a cluster."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from fairlead_api.crd import crd_files, crd_manifests
from fairlead_api.meta import API_VERSION
from fairlead_cli.failure import Failure, needs

if TYPE_CHECKING:
    from fairlead_operator.kube.client import Kube


def print_crds() -> None:
    """All of them as one YAML stream, for `kubectl apply -f -`."""
    for content in crd_files().values():
        sys.stdout.write(f"---\n{content}")


def install_crds(kubeconfig: str, timeout: float) -> None:
    """Apply them on the server's side and wait until their resources are served. Raises Failure."""
    with needs("operator"):
        from fairlead_operator.kube.connection import CannotStart
        from fairlead_operator.kube.errors import Forbidden, KubeError, Unauthorized

    try:
        asyncio.run(_install(kubeconfig, timeout))
    except CannotStart as error:
        raise Failure(str(error)) from error
    except TimeoutError as error:
        raise Failure(f"the cluster did not serve the new resources within {timeout:g} s; try again") from error
    except (Forbidden, Unauthorized) as error:
        raise Failure(f"{error}. Installing CRDs takes the rights of a cluster administrator.") from error
    except KubeError as error:
        raise Failure(f"the API server did not take them: {error}") from error


async def _install(kubeconfig: str, timeout: float) -> None:
    from fairlead_operator.kube.client import Kube
    from fairlead_operator.kube.connection import load_configuration
    from fairlead_operator.kube.resources import Kind

    definitions = Kind(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
    )
    kube = Kube.connect(await load_configuration(kubeconfig))
    try:
        async with asyncio.timeout(timeout):
            manifests = crd_manifests()
            for manifest in manifests:
                await kube.apply(definitions, None, manifest, manager="fairlead-crds")
                print(f"{manifest['metadata']['name']} applied")
            await _served(kube, {manifest["spec"]["names"]["plural"] for manifest in manifests})
    finally:
        await kube.aclose()
    print(f"{API_VERSION} is served")


async def _served(kube: Kube, plurals: set[str]) -> None:
    from fairlead_operator.kube.errors import NotFound

    while True:
        try:
            listing = await kube.get_path(f"/apis/{API_VERSION}")
        except NotFound:
            listing = {}
        if plurals <= {resource.get("name") for resource in listing.get("resources", ())}:
            return
        await asyncio.sleep(0.2)
