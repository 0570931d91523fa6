"""A Secret of API keys, watched through the API: a `KeyPlace`.

A Role cannot grant Secrets by label, so the gateway is granted some by name; one that lacks the label
`fairlead.dev/api-keys: "true"` is not used all the same, so that a name alone makes nobody a keeper of keys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from fairlead_gateway.identity.keys import LABEL, MEMBER, BadKeys, KeyDocument, read
from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError
from fairlead_kube.informer import Informer
from fairlead_kube.objects import Secret
from fairlead_kube.resources import SECRETS, Scope

log = logging.getLogger(__name__)


class KeySecret:
    """API keys of one Secret. A Secret that is not there holds no keys."""

    def __init__(self, kube: Kube, namespace: str, secret: str) -> None:
        self._kube = kube
        self._scope = Scope(SECRETS, Secret, namespace, name=secret)
        self.name = f"Secret {secret}"

    async def run(self, tell: Callable[[KeyDocument], None]) -> None:
        await Informer(self._kube, self._scope, _KeyStore(self.name, tell), failed=self._failed).run()

    def _failed(self, error: ApiError) -> None:
        log.warning("The API keys of %s stay as they were: %s", self.name, error)


class _KeyStore:
    """Hands the keys of the one Secret that its informer follows to `tell`."""

    def __init__(self, name: str, tell: Callable[[KeyDocument], None]) -> None:
        self._name = name
        self._tell = tell

    def listed(self, objects: Sequence[Secret], version: str) -> None:
        if not objects:
            self._tell(KeyDocument())
        for secret in objects:
            self.changed(secret)

    def deleted(self, item: Secret) -> None:
        self._tell(KeyDocument())

    def changed(self, item: Secret) -> None:
        if item.metadata.labels.get(LABEL) != "true":
            log.error('%s lacks the label %s: "true": its API keys are not used', self._name, LABEL)
            self._tell(KeyDocument())
            return
        try:
            self._tell(read(item.data.get(MEMBER, b"")))
        except BadKeys as error:
            log.error("%s, %s: %s; its API keys stay as they were", self._name, MEMBER, error)
