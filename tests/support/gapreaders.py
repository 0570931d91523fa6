"""Programs that read peers' answers, with a timed event loop: `python -m gapreaders READER ADDRESS`.

For each line on standard input, the process sends one request to its peer with the product's code, and writes the
outcome. `gap_recorder` measures the event loop. `gappeers` has the peers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import uvloop
from kubernetes.aio.client import Configuration

import gap_recorder
from fairlead_formats.tokens.models import LiveSource
from fairlead_gateway.catalog.kube import KubeSource
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.catalog.source import SnapshotStore
from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.core.search_counts import SearchCounts
from fairlead_gateway.limits.rate import Rate, Sharing
from fairlead_gateway.limits.redis_rates import Settler
from fairlead_gateway.result_stores.redis_store import RedisStore
from fairlead_gateway.result_stores.store import Bounds, ContextUnavailable
from fairlead_kube.client import Kube
from fairlead_kube.informer import Informer, Store
from fairlead_kube.resources import MCP_SERVERS, PODS, SECRETS, TOOL_POLICIES, Json, Kind, Scope
from fairlead_mcp.errors import McpError
from fairlead_offers.models.live_models import NoModels, fetch_windows
from fairlead_offers.results.chat_compressor import ChatCompressor
from fairlead_offers.search.embeddings_api import EmbeddingsApi
from fairlead_offers.workers.heavy_work import WorkerThread
from fairlead_search.embedding import EmbeddingConfig
from fairlead_search.result_compression import CompressionFailed, CompressorConfig
from waiting import eventually

Ask = Callable[[], Awaitable[str]]
Reader = Callable[[str], contextlib.AbstractAsyncContextManager[Ask]]
SECONDS = 20.0
WATCHED_SECONDS = 0.3
"""Seconds to wait for the first event of the watch after a list."""


@contextlib.asynccontextmanager
async def _embeddings(address: str) -> AsyncIterator[Ask]:
    """The vector of a query."""
    api = EmbeddingsApi(EmbeddingConfig(url=f"{address}/v1", model="m"), seconds=SECONDS)

    async def ask() -> str:
        try:
            return f"{len(await api.vectors(['x']))} vectors"
        except McpError as error:
            return str(error)

    yield ask


@contextlib.asynccontextmanager
async def _compressor(address: str) -> AsyncIterator[Ask]:
    """Passages of results that a model shortens."""
    worker = WorkerThread()
    config = CompressorConfig(url=f"{address}/v1", model="m", seconds=SECONDS)

    async def ask() -> str:
        try:
            made = await ChatCompressor(config, SearchCounts(), worker).compress("q", {"a": "b " * 50_000}, 500)
        except CompressionFailed as error:
            return str(error)
        return f"{len(made)} texts"

    yield ask


@contextlib.asynccontextmanager
async def _models(address: str) -> AsyncIterator[Ask]:
    """The list of a model server."""
    async with aiohttp.ClientSession() as session:

        async def ask() -> str:
            try:
                return f"{len(await fetch_windows(session, LiveSource(url=f'{address}/v1/models')))} models"
            except NoModels as error:
                return str(error)

        yield ask


@contextlib.asynccontextmanager
async def _results(address: str) -> AsyncIterator[Ask]:
    """Kept results of a session in Redis."""
    store = RedisStore(RedisSettings(url=address, timeout=SECONDS), Bounds(60, 4 << 20, 64 << 20))

    async def ask() -> str:
        try:
            return f"{len(await store.entries('account', 'session'))} entries"
        except ContextUnavailable as error:
            return str(error)

    yield ask
    await store.aclose()


@contextlib.asynccontextmanager
async def _rates(address: str) -> AsyncIterator[Ask]:
    """Rates that replicas share over Redis."""

    async def ask() -> str:
        sharing = Sharing()
        sharing.dirty = [Rate(1, 1, f"rate {number}", sharing) for number in range(2_000)]
        settler = Settler(RedisSettings(url=address, settle_seconds=1, timeout=SECONDS), sharing)
        await settler.settle()
        await settler.stop()
        return f"{settler.settlements} settlements, {settler.failures} failures"

    yield ask


def _cluster(address: str) -> Kube:
    configuration = Configuration()
    configuration.host = address
    return Kube.connect(configuration)


@contextlib.asynccontextmanager
async def _documents(address: str) -> AsyncIterator[Ask]:
    """Documents, which a gateway reads by a list and by a watch event."""
    kube = _cluster(address)

    async def ask() -> str:
        store = SnapshotStore(KubeSource(kube, "release"), _serve)
        await store.start()
        await eventually(lambda: bool(store.broken_total) or (not store.stale and store.swaps > 0), seconds=SECONDS)
        await asyncio.sleep(WATCHED_SECONDS)
        await store.stop()
        return f"{len(store.snapshot.servers)} servers, {store.broken_total} broken"

    yield ask
    await kube.aclose()


async def _serve(snapshot: Snapshot) -> bool:
    return True


def _objects(kind: Kind, stored: Callable[[], Store[Json]]) -> Reader:
    @contextlib.asynccontextmanager
    async def reader(address: str) -> AsyncIterator[Ask]:
        kube = _cluster(address)

        async def ask() -> str:
            ended = asyncio.Event()
            events: list[str] = []

            def note(event: str) -> None:
                events.append(event)
                if len(events) > 2 or event != "contact":
                    ended.set()

            informer = Informer(
                kube,
                Scope(kind, Json),
                stored(),
                on_contact=lambda: note("contact"),
                on_failure=lambda error: note(str(error)),
            )
            task = asyncio.create_task(informer.run())
            await ended.wait()
            task.cancel()
            await asyncio.wait([task])
            return f"{len(events)} events, {events[-1]}"

        yield ask
        await kube.aclose()

    return reader


def _servers() -> Store[Json]:
    from fairlead_operator.kube.declared_resources import DeclaredServers

    return DeclaredServers(lambda key, before, after: None)


def _policies() -> Store[Json]:
    from fairlead_api.v1alpha1.toolpolicy import ToolPolicy
    from fairlead_operator.kube.declared_resources import DeclaredResources

    return DeclaredResources(TOOL_POLICIES, ToolPolicy, lambda key, before, after: None)


def _secrets() -> Store[Json]:
    from fairlead_operator.kube.credentials import LabelledSecrets

    return LabelledSecrets([""], lambda key, before, after: None).stores[None]


def _pods() -> Store[Json]:
    from fairlead_operator.kube.pods import Pods

    return Pods(lambda key: None).store


READERS: dict[str, Reader] = {
    "embeddings": _embeddings,
    "compressor": _compressor,
    "models": _models,
    "results": _results,
    "rates": _rates,
    "documents": _documents,
    "servers": _objects(MCP_SERVERS, _servers),
    "policies": _objects(TOOL_POLICIES, _policies),
    "secrets": _objects(SECRETS, _secrets),
    "pods": _objects(PODS, _pods),
}


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _main(name: str, address: str) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with READERS[name](address) as ask:
        _write("ready")
        while await reader.readline():
            ended = await ask()
            await asyncio.sleep(10 * gap_recorder.SECONDS)  # the next turn of the loop records the gap
            _write(ended)


if __name__ == "__main__":
    gap_recorder.install(Path(os.environ[gap_recorder.FILE]))
    uvloop.run(_main(*sys.argv[1:]))
