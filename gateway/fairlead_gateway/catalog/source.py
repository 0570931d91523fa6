"""Compiles the documents of a source into snapshots and activates them.

A source is a directory or the Kubernetes API. A document that cannot be read does not replace its last valid version.
Each store has one asyncio task that compiles and activates, so that snapshots are activated in order. The task compiles
in slices, between other work of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import Document, UnreadableDocument, decode
from fairlead_api.documents.pins import Pins
from fairlead_api.documents.rules import Rules
from fairlead_api.documents.store import Change
from fairlead_gateway.catalog.cache import SnapshotCache
from fairlead_gateway.catalog.model import EMPTY, Snapshot, build_in_slices
from fairlead_gateway.heap import Heap
from fairlead_gateway.yielding import in_turns
from fairlead_mcp.waiting import wait_until_set

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5.0
"""Seconds after which an incomplete activation is tried again, for example if a credential could not be read."""
MAX_COMPILE_SHARE: Final = 1 / 3
"""Maximum share of the time, from 0 to 1, that compilations and activations take while documents keep changing."""
LONGEST_PAUSE: Final = 2.0
"""Maximum pause after an activation, in seconds."""
MAX_REPORTED: Final = 20
"""Maximum number of unusable definitions of one server that the log names."""
CACHE_DELAY: Final = 1.0
"""Seconds after an activation until the cache is written, so that several changes share one write."""


class Inbox(Protocol):
    """Receiver of a source's changes. Its methods run in the event loop and never block."""

    def update(self, changes: Iterable[Change]) -> None:
        """Receive documents that are new, changed, deleted or broken."""
        ...

    def finish_sync(self, names: Collection[str]) -> None:
        """Take note that all documents were delivered. `names` are the names of all existing documents, including
        incomplete ones."""
        ...

    def note_unreachable(self, reason: str) -> None:
        """Take note that the source cannot be reached. `finish_sync` or `note_reachable` follows when it is reached."""
        ...

    def note_reachable(self) -> None:
        """Take note that the source has just been reached."""
        ...


class Source(Protocol):
    """Source of documents: a directory or the Kubernetes API."""

    async def run(self, inbox: Inbox) -> None:
        """Deliver changes until cancelled; reconnect after outages."""
        ...


async def _do_nothing() -> None: ...


Swap = Callable[[Snapshot], Awaitable[bool]]
"""Activates a snapshot; returns False if the activation has to be repeated later with the same snapshot."""


class InitialCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """Documents that a gateway serves in addition to the documents of its source, or before the source is reached."""

    own: Mapping[str, Document] = MappingProxyType({})
    """The gateway's own documents by name. They are part of every snapshot and are never cached."""
    rules: Rules = EMPTY.rules
    """Rules that apply until a document of rules is read."""
    cache: SnapshotCache | None = None
    """Cache of the last documents of the source."""


NO_INITIAL_CATALOG: Final = InitialCatalog()
"""Initial catalog without documents."""


