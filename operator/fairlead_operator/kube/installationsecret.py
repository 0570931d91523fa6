"""The installation's Secret with the keys that operator and gateways share.

The operator creates the Secret at its start with random values, so that the chart contains no secret values, and
restores it while leading. Existing values are never changed: a new session key would end every legacy session.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from fairlead_api.meta import LABEL_MANAGED_BY, MANAGED_BY
from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError, Conflict, NotFound
from fairlead_kube.resources import SECRETS, Scope
from fairlead_operator.kube.drift import DriftRepairs, WriteTarget
from fairlead_operator.kube.owners import adopt_object, not_adopted

logger = logging.getLogger(__name__)

PULL_TOKEN: Final = "pullToken"  # noqa: S105 - the name of a key
KEYS: Final = (PULL_TOKEN, "sessionKey", "auditKey")
RANDOM_BYTES: Final = 36
"""Number of random bytes of each value."""
RETRY_SECONDS: Final = 1.0


class InstallationSecret:
    """Creates and restores the Secret, as the `informer.Store` of the Secret's informer. All replicas may call `ensure`
    concurrently.
    """

    def __init__(
        self, kube: Kube, namespace: str, name: str, owners: Sequence[Json] = (), drift: DriftRepairs | None = None
    ) -> None:
        self._kube = kube
        self._drift = drift or DriftRepairs()
        self._target = WriteTarget(SECRETS, namespace, name)
        self._namespace = namespace
        self._owners = list(owners)
        self._values: Mapping[str, str] = {}
        """Last seen values, base64-encoded, from which a deleted Secret is restored."""
        self.scope: Final = Scope(SECRETS, Json, namespace, name=name)

    async def ensure(self) -> str:
        """Create the Secret or add its missing keys; return the pull token. Raises ApiError."""
        while True:
            secrets, _ = await self._kube.list(self.scope)
            try:
                secret = await self._complete(secrets[0]) if secrets else await self._create()
            except (Conflict, NotFound):
                continue  # another replica or client was faster
            self._values = secret["data"]
            return base64.b64decode(secret["data"][PULL_TOKEN]).decode()

    async def _create(self) -> Json:
        metadata: Json = {"name": self.scope.name, "labels": {LABEL_MANAGED_BY: MANAGED_BY}}
        if self._owners:
            metadata["ownerReferences"] = self._owners
        data = {**_missing({}), **self._values}
        body: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        secret = await self._kube.create(SECRETS, self._namespace, body)
        self._count_repair()
        logger.info("created the installation's Secret %s", self.scope.name)
        return secret

    async def _complete(self, secret: Json) -> Json:
        """Add the missing keys, and the missing owners to a Secret that an operator created."""
        missing_values = _missing(secret.get("data") or {})
        if not missing_values:
            return await self._adopt(secret)
        patch: Json = {"metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]}, "data": missing_values}
        complete_secret = await self._kube.merge(SECRETS, self._namespace, self.scope.name, patch)
        self._count_repair()
        return await self._adopt(complete_secret)

    async def _adopt(self, secret: Json) -> Json:
        metadata = secret["metadata"]
        if (metadata.get("labels") or {}).get(LABEL_MANAGED_BY) != MANAGED_BY:
            return secret  # its creator decides when it is deleted
        try:
            return await adopt_object(self._kube, SECRETS, self._namespace, metadata, self._owners) or secret
        except (Conflict, NotFound):
            raise
        except ApiError as error:
            logger.warning(not_adopted(error))
            return secret

    def _count_repair(self) -> None:
        if self._values:
            self._drift.count_repair(self._target, "", lambda: None)

    # Called by the informer.

    async def replace(self, objects: Sequence[Json], version: str) -> None:
        await self._restore()

    async def update(self, item: Json) -> None:
        if _missing(item.get("data") or {}):
            await self._restore()

    async def delete(self, item: Json) -> None:
        await self._restore()

    async def _restore(self) -> None:
        # This sleep delays no other event, because this informer has one object.
        await asyncio.sleep(self._drift.seconds_until_repair(self._target))
        while True:
            try:
                await self.ensure()
                return
            except ApiError as error:
                logger.warning("the installation's Secret %s cannot be restored yet: %s", self.scope.name, error)
                await asyncio.sleep(RETRY_SECONDS)


def _missing(data: Mapping[str, str]) -> dict[str, str]:
    """Random values for the keys that `data` lacks, encoded as in a Secret."""
    return {
        key: base64.b64encode(secrets.token_urlsafe(RANDOM_BYTES).encode()).decode()
        for key in KEYS
        if not data.get(key)
    }
