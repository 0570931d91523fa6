"""Checks a cluster before the operator starts: the API server answers, serves Fairlead's custom resources, and grants
the operator its rights. Writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from fairlead_api.meta import API_VERSION, GROUP
from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError, NotFound, Unavailable
from fairlead_kube.resources import (
    DEPLOYMENTS,
    DOMAIN_POLICIES,
    LATENCY_TIERS,
    LEASES,
    MCP_SERVERS,
    OWN_KINDS,
    PODS,
    SECRETS,
    Kind,
)
from fairlead_operator.kube.watched_lease import ONE_NAMESPACE, lease_location

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 1.0
RIGHTS: Final = "the rights in operator/rbac.yaml to the account that the operator runs as"


class CannotStart(Exception):
    """The operator cannot start; the message is one sentence that says what is missing and what to do."""


async def check_cluster(
    kube: Kube, release_namespace: str, watched_namespace: str = "", secret_namespaces: Sequence[str] = ("",)
) -> None:
    """Check that the operator can work in the namespace `watched_namespace` (empty: all), and read Secrets in
    `secret_namespaces`, where an empty name stands for all. Raises CannotStart.
    """
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await kube.get_path("/version")
            await _check_crds(kube)
            await _check_rights(kube, release_namespace, watched_namespace, secret_namespaces)
    except TimeoutError as error:
        unavailable = Unavailable(f"no answer within {CONNECT_SECONDS:g} s")
        raise CannotStart(unavailable.sentence(kube.host)) from error
    except ApiError as error:
        raise CannotStart(error.sentence(kube.host, f"Grant {RIGHTS}.")) from error


async def serves_domain_policies(kube: Kube) -> bool:
    """Whether the cluster serves CiliumNetworkPolicies; retries until the API server answers."""
    group = f"/apis/{DOMAIN_POLICIES.api_version}"
    while True:
        try:
            served_resources = (await kube.get_path(group)).get("resources", ())
        except NotFound:
            return False
        except ApiError as error:
            logger.warning("the check whether Cilium is installed failed and will be retried: %s", error)
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return any(resource.get("name") == DOMAIN_POLICIES.plural for resource in served_resources)


async def _check_crds(kube: Kube) -> None:
    """Check that the API server serves Fairlead's custom resources. Raises CannotStart."""
    install = "install them with `fairlead crds | kubectl apply -f -`"
    try:
        listing = await kube.get_path(f"/apis/{API_VERSION}")
    except NotFound as error:
        raise CannotStart(f"the custom resources of {GROUP} are not installed: {install}") from error
    served_kinds = {resource.get("name") for resource in listing.get("resources", ())}
    missing_kinds = [kind.plural for kind in OWN_KINDS if kind.plural not in served_kinds]
    if missing_kinds:
        raise CannotStart(f"the custom resources {', '.join(missing_kinds)} of {GROUP} are not installed: {install}")


async def _check_rights(
    kube: Kube, release_namespace: str, watched_namespace: str, secret_namespaces: Sequence[str]
) -> None:
    """Check the required rights, one for each rule of operator/rbac.yaml. Raises CannotStart."""
    lease_namespace, lease_name = lease_location(watched_namespace)
    required_rights: list[tuple[str, Kind, str, str, str]] = [
        ("watch", MCP_SERVERS, watched_namespace, "", ""),
        ("patch", MCP_SERVERS, watched_namespace, "status", ""),
        ("patch", DEPLOYMENTS, watched_namespace, "", ""),
        *(("list", SECRETS, namespace, "", "") for namespace in secret_namespaces),
        ("list", SECRETS, release_namespace, "", ""),
        ("watch", PODS, watched_namespace, "", ""),
        ("update", LEASES, release_namespace, "", ""),
        ("create", LEASES, lease_namespace, "", ""),
        ("update", LEASES, lease_namespace, "", lease_name),
    ]
    if not watched_namespace:  # an installation of one namespace works without these rights
        required_rights.append(("list", LEASES, "", "", ONE_NAMESPACE))
        required_rights.append(("create", LATENCY_TIERS, "", "", ""))
    for verb, kind, namespace, subresource, name in required_rights:
        if not await kube.allows(verb, kind, namespace, subresource, name=name):
            resource = f"{kind.plural}/{subresource}" if subresource else f"{kind.plural} {name}".rstrip()
            scope = f" in namespace {namespace}" if namespace else ""
            raise CannotStart(f"the operator's credentials may not {verb} {resource}{scope}: grant {RIGHTS}")
