"""Lease over the namespaces that an operator watches: of two releases that watch one namespace, only one writes.

The Lease of a release (`lease_name`) elects one of its replicas. This Lease elects one of several releases. Its
namespace does not depend on where a release is installed: it is the watched namespace, or `default` if a release
watches all namespaces.

A release that watches all namespaces takes precedence over one that watches a single namespace. Otherwise anybody who
may write Leases in some namespace (the cluster's role `edit` may) could keep the operator of the whole cluster from
leading. An operator of one namespace therefore reads the Lease over all namespaces before each renewal of its own
Lease, and releases its own Lease if the other one has a holder. The release that watches all namespaces grants every
ServiceAccount the right to read its Lease, and begins to write only after the operators of single namespaces have
stopped (`wait_until_vacant`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError, Forbidden, NotFound
from fairlead_kube.fence import boottime
from fairlead_kube.resources import LEASES, Scope
from fairlead_operator.kube.lease import IDENTITY_LIMIT, Expiry

logger = logging.getLogger(__name__)

ALL_NAMESPACES: Final = ("default", "fairlead-all-namespaces")
"""Namespace and name of the Lease over all namespaces. `default` always exists, while some clusters (GKE Autopilot)
forbid charts to use `kube-system`.
"""
ONE_NAMESPACE: Final = "fairlead-namespace"
"""Name of the Lease over a single namespace; it is in that namespace."""
DURATION_FACTOR: Final = 4.0
"""Duration of this Lease, as a multiple of the duration of a release's own Lease: long enough for a crashed pod to
restart before another release takes over.
"""
POLL_SECONDS: Final = 0.5


def lease_location(watched_namespace: str) -> tuple[str, str]:
    """Namespace and name of the Lease over a watched namespace, or over all namespaces if the argument is empty."""
    return (watched_namespace, ONE_NAMESPACE) if watched_namespace else ALL_NAMESPACES


def release_identity_prefix(namespace: str, lease_name: str) -> str:
    """Prefix of the identities of a release's replicas, among which the release's own Lease elects one."""
    return f"{namespace}/{lease_name}/"


class OtherReleases:
    """Leases of other releases that cover some of the namespaces which this release watches."""

    def __init__(self, kube: Kube, watched_namespace: str, release_prefix: str, duration: float) -> None:
        self._kube = kube
        self._watched_namespace = watched_namespace
        self._release_prefix = release_prefix
        self._duration = duration
        self._expiry_of_all = Expiry(duration * DURATION_FACTOR)

    async def superior_holder(self, now: float) -> str:
        """Identity of the holder of the Lease over all namespaces; empty without a holder, or if this release itself
        watches all namespaces. Raises ApiError.
        """
        if not self._watched_namespace:
            return ""
        try:
            lease = await self._kube.get(LEASES, *ALL_NAMESPACES)
        except (NotFound, Forbidden):  # a release that watches all namespaces would grant the right to read it
            return ""
        holder = self._holder(lease)
        return "" if self._expiry_of_all.has_expired(lease, now) else holder

    async def wait_until_vacant(self) -> None:
        """Wait until no operator of a single namespace may write any more.

        Operators of a single namespace read the Lease over all namespaces before each renewal of their own Lease, and
        stop when the Lease over all namespaces has a holder. Operators that cannot read or renew a Lease stop writing
        within their deadline.
        """
        if self._watched_namespace:
            return
        expiry, until = Expiry(self._duration), boottime() + self._duration
        logged_holder = ""
        while (now := boottime()) < until:
            try:
                leases, _ = await self._kube.list(Scope(LEASES, Json, name=ONE_NAMESPACE))
                current_leases = [
                    lease for lease in leases if not expiry.has_expired(lease, now) and self._holder(lease)
                ]
            except ApiError as error:
                logger.warning("the Leases of operators of single namespaces cannot be listed yet: %s", error)
            else:
                if not current_leases:
                    return
                if (holder := self._holder(current_leases[0])) != logged_holder:
                    logged_holder = holder
                    logger.warning("waiting until the operator %s stops watching its namespace", holder)
            await asyncio.sleep(POLL_SECONDS)

    def _holder(self, lease: Json) -> str:
        """Identity of a Lease's holder; empty for a replica of this release."""
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "")[:IDENTITY_LIMIT]
        return "" if holder.startswith(self._release_prefix) else holder


def explain(holder: str, watched_namespace: str) -> str:
    """Sentence of an operator that is set to watch this namespace (empty: all) about the holder that it waits for."""
    namespace, name, replica = [*holder.split("/", 2), "", ""][:3]
    scope = f"namespace {watched_namespace}" if watched_namespace else "all namespaces"
    return (
        f"the operator {name} in namespace {namespace} (replica {replica}) leads, and watches namespaces that this "
        f"operator is set to watch too: {scope}. This operator writes nothing meanwhile. Stop one of the two, or limit "
        f"each to a namespace of its own (watchNamespace of the chart)"
    )
