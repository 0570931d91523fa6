"""Reads API keys from Secrets, which are watched through the Kubernetes API, and writes keys that principals create.

A Role cannot grant access to Secrets by label, so the gateway has access to Secrets by name. A Secret also needs the
label `fairlead.dev/api-keys: "true"`, so that its name alone does not make it a source of keys.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Sequence
from typing import Final

from fairlead_gateway.identity.key_format import LABEL, MEMBER, BadKeys, KeyDocument, encode_keys, read
from fairlead_gateway.identity.made_keys import KeysUnwritable
from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError, Conflict
from fairlead_kube.informer import Informer
from fairlead_kube.objects import Secret
from fairlead_kube.resources import SECRETS, Scope

log = logging.getLogger(__name__)

API_SECONDS: Final = 5.0
"""Timeout of one request to the API server."""
TRIES: Final = 5
MANAGER: Final = "fairlead-gateway-keys"
"""Field manager of the keys in the Secret."""


class KeySecret:
    """`KeySource` of one Secret. A missing Secret has no keys."""

    def __init__(self, kube: Kube, namespace: str, secret: str) -> None:
        self._kube = kube
        self._scope = Scope(SECRETS, Secret, namespace, name=secret)
        self.name = f"Secret {secret}"

    async def run(self, deliver: Callable[[KeyDocument], None]) -> None:
        await Informer(self._kube, self._scope, _KeyStore(self.name, deliver), on_new_failure=self._note_failure).run()

    def _note_failure(self, error: ApiError) -> None:
        log.warning("The API keys of %s cannot be read, and the last ones stay in use: %s", self.name, error)


class SecretKeyStore:
    """`made_keys.KeyStore` in a Secret, which has to exist: the gateway may patch it but cannot create Secrets."""

    def __init__(self, kube: Kube, namespace: str, secret: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._secret = secret

    async def load(self) -> KeyDocument:
        """Implements KeyStore."""
        return (await self._read())[0]

    async def change(self, change: Callable[[KeyDocument], KeyDocument]) -> None:
        """Implements KeyStore."""
        for attempt in range(TRIES):
            current, version = await self._read()
            data = {MEMBER: base64.b64encode(encode_keys(change(current).keys)).decode()}
            body = {"metadata": {"resourceVersion": version}, "data": data}
            try:
                async with asyncio.timeout(API_SECONDS):
                    await self._kube.merge(SECRETS, self._namespace, self._secret, body, manager=MANAGER)
            except Conflict as error:  # another replica wrote in between
                if attempt == TRIES - 1:
                    raise KeysUnwritable(f"Secret {self._secret} is being changed by others: try again") from error
            except (ApiError, TimeoutError) as error:
                raise self._unwritable(error) from error
            else:
                return

    async def _read(self) -> tuple[KeyDocument, str]:
        """Read the keys and the resourceVersion of the Secret."""
        try:
            async with asyncio.timeout(API_SECONDS):
                secret = await self._kube.get(SECRETS, self._namespace, self._secret)
            document = read(base64.b64decode((secret.get("data") or {}).get(MEMBER, "")))
        except (ApiError, BadKeys, TimeoutError) as error:
            raise self._unwritable(error) from error
        metadata = secret["metadata"]
        if (metadata.get("labels") or {}).get(LABEL) != "true":
            raise KeysUnwritable(f'Secret {self._secret} lacks the label {LABEL}: "true"')
        return document, metadata["resourceVersion"]

    def _unwritable(self, error: Exception) -> KeysUnwritable:
        reason = str(error) or "the API server does not respond"
        return KeysUnwritable(f"the API keys in Secret {self._secret} cannot be read or written: {reason}")


class _KeyStore:
    """Store of an informer that follows one Secret; it passes the keys to `deliver`."""

    def __init__(self, name: str, deliver: Callable[[KeyDocument], None]) -> None:
        self._name = name
        self._deliver = deliver

    def replace(self, objects: Sequence[Secret], version: str) -> None:
        if not objects:
            self._deliver(KeyDocument())
        for secret in objects:
            self.update(secret)

    def delete(self, item: Secret) -> None:
        self._deliver(KeyDocument())

    def update(self, item: Secret) -> None:
        if item.metadata.labels.get(LABEL) != "true":
            log.error('%s lacks the label %s: "true": its API keys are not used', self._name, LABEL)
            self._deliver(KeyDocument())
            return
        try:
            self._deliver(read(item.data.get(MEMBER, b"")))
        except BadKeys as error:
            log.error(
                "The API keys in %s of %s are invalid, and the last ones stay in use: %s", MEMBER, self._name, error
            )
