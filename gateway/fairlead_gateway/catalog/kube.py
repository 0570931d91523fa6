"""Reads documents and credentials from the Kubernetes API, for gateways on a cluster.

Implements `catalog.source.Source` and `core.credentials.Credentials` over `fairlead_kube`. The ConfigMaps of documents
are watched, because the files of a mounted volume would be up to a minute old. Credentials are read from a volume only
while the API server does not respond. The gateway needs read access to ConfigMaps and to named Secrets in the release's
namespace.

The operator annotates a ConfigMap before it deletes it. A ConfigMap that disappears without the annotation was deleted
by somebody else, or the annotation was missed while the watch was interrupted. The document is then served for some
time, so that the operator can restore it. Rules are served without a time limit, because without rules all tools would
be allowed.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Credential, CredentialRef
from fairlead_api.documents.codec import RULES_NAME, SERVED, pins_name
from fairlead_api.documents.pins import PINS, Pins
from fairlead_api.documents.store import Blob, Change, DocumentAssembler
from fairlead_api.meta import (
    ANNOTATION_WITHDRAWN,
    LABEL_DOCUMENT,
    LABEL_NAME,
    LABEL_NAMESPACE,
    ServerKey,
    label_value,
)
from fairlead_gateway.catalog.pins import PinsUnreadable, pins_in
from fairlead_gateway.catalog.source import Inbox
from fairlead_gateway.core.credentials import CredentialUnreadable
from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError
from fairlead_kube.informer import Informer
from fairlead_kube.objects import ConfigMap, Secret
from fairlead_kube.resources import CONFIG_MAPS, SECRETS, Scope

log = logging.getLogger(__name__)

DOCUMENTS: Final = f"{LABEL_DOCUMENT} in ({','.join(SERVED)})"
"""Label selector of the documents that gateways read; it excludes held-back definitions."""
HOLD_SECONDS: Final = 30.0
"""Seconds for which a document is served after its ConfigMap has disappeared without the operator's annotation. Another
replica of the operator needs less time to take over and restore the document."""
API_SECONDS: Final = 1.5
"""Timeout in seconds for reading a credential from the API server. `upstream.registry` gives up half a second later, so
that there is time to read the volume instead."""
PINS_SECONDS: Final = 5.0
"""Timeout in seconds for reading the pins of a server."""
IN_THREAD: Final = 64 << 10
"""Maximum number of bytes of a ConfigMap that is unpacked in the event loop; larger ConfigMaps are unpacked in a
thread."""


def blob_of(item: ConfigMap) -> Blob:
    """The part of a document that is in a ConfigMap."""
    return Blob(item.metadata.name, item.metadata.labels, item.metadata.annotations, item.data, item.binary_data)


def documents_of(namespace: str) -> Scope[ConfigMap]:
    """Scope of all documents of a release."""
    return Scope(CONFIG_MAPS, ConfigMap, namespace, DOCUMENTS)


class KubeSource:
    """Source of documents in labelled ConfigMaps, which it lists and watches. It reconnects after outages."""

    def __init__(
        self, kube: Kube, namespace: str, *, random: Callable[[], float] = randomness.random, hold: float = HOLD_SECONDS
    ) -> None:
        self._kube = kube
        self._documents = documents_of(namespace)
        self._random = random
        self._hold = hold

    async def run(self, inbox: Inbox) -> None:
        def on_failure(error: ApiError) -> None:
            inbox.note_unreachable(error.sentence(self._kube.host))

        store = _DocumentStore(inbox, self._hold)
        try:
            await Informer(
                self._kube,
                self._documents,
                store,
                on_contact=inbox.note_reachable,
                on_failure=on_failure,
                random=self._random,
            ).run()
        finally:
            store.close()


class _DocumentStore:
    """Assembles documents from the ConfigMaps that an informer reports, and delivers the changes to `inbox`.

    A document whose ConfigMap disappears without the operator's annotation is served for `hold` more seconds.
    """

    def __init__(self, inbox: Inbox, hold: float) -> None:
        self._inbox = inbox
        self._hold = hold
        self._assembler = DocumentAssembler()
        self._document_names: set[str] = set()
        """Names of all documents; a large document has further ConfigMaps, its parts."""
        self._deletion_timers: dict[str, asyncio.TimerHandle | None] = {}
        """Documents that are served although their ConfigMap has disappeared, each with the timer that drops the
        document; None for rules, which have no timer.
        """

    def close(self) -> None:
        for name in [*self._deletion_timers]:
            self._cancel_hold(name)

    # Methods that the informer calls

    async def replace(self, objects: Sequence[ConfigMap], version: str) -> None:
        blobs = []
        for item in objects:
            blobs.append(blob_of(item))  # decodes the ConfigMap
            await asyncio.sleep(0)
        self._document_names = {blob.name for blob in blobs if not blob.is_part}
        changes = await asyncio.to_thread(self._assembler.replace, blobs)
        for change in self._hold_deleted(changes):
            self._inbox.update([change])  # decodes the document
            await asyncio.sleep(0)
        self._inbox.finish_sync(self._document_names | self._deletion_timers.keys())

    def delete(self, item: ConfigMap) -> None:
        blob = blob_of(item)
        self._document_names.discard(blob.name)
        changes = self._assembler.remove(blob.name)
        self._inbox.update(changes if ANNOTATION_WITHDRAWN in blob.annotations else self._hold_deleted(changes))

    async def update(self, item: ConfigMap) -> None:
        blob = blob_of(item)
        if not blob.is_part:
            self._document_names.add(blob.name)
        self._cancel_hold(blob.name)
        self._inbox.update(await self._put(blob))

    def _hold_deleted(self, changes: Iterable[Change]) -> list[Change]:
        """Remove deletions from the changes. A deleted document is still served until its timer drops it."""
        documents = []
        for change in changes:
            if change.document is not None or change.problem is not None:
                self._cancel_hold(change.name)
                documents.append(change)
            elif change.name not in self._deletion_timers:
                log.warning(
                    "ConfigMap %s was deleted, but not by the operator, which publishes it: its document "
                    "stays in use for now",
                    change.name,
                )
                forever = change.name == RULES_NAME
                loop = asyncio.get_running_loop()
                self._deletion_timers[change.name] = (
                    None if forever else loop.call_later(self._hold, self._forget, change.name)
                )
        return documents

    def _forget(self, name: str) -> None:
        del self._deletion_timers[name]
        self._inbox.update([Change(name, None)])

    def _cancel_hold(self, name: str) -> None:
        timer = self._deletion_timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    async def _put(self, blob: Blob) -> list[Change]:
        size = sum(map(len, blob.data.values())) + sum(map(len, blob.binary.values()))
        if size <= IN_THREAD:
            return self._assembler.put(blob)
        return await asyncio.to_thread(self._assembler.put, blob)


class KubePins:
    """`PinReader` that lists the ConfigMaps with the pins of one server, in the release's namespace."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace

    async def read(self, key: ServerKey) -> Pins | None:
        """Implements PinReader."""
        labels = {LABEL_DOCUMENT: PINS, LABEL_NAMESPACE: label_value(key.namespace), LABEL_NAME: label_value(key.name)}
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        try:
            async with asyncio.timeout(PINS_SECONDS):
                items, _ = await self._kube.list(Scope(CONFIG_MAPS, ConfigMap, self._namespace, selector))
        except (ApiError, TimeoutError) as error:
            raise PinsUnreadable(str(error) or f"the API server {self._kube.host} does not respond") from error
        assembler = DocumentAssembler()
        await asyncio.to_thread(assembler.replace, [blob_of(item) for item in items])
        data = assembler.documents.get(pins_name(key))
        return None if data is None else await asyncio.to_thread(pins_in, data, key)


