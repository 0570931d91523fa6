"""Creates the default LatencyTiers, because a chart cannot contain objects of kinds that it installs itself.

Operators up to 0.1 created the tier `fast` with `default: true`. This operator withdraws that default unless somebody
has edited the tier since: the creator of an object, and later writers of its spec, are in its `managedFields`
(Kubernetes API conventions, "Field management"), and `metadata.generation` grows with each change of the spec.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from fairlead_api.meta import ANNOTATION_SEEDING, MANAGER
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from fairlead_kube.resources import LATENCY_TIERS, Scope

logger = logging.getLogger(__name__)

SEEDER: Final = "fairlead-operator-seeds"
"""Field manager of the tiers that this operator creates. Older operators created tiers as MANAGER. The difference shows
which defaults to withdraw: those of older operators, never a default that the installation names.
"""
RETRY_SECONDS: Final = 1.0


def is_incomplete(item: Json) -> bool:
    """Whether this LatencyTier is marked as the first of a set that was not created completely."""
    return ANNOTATION_SEEDING in ((item.get("metadata") or {}).get("annotations") or {})


def is_old_default(item: Json) -> bool:
    """Whether an older operator created this LatencyTier as the default, and nobody has changed its spec since."""
    metadata, spec = item.get("metadata") or {}, item.get("spec") or {}
    if spec.get("default") is not True or metadata.get("generation") != 1:
        return False
    writers = [
        entry
        for entry in metadata.get("managedFields") or ()
        if not entry.get("subresource") and "f:spec" in (entry.get("fieldsV1") or {})
    ]
    return bool(writers) and all(
        entry.get("manager") == MANAGER and entry.get("operation") == "Update" for entry in writers
    )


class TierSeeder:
    """Creates `tiers` on a cluster without LatencyTiers, and withdraws the default that older operators set.

    The set is completed even if operators end in between: the first tier is marked until the last tier exists. With
    `optional`, the operator may lack the right to read LatencyTiers.
    """

    def __init__(self, kube: Kube, tiers: Collection[LatencyTier], *, optional: bool) -> None:
        self._kube = kube
        self._tiers = tiers
        self._optional = optional
        self._has_warned = False
        """Whether the warning about LatencyTiers that may not be read was logged."""

    async def run(self) -> bool:
        """Run `seed` until the API server answers; return whether LatencyTiers may be read."""
        while True:
            try:
                return await self.seed()
            except ApiError as error:
                logger.warning("LatencyTiers cannot be listed or created: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def seed(self) -> bool:
        """Create missing tiers once; return whether LatencyTiers may be read. Raises ApiError."""
        try:
            existing_tiers, _ = await self._kube.list(Scope(LATENCY_TIERS, Json))
        except Forbidden:
            if not self._optional:
                raise
            if not self._has_warned:
                logger.warning(
                    "the operator may not read LatencyTiers, which are cluster-scoped, so the tiers are those of "
                    "FAIRLEAD_TIERS, else the default tiers. To use LatencyTiers, set rbac.latencyTiers of the chart; "
                    "without the chart, grant the rights in operator/rbac.yaml and restart the operator"
                )
            self._has_warned = True
            return False
        marked_names = [item["metadata"]["name"] for item in existing_tiers if is_incomplete(item)]
        if marked_names or not existing_tiers:
            await self._create(marked_names)
        for item in existing_tiers:
            await self._withdraw_default(item)
        return True

    async def _withdraw_default(self, item: Json) -> None:
        """Remove `default: true` from a tier that an older operator created as the default, unless somebody has edited
        the tier, or the installation names it as default. A default tier would hide slow tools from clients that name
        no tier.
        """
        metadata = item["metadata"]
        name = metadata["name"]
        configured_defaults = {tier.metadata.name for tier in self._tiers if tier.spec.default}
        if name in configured_defaults or not is_old_default(item):
            return
        # With the resourceVersion, the API server refuses the patch if somebody edits the tier at the same time.
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"default": False}}
        try:
            await self._kube.merge(LATENCY_TIERS, None, name, patch)
        except NotFound:
            return
        except Forbidden:
            logger.warning(
                "LatencyTier %s is the default because an older operator set it, and hides tools from clients that "
                "name no tier; this operator may not patch latencytiers: grant the rights in operator/rbac.yaml and "
                "restart it, or set spec.default of the tier to false",
                name,
            )
            return
        logger.info("LatencyTier %s is no longer the default: clients that name no tier see every tool", name)

    async def _create(self, marked_names: Collection[str]) -> None:
        """Create the missing tiers; `marked_names` are the names of tiers that an interrupted operator has marked."""
        names_to_unmark = list(marked_names)
        for tier in self._tiers:
            name = tier.metadata.name
            body = tier.to_wire()
            body.pop("status", None)
            body["metadata"] = (
                {"name": name} if names_to_unmark else {"name": name, "annotations": {ANNOTATION_SEEDING: "true"}}
            )
            try:
                await self._kube.create(LATENCY_TIERS, None, body, manager=SEEDER)
            except Conflict:
                continue
            except Invalid as error:
                logger.error("LatencyTier %s of FAIRLEAD_TIERS cannot be created: %s", name, error)
                continue
            names_to_unmark = names_to_unmark or [name]
            logger.info("created LatencyTier %s", name)
        for name in names_to_unmark:
            await self._unmark(name)

    async def _unmark(self, name: str) -> None:
        try:
            await self._kube.merge(LATENCY_TIERS, None, name, {"metadata": {"annotations": {ANNOTATION_SEEDING: None}}})
        except NotFound:
            return
        except Forbidden:
            logger.warning(
                "LatencyTier %s keeps its annotation %s, because of which each start of the operator creates missing "
                "default tiers; this operator may not patch latencytiers: grant the rights in operator/rbac.yaml, or "
                "remove the annotation",
                name,
                ANNOTATION_SEEDING,
            )
