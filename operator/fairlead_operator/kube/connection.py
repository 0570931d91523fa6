"""Finds the API server and the credentials for it, and says in one sentence what is missing before anything is started.

Used by `__main__`, and by tests for a configuration. Nothing here writes.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.config.config_exception import ConfigException
from yaml import YAMLError

from fairlead_api.meta import API_VERSION, GROUP
from fairlead_operator.kube.client import Kube
from fairlead_operator.kube.errors import Forbidden, KubeError, NotFound, Unauthorized, Unavailable
from fairlead_operator.kube.resources import (
    DEPLOYMENTS,
    LATENCY_TIERS,
    LEASES,
    MCP_SERVERS,
    OWN_KINDS,
    PODS,
    SECRETS,
    Kind,
)

DEFAULT_KUBECONFIG: Final = "~/.kube/config"
CONNECT_SECONDS: Final = 15.0


class CannotStart(Exception):
    """The message is one sentence that says what is missing and what to do."""


async def load_configuration(kubeconfig: str = "") -> Configuration:
    """Where the API server is and how to log in, from `kubeconfig`, `KUBECONFIG`, `~/.kube/config`, or the pod.

    Raises CannotStart.
    """
    configuration = Configuration()
    path = kubeconfig or os.environ.get("KUBECONFIG", "")
    try:
        if path or _is_there(DEFAULT_KUBECONFIG):
            await load_kube_config(config_file=path or DEFAULT_KUBECONFIG, client_configuration=configuration)
        elif os.environ.get("KUBERNETES_SERVICE_HOST"):
            load_incluster_config(client_configuration=configuration)
        else:
            raise CannotStart(
                f"no cluster to connect to: set KUBECONFIG, or put a kubeconfig at {DEFAULT_KUBECONFIG}; "
                "without a cluster, `fairlead up` runs everything on this machine"
            )
    except (ConfigException, OSError, YAMLError, TypeError, ValueError) as error:
        where = path or "the pod's ServiceAccount"
        raise CannotStart(f"{where} cannot be used to connect to a cluster: {error}") from error
    return configuration


def _is_there(path: str) -> bool:
    return Path(path).expanduser().exists()


async def check_cluster(kube: Kube, release_namespace: str, watched: str = "") -> None:
    """See that the operator could work here, for the namespace `watched` or for all. Raises CannotStart."""
    host = kube.api.configuration.host
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await kube.get_path("/version")
            await _crds(kube)
            await _rights(kube, release_namespace, watched)
    except (Unavailable, TimeoutError) as error:
        raise CannotStart(f"the API server at {host} cannot be reached ({error}): check that it runs") from error
    except Unauthorized as error:
        raise CannotStart(f"the API server at {host} does not accept the credentials: renew the kubeconfig") from error
    except Forbidden as error:
        raise CannotStart(f"the credentials have no rights at {host} ({error})") from error
    except KubeError as error:
        raise CannotStart(f"the API server at {host} gives an answer that is not understood: {error}") from error


async def _crds(kube: Kube) -> None:
    install = "install them with `fairlead crds | kubectl apply -f -`"
    try:
        listing = await kube.get_path(f"/apis/{API_VERSION}")
    except NotFound as error:
        raise CannotStart(f"the custom resources of {GROUP} are not installed: {install}") from error
    served = {resource.get("name") for resource in listing.get("resources", ())}
    missing = [kind.plural for kind in OWN_KINDS if kind.plural not in served]
    if missing:
        raise CannotStart(f"the custom resources {', '.join(missing)} of {GROUP} are not installed: {install}")


async def _rights(kube: Kube, release_namespace: str, watched: str) -> None:
    """The rights that nothing works without, one for each rule of the manifest that grants them."""
    needed: list[tuple[str, Kind, str, str]] = [
        ("watch", MCP_SERVERS, watched, ""),
        ("patch", MCP_SERVERS, watched, "status"),
        ("patch", DEPLOYMENTS, watched, ""),
        ("list", SECRETS, watched, ""),
        ("list", SECRETS, release_namespace, ""),
        ("watch", PODS, watched, ""),
        ("update", LEASES, release_namespace, ""),
    ]
    if not watched:  # an installation of one namespace goes without, where it has to
        needed.append(("create", LATENCY_TIERS, "", ""))
    for verb, kind, namespace, subresource in needed:
        if not await kube.allowed(verb, kind, namespace, subresource):
            what = f"{kind.plural}/{subresource}" if subresource else kind.plural
            where = f" in namespace {namespace}" if namespace else ""
            raise CannotStart(
                f"the credentials may not {verb} {what}{where}: "
                "grant the rights in operator/rbac.yaml to the account that the operator runs as"
            )
