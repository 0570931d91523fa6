"""Failures of a watch at the API server: after each of them, the documents are current and complete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kubernetes.aio.client import Configuration

from fairlead_api.documents.codec import catalog_name, encode
from fairlead_api.documents.store import Change, pack
from fairlead_gateway.catalog.kube import KubeSource
from fairlead_kube.client import Kube
from gatewayworld import catalog
from rawserver import RawServer, Reply, Request, raw_server
from waiting import eventually

ERROR_410 = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}\n'


def item(name: str, tool: str, version: int) -> dict[str, Any]:
    document = catalog(name, "http://127.0.0.1:1/mcp", [tool])
    (blob,) = pack(catalog_name(document.key), "catalog", encode(document))
    metadata = {
        "name": name,
        "labels": blob.labels,
        "annotations": blob.annotations,
        "resourceVersion": str(version),
    }
    return {"metadata": metadata, "data": blob.data}


class Cluster:
    """API server that lists its objects. Each watch gets the next events of `watches`, and then stays open."""

    def __init__(self, *watches: bytes | int) -> None:
        self.items: dict[str, dict[str, Any]] = {}
        self.watches = list(watches)
        self.lists = 0
        self.hold = asyncio.Event()

    async def handle(self, request: Request, reply: Reply) -> None:
        if "watch=true" not in request.path:
            self.lists += 1
            listing = {"metadata": {"resourceVersion": str(self.lists * 100)}, "items": list(self.items.values())}
            reply.send(200, json.dumps(listing).encode())
            return
        step = self.watches.pop(0) if self.watches else b""
        if isinstance(step, int):
            reply.send(step, b'{"kind":"Status","message":"too old"}')
            return
        reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        if not step:
            await reply.flush()
            await self.hold.wait()
            step = ERROR_410
        reply.chunk(step)
        await reply.flush()
        reply.close()


class Noted:
    """Inbox that records all reports."""

    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}
        self.names: set[str] = set()
        self.syncs = 0
        self.absences: list[str] = []
        self.updated = asyncio.Event()

    def update(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if change.document is None:
                self.documents.pop(change.name, None)
            else:
                self.documents[change.name] = change.document
        self.updated.set()

    def finish_sync(self, names: Iterable[str]) -> None:
        self.syncs += 1
        self.names = set(names)
        self.updated.set()

    def note_unreachable(self, reason: str) -> None:
        self.absences.append(reason)
        self.updated.set()

    def note_reachable(self) -> None: ...

    async def until_synced(self, times: int) -> None:
        async with asyncio.timeout(10):
            while self.syncs < times:
                self.updated.clear()
                await self.updated.wait()


@asynccontextmanager
async def following(cluster: Cluster, *, hold: float = 30.0) -> AsyncIterator[tuple[Noted, RawServer]]:
    async with raw_server(cluster.handle) as server:
        kube = Kube.connect(Configuration(host=f"http://127.0.0.1:{server.port}"))
        noted = Noted()
        task = asyncio.create_task(KubeSource(kube, "release", random=lambda: 0.0, hold=hold).run(noted))
        try:
            yield noted, server
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await kube.aclose()


@pytest.mark.parametrize("expired", [ERROR_410, 410])
async def test_an_expired_version_has_everything_listed_again(expired: bytes | int) -> None:
    cluster = Cluster(expired)
    cluster.items["one"] = item("one", "a", 1)
    async with following(cluster) as (noted, _):
        await noted.until_synced(2)
        assert noted.names == {"one"}
        assert noted.absences == []


@pytest.mark.parametrize(
    "step",
    [
        b"not json\n",
        b'{"type":"ADDED","object":{"meta',
        b'{"type":"ERROR","object":{"code":500,"message":"etcd is away"}}\n',
        b'{"type":"ADDED","object":[]}\n',
        500,
        403,
    ],
)
async def test_any_other_trouble_is_told_and_the_watch_goes_on_from_where_it_was(step: bytes | int) -> None:
    cluster = Cluster(step)
    async with following(cluster) as (noted, server):
        await eventually(lambda: len([r for r in server.seen if "watch=true" in r.path]) >= 2)
        assert len(noted.absences) == 1
        assert cluster.lists == 1
        assert "resourceVersion=100" in server.seen[-1].path


async def test_events_are_taken_in_and_bookmarks_move_the_version() -> None:
    added = {"type": "ADDED", "object": item("two", "b", 101)}
    gone: dict[str, Any] = {"type": "DELETED", "object": item("one", "a", 102)}
    gone["object"]["metadata"]["annotations"]["fairlead.dev/withdrawn"] = "true"
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "170"}}}
    cluster = Cluster(b"".join(json.dumps(event).encode() + b"\n" for event in (added, gone, bookmark)))
    cluster.items["one"] = item("one", "a", 1)
    async with following(cluster) as (noted, server):
        await eventually(lambda: len([r for r in server.seen if "watch=true" in r.path]) >= 2)
        assert list(noted.documents) == ["two"]
        assert "resourceVersion=170" in server.seen[-1].path


async def test_documents_deleted_while_nobody_watched_are_held_and_then_gone() -> None:
    cluster = Cluster()
    cluster.items["one"] = item("one", "a", 1)
    cluster.items["two"] = item("two", "a", 1)
    async with following(cluster, hold=0.2) as (noted, _):
        await noted.until_synced(1)
        assert set(noted.documents) == {"one", "two"}
        del cluster.items["one"]
        cluster.hold.set()
        await noted.until_synced(2)
        assert noted.names == {"one", "two"}
        await eventually(lambda: set(noted.documents) == {"two"})
