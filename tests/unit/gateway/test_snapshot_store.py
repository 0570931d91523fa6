"""SnapshotStore: a single change is applied at once, and changes in quick succession are applied together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

import pytest

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import catalog_name, encode
from fairlead_api.documents.store import Change
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.catalog.source import MAX_REPORTED, Inbox, SnapshotStore
from gatewayworld import catalog
from waiting import eventually


class Storm:
    """A source that reports `count` documents one after the other, as fast as the store accepts them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.over = asyncio.Event()

    async def run(self, inbox: Inbox) -> None:
        names: Collection[str] = []
        inbox.finish_sync(names)
        for number in range(self._count):
            document = catalog(f"s{number}", "http://127.0.0.1:1/mcp", ["a"])
            inbox.update([Change(catalog_name(document.key), encode(document))])
            await asyncio.sleep(0.001)
        self.over.set()
        await asyncio.Event().wait()


async def test_swaps_take_no_more_than_their_share_of_a_storm_of_changes() -> None:
    busy = 0.0

    async def swap(snapshot: Snapshot) -> bool:
        nonlocal busy
        started = time.monotonic()
        await asyncio.sleep(0.02)
        busy += time.monotonic() - started
        return True

    source = Storm(300)
    started = time.monotonic()
    snapshots = SnapshotStore(source, swap)
    await snapshots.start()
    await source.over.wait()
    share = busy / (time.monotonic() - started)
    await eventually(lambda: len(snapshots.snapshot.servers) == 300)
    await snapshots.stop()
    assert share < 0.5
    assert snapshots.swap_seconds > busy * 0.5


async def test_a_broken_document_that_went_while_the_source_was_away_is_broken_no_more() -> None:
    async def swap(snapshot: Snapshot) -> bool:
        return True

    snapshots = SnapshotStore(Storm(0), swap)
    snapshots.update([Change("junk", None, "it is not JSON")])
    assert snapshots.broken == {"junk": "it is not JSON"}
    snapshots.finish_sync(["other"])
    assert snapshots.broken == {}


class _OneDocument:
    """A source with one document, a server."""

    def __init__(self, document: Catalog) -> None:
        self._change = Change(catalog_name(document.key), encode(document))

    async def run(self, inbox: Inbox) -> None:
        inbox.update([self._change])
        inbox.finish_sync([self._change.name])


async def test_definitions_beyond_those_in_the_log_are_counted_as_what_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """These tools are left out for clients of older revisions alone, so that they are not left out altogether."""

    async def swap(snapshot: Snapshot) -> bool:
        return True

    schema = {"type": "object", "required": "a"}
    tools = [{"name": f"t{number}", "inputSchema": schema} for number in range(MAX_REPORTED + 2)]
    snapshots = SnapshotStore(_OneDocument(catalog("s", "http://127.0.0.1:1/mcp", tools)), swap)
    await snapshots.start()
    await eventually(lambda: snapshots.snapshot.servers)
    await snapshots.stop()
    *reported, rest = caplog.messages
    assert len(reported) == MAX_REPORTED
    assert all("is left out for clients of legacy revisions" in message for message in reported)
    assert rest == "2 more definitions of server default/s have such problems"
