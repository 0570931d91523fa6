"""Lease over the namespaces that an operator follows: of two releases that follow one namespace, one writes.

The Lease of a release (`lease_name`) keeps its own replicas apart. This one keeps releases apart, so it lies where all
of them look, wherever they are installed: in the followed namespace, or in `default` for all namespaces.

Who follows all namespaces goes before who follows one, whichever came first. The other way round, anybody who may
write Leases in some namespace (the cluster's role `edit` may) could keep the operator of the whole cluster from
leading. So an operator of one namespace looks for the Lease of all before each renewal of its own, for which the
installation of all lets every ServiceAccount read that Lease. The operator of all namespaces gives the others time to
notice (`wait_until_vacant`).
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
"""Namespace and name of the Lease of who follows all. `default` always exists, and `kube-system` is closed to charts on
some clusters (GKE Autopilot)."""
ONE_NAMESPACE: Final = "fairlead-namespace"
"""Name of the Lease of who follows a single namespace, in which it lies."""
PATIENCE: Final = 4.0
"""Times the duration of a release's own Lease: for so long another release leaves a silent one its namespaces, so that
a pod that crashed is started again meanwhile."""
LOOK_SECONDS: Final = 0.5


def lease_place(watched: str) -> tuple[str, str]:
    """Namespace and name of the Lease of who follows the namespace `watched`, or all where it is empty."""
    return (watched, ONE_NAMESPACE) if watched else ALL_NAMESPACES


def family_of(namespace: str, lease_name: str) -> str:
    """Beginning of the identities of a release's replicas, of which that release's own Lease lets one write."""
    return f"{namespace}/{lease_name}/"


class OtherReleases:
    """Leases of other releases over namespaces that are followed here too, beside the Lease that is contended for."""

    def __init__(self, kube: Kube, watched: str, family: str, duration: float) -> None:
        self._kube = kube
        self._watched = watched
        self._family = family
        self._duration = duration
        self._of_all = Expiry(duration * PATIENCE)

    async def superior(self, now: float) -> str:
        """Identity of who follows all namespaces, where one alone is followed here. Raises ApiError."""
        if not self._watched:
            return ""
        try:
            lease = await self._kube.get(LEASES, *ALL_NAMESPACES)
        except (NotFound, Forbidden):  # the right to read it comes with an installation that follows all namespaces
            return ""
        holder = self._holder(lease)
        return "" if self._of_all.has_expired(lease, now) else holder

    async def wait_until_vacant(self) -> None:
        """Return once no operator of a single namespace renews its Lease any more, or would still write if it did not.

        They look for ours before each renewal, and stop writing within their deadline where they cannot.
        """
        if self._watched:
            return
        expiry, until = Expiry(self._duration), boottime() + self._duration
        told = ""
        while (now := boottime()) < until:
            try:
                leases, _ = await self._kube.list(Scope(LEASES, Json, name=ONE_NAMESPACE))
                live = [lease for lease in leases if not expiry.has_expired(lease, now) and self._holder(lease)]
            except ApiError as error:
                logger.warning("who else follows a namespace is not known yet: %s", error)
            else:
                if not live:
                    return
                if (holder := self._holder(live[0])) != told:
                    told = holder
                    logger.warning("waiting for %s to stop following a namespace of its own", holder)
            await asyncio.sleep(LOOK_SECONDS)

    def _holder(self, lease: Json) -> str:
        """Identity of who holds it; empty where that is a replica of this release."""
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "")[:IDENTITY_LIMIT]
        return "" if holder.startswith(self._family) else holder


def explain(holder: str, watched: str) -> str:
    """Sentence that says for whom an operator waits that is to follow `watched`, all namespaces where it is empty."""
    namespace, name, replica = [*holder.split("/", 2), "", ""][:3]
    ours = f"namespace {watched}" if watched else "all namespaces"
    return (
        f"the operator {name} in namespace {namespace} (replica {replica}) leads, and follows namespaces that this one "
        f"is set to follow too: {ours}. This one writes nothing meanwhile. Stop one of the two, or keep each to a "
        f"namespace of its own (watchNamespace of the chart)"
    )
