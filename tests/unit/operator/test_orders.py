"""Answers and events about one object in any order: the store has the newest version, and never returns to an older
one.

Under load, a watch event often arrives before the answer to the write that caused it. If that answer then replaced a
newer version, a server would stay `Deploying` forever, because no further event would report its pods.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.store import VALUES_LIMIT, Blob, pack
from fairlead_api.meta import ServerKey
from fairlead_kube.client import Kube
from fairlead_kube.resources import DEPLOYMENTS
from fairlead_operator.kube.credentials import CredentialStore, shard_name, store_key
from fairlead_operator.kube.documents import KubeDocuments, config_map_for
from fairlead_operator.kube.owned import OwnedObjects

Json = dict[str, Any]
KEY = ServerKey("team", "demo")
MANIFEST = {"metadata": {"name": "demo", "namespace": "team"}, "spec": {"replicas": 1}}


class Api:
    """API client that answers every write with `answer`, after calling `meanwhile`."""

    def __init__(self, answer: Json, meanwhile: Callable[[], None]) -> None:
        self.answer = answer
        self.meanwhile = meanwhile
        self.writes = 0
        self.kube = cast("Kube", self)
        """As far as it is used here."""

    async def get(self, *_: object) -> Json:
        return self.answer

    async def apply(self, *_: object, **__: object) -> Json:
        self.writes += 1
        self.meanwhile()
        return self.answer

    merge = create = apply


def deployment(version: int, **status: int) -> Json:
    owner = {"kind": "McpServer", "name": "demo", "uid": "s1", "controller": True}
    metadata = {"name": "demo", "namespace": "team", "uid": "d1", "generation": 1, "ownerReferences": [owner]}
    return {"metadata": {**metadata, "resourceVersion": str(version)}, "spec": {"replicas": 1}, "status": status}


async def test_pods_that_came_up_before_the_answer_to_the_apply_are_seen() -> None:
    told: list[ServerKey] = []
    api = Api(deployment(9), lambda: owned.stores[DEPLOYMENTS].update(deployment(10, availableReplicas=1)))
    owned = OwnedObjects(api.kube, told.append)
    for _ in range(2):
        await owned.apply(DEPLOYMENTS, MANIFEST, "s1")
        seen = owned.last_seen(DEPLOYMENTS, "team", "demo")
        assert seen is not None
        assert seen.status == {"availableReplicas": 1}
    assert api.writes == 1


async def test_an_event_from_before_an_apply_costs_no_second_one() -> None:
    api = Api(deployment(10), lambda: None)
    owned = OwnedObjects(api.kube, lambda key: None)
    await owned.apply(DEPLOYMENTS, MANIFEST, "s1")
    before = deployment(9)
    before["spec"] = {"replicas": 3}
    owned.stores[DEPLOYMENTS].update(before)
    await owned.apply(DEPLOYMENTS, MANIFEST, "s1")
    assert api.writes == 1


def config_map(blob: Blob, version: int) -> Json:
    item = config_map_for(blob, "release")
    item["metadata"]["resourceVersion"] = str(version)
    return item


async def test_a_document_that_was_edited_before_the_answer_to_its_write_is_written_again() -> None:
    wanted = Blob(name="doc", labels={}, annotations={}, data={"document": "1"}, binary={})
    edited = Blob(name="doc", labels={}, annotations={}, data={"document": "x"}, binary={})
    disturbed: list[str] = []
    api = Api(config_map(wanted, 5), lambda: documents.store.update(config_map(edited, 6)))
    documents = KubeDocuments(api.kube, "release", lambda name, labels: disturbed.append(name))
    await documents.publish([wanted])
    assert disturbed == ["doc"]
    await documents.publish([wanted])
    assert api.writes == 2


class Cluster:
    """API client that stores ConfigMaps. Each deletion first awaits `meanwhile`."""

    def __init__(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self.items: dict[str, Json] = {}
        self.deleted: list[str] = []
        self._meanwhile = meanwhile
        self._version = 0
        self.kube = cast("Kube", self)
        """As far as it is used here."""

    async def apply(self, _kind: object, _namespace: str, manifest: Json) -> Json:
        self._version += 1
        item: Json = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self._version)}}
        self.items[manifest["metadata"]["name"]] = item
        return item

    async def delete(self, _kind: object, _namespace: str, name: str) -> None:
        await self._meanwhile()
        del self.items[name]
        self.deleted.append(name)


def in_parts(name: str) -> list[Blob]:
    """A document of two parts and a head, which is the last blob."""
    chance = random.Random(name)
    blobs = pack(name, "catalog", chance.randbytes(VALUES_LIMIT).hex().encode())
    assert len(blobs) == 3
    return blobs


def without_heads(documents: KubeDocuments, cluster: Cluster, *names: str) -> None:
    """Delete heads as a user would, and report the deletions as the watch does."""
    for name in names:
        documents.store.delete(cluster.items.pop(name))


async def test_a_document_that_is_published_while_its_parts_are_tidied_away_has_them_in_the_end() -> None:
    blobs = in_parts("doc")
    published: list[asyncio.Task[None]] = []

    async def publish() -> None:
        if not published:
            published.append(asyncio.create_task(documents.publish(blobs)))
            await asyncio.sleep(0)  # one iteration of the loop, in which the task runs as far as it can

    cluster = Cluster(publish)
    documents = KubeDocuments(cluster.kube, "release", lambda name, labels: None)
    await documents.publish(blobs)
    without_heads(documents, cluster, "doc")
    await documents.tidy()
    await published[0]
    assert cluster.deleted, "the parts had no head"
    assert cluster.items.keys() == {blob.name for blob in blobs}


async def test_parts_whose_document_was_published_while_others_were_tidied_away_stay() -> None:
    document = in_parts("one")
    other = in_parts("other")

    async def publish() -> None:
        if not cluster.deleted:
            await documents.publish(other)

    cluster = Cluster(publish)
    documents = KubeDocuments(cluster.kube, "release", lambda name, labels: None)
    await documents.publish(document)
    await documents.publish(other)
    without_heads(documents, cluster, "one", "other")
    await documents.tidy()
    assert cluster.deleted == [blob.name for blob in document[:-1]]
    assert cluster.items.keys() == {blob.name for blob in other}


async def test_a_credential_that_a_later_write_has_stored_is_not_forgotten_by_an_older_answer() -> None:
    credential = Credential(token="t")
    value = base64.b64encode(msgspec.json.encode(credential)).decode()
    entry = store_key(KEY)
    shard = shard_name(KEY)
    of = {"name": shard, "namespace": "release"}
    older_: Json = {"metadata": {**of, "resourceVersion": "5"}, "data": {"other": "eA=="}}
    later: Json = {"metadata": {**of, "resourceVersion": "6"}, "data": {"other": "eA==", entry: value}}
    api = Api(older_, lambda: store.store.update(later))
    store = CredentialStore(api.kube, "release", lambda entry: None)
    beside = next(key for n in range(1000) if shard_name(key := ServerKey("team", f"beside-{n}")) == shard)
    await store.put(beside, credential)
    assert store.token(KEY) == "t"
