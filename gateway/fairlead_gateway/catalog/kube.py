"""Documents and credentials from the Kubernetes API: how a gateway is fed on a cluster.

Implements `catalog.source.Source` and `upstream.registry.Credentials` over `catalog.kubeapi`. A watch, never a
mounted volume, which would lag a minute. It needs to read ConfigMaps and named Secrets in the release's namespace,
nothing else.
"""

from __future__ import annotations

import asyncio
import random as randomness
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Credential, CredentialRef
from fairlead_api.documents.store import Assembler, Blob, Change
from fairlead_gateway.catalog.kubeapi import ApiTrouble, ConfigMap, Expired, KubeApi
from fairlead_gateway.catalog.source import Inbox
from fairlead_gateway.upstream.registry import CredentialUnreadable

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
"""Seconds between attempts while the API server is away; short, because it is one request per replica."""
IN_THREAD: Final = 64 << 10
"""Blobs above this many bytes are unpacked in a thread."""


class KubeSource:
    """ConfigMaps labelled as documents: listed, then watched, over every outage."""

    def __init__(self, api: KubeApi, *, random: Callable[[], float] = randomness.random) -> None:
        self._api = api
        self._random = random
        self._assembler = Assembler()
        self._heads: set[str] = set()

    async def run(self, inbox: Inbox) -> None:
        version: str | None = None
        pause = FIRST_PAUSE
        while True:
            try:
                if version is None:
                    version = await self._list(inbox)
                    pause = FIRST_PAUSE
                async for event in self._api.watch(version, inbox.alive):
                    inbox.alive()
                    pause = FIRST_PAUSE
                    version = event.object.metadata.resource_version or version
                    await self._apply(event.type, event.object, inbox)
            except Expired:
                version = None
            except ApiTrouble as error:
                inbox.away(str(error))
                await asyncio.sleep(pause * (0.5 + self._random()))
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _list(self, inbox: Inbox) -> str:
        found, version = await self._api.documents()
        blobs = [item.blob() for item in found]
        self._heads = {blob.name for blob in blobs if not blob.is_part}
        inbox.changed(await asyncio.to_thread(self._assembler.replace, blobs))
        inbox.synced(self._heads)
        return version

    async def _apply(self, kind: str, item: ConfigMap, inbox: Inbox) -> None:
        blob = item.blob()
        if kind == "DELETED":
            self._heads.discard(blob.name)
            inbox.changed(self._assembler.remove(blob.name))
        elif kind in ("ADDED", "MODIFIED"):
            if not blob.is_part:
                self._heads.add(blob.name)
            inbox.changed(await self._put(blob))

    async def _put(self, blob: Blob) -> list[Change]:
        size = sum(map(len, blob.data.values())) + sum(map(len, blob.binary.values()))
        if size <= IN_THREAD:
            return self._assembler.put(blob)
        return await asyncio.to_thread(self._assembler.put, blob)


class KubeCredentials:
    """Keys of Secrets in the release's namespace, each holding a `Credential`."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def read(self, ref: CredentialRef) -> Credential:
        try:
            values = await self._api.secret(ref.secret)
        except ApiTrouble as error:
            raise CredentialUnreadable(str(error)) from error
        if ref.key not in values:
            raise CredentialUnreadable(f"Secret {ref.secret} has no key {ref.key}")
        try:
            return msgspec.json.decode(values[ref.key], type=Credential)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # without the cause: its message might quote the value
            raise CredentialUnreadable(f"key {ref.key} of Secret {ref.secret} does not hold a credential") from None