class SnapshotStore:
    """Store of the documents and of the snapshot built from them. It is the `Inbox` of its source."""

    def __init__(
        self,
        source: Source,
        swap: Swap,
        *,
        initial: InitialCatalog = NO_INITIAL_CATALOG,
        environment: str = "cluster",
        on_replaced: Callable[[], Awaitable[None]] = _do_nothing,
        heap: Heap | None = None,
    ) -> None:
        """`swap` activates a snapshot. `environment` selects the latency measurements that apply.

        `on_replaced` is awaited after each activation, when the store does not refer to the previous snapshot any more.
        `heap` exempts the objects of a new snapshot from garbage collection.
        """
        self._source = source
        self._swap = swap
        self._cache = initial.cache
        self._own_documents = dict(initial.own)
        self._own_servers = {document.key for document in initial.own.values() if isinstance(document, Catalog)}
        self._environment = environment
        self._on_replaced = on_replaced
        self._heap = heap or Heap(owner=False)
        self._raw_documents: dict[str, bytes] = {}
        """Encoded documents of the source, by name."""
        self._documents: dict[str, Document] = {}
        """Decoded documents of the source, by name."""
        self._dirty = asyncio.Event()
        """Set when a snapshot has to be compiled."""
        self._last_swap_seconds = 0.0
        """Seconds that the last compilation and activation took."""
        self._save_task: asyncio.Task[None] | None = None
        """Task that will write the cache."""
        self._tasks: list[asyncio.Task[None]] = []
        self.broken: dict[str, str] = {}
        """Why documents cannot be read, by document name. The last valid version of such a document is served."""
        self.broken_total = 0
        """Number of times that a document could not be read."""
        self.snapshot = Snapshot(rules=initial.rules)
        """Snapshot that was activated last."""
        self.swaps = 0
        """Number of activations."""
        self.swap_seconds = 0.0
        """Total duration of all activations, including compilation."""
        self.stale = True
        """Whether the source cannot be reached, or has not been reached since the start."""
        self.seen_at: float | None = None
        """When the source was last reached, in seconds since the epoch; after a start, the time that is stored in the
        cache. None: never."""
        self.first_snapshot = asyncio.Event()
        """Set when a snapshot has been activated."""

    async def start(self) -> None:
        if self._cache is not None:
            cached_catalog = await asyncio.to_thread(self._cache.read)
            if cached_catalog is not None:
                self.seen_at = cached_catalog.saved_at
                self.update(Change(name, document) for name, document in cached_catalog.documents.items())
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._source.run(self), name="catalog source"),
            loop.create_task(self._compile(), name="catalog compiler"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._save_task is not None:
            self._save_task.cancel()
            await asyncio.gather(self._save_task, return_exceptions=True)
            await self._save()

    # Methods of `Inbox`

    def update(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if change.problem is not None:
                self._mark_broken(change.name, change.problem)
            elif change.document is None:
                self._forget(change.name)
            else:
                self._take(change.name, change.document)

    def finish_sync(self, names: Collection[str]) -> None:
        for name in [name for name in {**self._raw_documents, **self.broken} if name not in names]:
            self._forget(name)
        self.note_reachable()
        if not self.first_snapshot.is_set():
            log.info("The catalog is up to date: %d documents", len(names))
            self._dirty.set()

    def note_reachable(self) -> None:
        if self.stale and self.first_snapshot.is_set():
            log.info("The source of the catalog is reachable again; changes are applied")
        self.stale = False
        self.seen_at = time.time()

    def note_unreachable(self, reason: str) -> None:
        if not self.stale:
            log.warning("The source of the catalog cannot be reached (%s); the last catalog is served", reason)
        self.stale = True
        if self._own_documents and not self.first_snapshot.is_set():
            self._dirty.set()

    # Internals

    def _take(self, name: str, data: bytes) -> None:
        if self._raw_documents.get(name) == data:
            self.broken.pop(name, None)
            return
        try:
            document = decode(data)
        except UnreadableDocument as error:
            self._mark_broken(name, str(error))
            return
        if isinstance(document, Pins):
            return  # pins are documents of the operator, which a directory contains too
        if isinstance(document, Catalog) and document.key in self._own_servers:
            problem = (
                f"this gateway publishes its custom tools as server {document.key}: "
                "give the McpServer of that name another name"
            )
            self._mark_broken(name, problem)
            return
        self.broken.pop(name, None)
        self._raw_documents[name] = data
        self._documents[name] = document
        self._dirty.set()

    def _forget(self, name: str) -> None:
        self.broken.pop(name, None)
        self._raw_documents.pop(name, None)
        if self._documents.pop(name, None) is not None:
            self._dirty.set()

    def _mark_broken(self, name: str, problem: str) -> None:
        if self.broken.get(name) != problem:
            consequence = (
                "its last valid version is served" if name in self._documents else "no version of it is served"
            )
            log.warning("Document %s cannot be used, %s: %s", name, consequence, problem)
            self.broken_total += 1
        self.broken[name] = problem

    async def _compile(self) -> None:
        is_complete = True
        while True:
            await wait_until_set(self._dirty, None if is_complete else RETRY_SECONDS)
            has_changed = self._dirty.is_set()
            self._dirty.clear()
            try:
                is_complete = await (self._renew() if has_changed else self._swap(self.snapshot))
            except Exception:
                log.exception("A snapshot could not be activated; the previous snapshot stays active")
                is_complete = False
            await self._on_replaced()
            await asyncio.sleep(min(self._last_swap_seconds * (1 / MAX_COMPILE_SHARE - 1), LONGEST_PAUSE))

    async def _renew(self) -> bool:
        started_at = time.monotonic()
        previous, documents = self.snapshot, {**self._documents, **self._own_documents}
        with self._heap.pause_collection():
            snapshot = await in_turns(build_in_slices(documents, previous, self._environment))
            _report(snapshot, previous)
            is_complete = await self._swap(snapshot)
            self.snapshot = snapshot
        self.swaps += 1
        self._last_swap_seconds = time.monotonic() - started_at
        self.swap_seconds += self._last_swap_seconds
        self.first_snapshot.set()
        if self._cache is not None and self._save_task is None and not self.stale:
            self._save_task = asyncio.get_running_loop().create_task(self._save_later(), name="catalog cache")
        return is_complete

    async def _save_later(self) -> None:
        await asyncio.sleep(CACHE_DELAY)
        await self._save()
        self._save_task = None

    async def _save(self) -> None:
        if self._cache is not None and self.seen_at is not None:
            await asyncio.to_thread(self._cache.write, dict(self._raw_documents), self.seen_at)


def _report(snapshot: Snapshot, previous: Snapshot) -> None:
    """Log the problems and name collisions of a snapshot that the previous snapshot did not have."""
    for key, server in snapshot.servers.items():
        if previous.servers.get(key) is not server:
            for problem in server.problems[:MAX_REPORTED]:
                log.warning("%s", problem)
            if len(server.problems) > MAX_REPORTED:
                unreported = len(server.problems) - MAX_REPORTED
                log.warning("%d more definitions of server %s have such problems", unreported, key)
    known_collisions = set(previous.collisions)
    for collision in snapshot.collisions:
        if collision not in known_collisions:
            log.warning(
                "Two servers expose the name %s: server %s is listed with it, server %s is not; %s",
                collision.exposed_name,
                collision.holder,
                collision.dropped,
                collision.advice,
            )
