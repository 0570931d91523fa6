"""A Secret of API keys, watched through the API. A `KeyPlace`, made by `setup`.

A Role cannot grant Secrets by label, so the gateway is granted some by name; one that lacks the label
`fairlead.dev/api-keys: "true"` is not used all the same, so that a name alone makes nobody a keeper of keys.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from fairlead_gateway.catalog.kubeapi import ApiTrouble, Expired, KubeApi, Secret
from fairlead_gateway.identity.keys import LABEL, MEMBER, BadKeys, KeyDocument, read

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0


class KeySecret:
    """See the module. A Secret that is not there holds no keys."""

    def __init__(self, api: KubeApi, secret: str) -> None:
        self._api = api
        self._secret = secret
        self.name = f"Secret {secret}"

    async def run(self, tell: Callable[[KeyDocument], None]) -> None:
        version: str | None = None
        pause = FIRST_PAUSE
        while True:
            try:
                if version is None:
                    found, version = await self._api.one_secret(self._secret)
                    self._tell(found, tell)
                    pause = FIRST_PAUSE
                async for event in self._api.watch_secret(self._secret, version):
                    version = event.object.metadata.resource_version or version
                    if event.type in ("ADDED", "MODIFIED"):
                        self._tell(event.object, tell)
                    elif event.type == "DELETED":
                        self._tell(None, tell)
            except Expired:
                version = None
            except ApiTrouble as error:
                log.warning("The API keys of %s stay as they were: %s", self.name, error)
                version = None
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _tell(self, secret: Secret | None, tell: Callable[[KeyDocument], None]) -> None:
        if secret is None:
            tell(KeyDocument())
        elif secret.metadata.labels.get(LABEL) != "true":
            log.error('%s lacks the label %s: "true": its API keys are not used', self.name, LABEL)
            tell(KeyDocument())
        else:
            try:
                tell(read(secret.data.get(MEMBER, b"")))
            except BadKeys as error:
                log.error("%s, %s: %s; its API keys stay as they were", self.name, MEMBER, error)