class KubeCredentials:
    """Credentials in Secrets of the release's namespace, one `Credential` per key.

    `mounted` is a directory, such as a projected volume, with a file per key. The files may be a minute old, and are
    read only while the API server does not respond.
    """

    def __init__(self, kube: Kube, namespace: str, mounted: Path | None = None) -> None:
        self._kube = kube
        self._namespace = namespace
        self._mounted = mounted

    async def read(self, ref: CredentialRef) -> Credential:
        try:
            async with asyncio.timeout(API_SECONDS):
                values = (await self._kube.get_as(Secret, SECRETS, self._namespace, ref.secret)).data
        except (ApiError, TimeoutError) as error:
            values = await asyncio.to_thread(self._from_volume, ref.key)
            if not values:
                reason = str(error) or f"the API server {self._kube.host} does not respond"
                raise CredentialUnreadable(reason) from error
        if ref.key not in values:
            raise CredentialUnreadable(f"Secret {ref.secret} has no key {ref.key}")
        try:
            return msgspec.json.decode(values[ref.key], type=Credential)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # from None: the message of the cause might quote the credential
            raise CredentialUnreadable(f"key {ref.key} of Secret {ref.secret} is not a valid credential") from None

    def _from_volume(self, key: str) -> dict[str, bytes]:
        """Read one key from the mounted volume; empty if the file is missing."""
        file = None if self._mounted is None else self._mounted / key
        if file is None or file.parent != self._mounted:
            return {}
        try:
            return {key: file.read_bytes()}
        except OSError:
            return {}
