"""LatencyTiers that the operator creates: a chart cannot hold objects of kinds that it installs itself.

Operators up to 0.1 created `fast` with `default: true`. Who created an object, and who has written its spec since, is
in its `managedFields` (Kubernetes API conventions, "Field management"); `metadata.generation` grows with each change of
the spec.
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
"""Field manager of the tiers that this operator creates. Those of older operators have MANAGER, so that a default which
this one creates, because the installation names it, is never withdrawn."""
RETRY_SECONDS: Final = 1.0


def has_begun(item: Json) -> bool:
    """Whether the operator that created this LatencyTier has not told that it created the others as well."""
    return ANNOTATION_SEEDING in ((item.get("metadata") or {}).get("annotations") or {})


def old_default(item: Json) -> bool:
    """Whether an older operator created this LatencyTier as the default, and nobody has written its spec since."""
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
    """Creates `tiers` where there is no LatencyTier, and takes back the default that older operators made. All of them,
    even if operators end amid it: the first one is marked until the last one is there.

    With `optional`, an installation that may not read LatencyTiers goes without.
    """

    def __init__(self, kube: Kube, tiers: Collection[LatencyTier], *, optional: bool) -> None:
        self._kube = kube
        self._tiers = tiers
        self._optional = optional

    async def run(self) -> bool:
        """Seed, trying again until the API server has answered; whether LatencyTiers may be read."""
        while True:
            try:
                return await self.seed()
            except ApiError as error:
                logger.warning("LatencyTiers cannot be listed or created: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def seed(self) -> bool:
        """Seed once; whether LatencyTiers may be read. Raises ApiError."""
        try:
            existing, _ = await self._kube.list(Scope(LATENCY_TIERS, Json))
        except Forbidden:
            if not self._optional:
                raise
            logger.warning(
                "LatencyTiers, which belong to no namespace, may not be read: the tiers are those of FAIRLEAD_TIERS, "
                "else the default ones. To use LatencyTiers grant their rights (operator/rbac.yaml) and restart"
            )
            return False
        marked = [item["metadata"]["name"] for item in existing if has_begun(item)]
        if marked or not existing:
            await self._create(marked)
        for item in existing:
            await self._withdraw_default(item)
        return True

    async def _withdraw_default(self, item: Json) -> None:
        """Take `default: true` from a tier that an older operator created with it, where nobody has edited it and the
        installation does not name it as its default now: latency would hide tools from clients that chose no tier.
        """
        metadata = item["metadata"]
        name = metadata["name"]
        named = {tier.metadata.name for tier in self._tiers if tier.spec.default}
        if name in named or not old_default(item):
            return
        # the version has the API server refuse this where somebody edits the tier at the same time
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"default": False}}
        try:
            await self._kube.merge(LATENCY_TIERS, None, name, patch)
        except NotFound:
            return
        except Forbidden:
            logger.warning(
                "latency tier %s is the default because an older operator made it so, and hides tools from clients "
                "that name no tier; this operator may not patch latencytiers: grant its rights "
                "(operator/rbac.yaml) and restart, or set spec.default of the tier to false",
                name,
            )
            return
        logger.info("latency tier %s is no longer the default: clients that name no tier see every tool", name)

    async def _create(self, marked: Collection[str]) -> None:
        """Create those that are missing; `marked` are the marked tiers of an operator that ended amid this."""
        marks = list(marked)
        for tier in self._tiers:
            name = tier.metadata.name
            body = tier.to_wire()
            body.pop("status", None)
            body["metadata"] = {"name": name} if marks else {"name": name, "annotations": {ANNOTATION_SEEDING: "true"}}
            try:
                await self._kube.create(LATENCY_TIERS, None, body, manager=SEEDER)
            except Conflict:
                continue
            except Invalid as error:
                logger.error("latency tier %s of FAIRLEAD_TIERS cannot be created: %s", name, error)
                continue
            marks = marks or [name]
            logger.info("latency tier %s created", name)
        for name in marks:
            await self._unmark(name)

    async def _unmark(self, name: str) -> None:
        try:
            await self._kube.merge(LATENCY_TIERS, None, name, {"metadata": {"annotations": {ANNOTATION_SEEDING: None}}})
        except NotFound:
            return
        except Forbidden:
            logger.warning(
                "latency tier %s keeps its annotation %s, by which each start of the operator creates the first tiers "
                "that are missing: this operator may not patch latencytiers: grant its rights (operator/rbac.yaml), or "
                "remove the annotation",
                name,
                ANNOTATION_SEEDING,
            )
