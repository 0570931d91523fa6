"""Catalogs that are large, partially written, of another release or manipulated: readers always serve complete
catalogs."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from apiproxy import ApiProxy
from fairlead_api.documents.base import sha256
from fairlead_api.documents.codec import catalog_name
from fairlead_api.meta import ANNOTATION_SHA256, ServerKey
from fairlead_app.gateway import Gateway
from operatorprocess import start
from operatorworld import Json, World, running
from rawserver import RawServer, Reply, Request, raw_server
from togetherworld import names, serving, shows
from toolservers import Item, answer_modern, tool
from waiting import until_async

MERGE = "application/merge-patch+json"


def noise(version: str, count: int = 22) -> list[Item]:
    """Tools that compress to about 150 kB each, with the version in their names."""
    chance = random.Random(version)
    return [
        tool(f"{version}-{number:02}", description=base64.b64encode(chance.randbytes(150_000)).decode())
        for number in range(count)
    ]


@asynccontextmanager
async def server_of(tools: list[Item]) -> AsyncIterator[RawServer]:
    """A server that lists the current content of `tools`."""

    async def handle(request: Request, reply: Reply) -> None:
        answer_modern(request, reply, tools)

    async with raw_server(handle) as server:
        yield server


def config_maps(world: World, name: str = "demo") -> dict[str, Json]:
    """Head and parts of one catalog."""
    _, listing = world.request("GET", f"/api/v1/namespaces/{world.release}/configmaps")
    head = catalog_name(ServerKey(world.namespace, name))
    return {item["metadata"]["name"]: item for item in listing["items"] if item["metadata"]["name"].startswith(head)}


def is_part(number: int) -> Callable[[str, str], bool]:
    """Whether a request writes the given part of a catalog."""
    return lambda method, path: (
        method == "PATCH" and bool(re.search(rf"/configmaps/[^/]*-[0-9a-f]{{10}}-{number}$", path))
    )


@asynccontextmanager
async def operator_process(world: World, kubeconfig: Path) -> AsyncIterator[subprocess.Popen[str]]:
    """Run an operator process, which is killed by SIGKILL at the end."""
    process = start(
        FAIRLEAD_KUBECONFIG=str(kubeconfig),
        FAIRLEAD_NAMESPACE=world.release,
        FAIRLEAD_METRICS_PORT="0",
        FAIRLEAD_LEASE_SECONDS="8",
        FAIRLEAD_INTERVAL_FLOOR="0.5",
        FAIRLEAD_SWEEP_SECONDS="2",
    )
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)


@pytest.mark.timeout(240)
async def test_an_operator_killed_between_parts_two_and_three_of_five_leaves_every_reader_on_the_old_whole(
    world: World, tmp_path: Path
) -> None:
    tools = noise("one")
    old, new = ([f"demo__{version}-{number:02}" for number in range(22)] for version in ("one", "two"))
    async with server_of(tools) as server, ApiProxy(world.plane, tmp_path) as proxy, serving(world) as gateway:
        world.create("demo", {"url": server.url})
        async with operator_process(world, proxy.kubeconfig) as process:
            await until_async("the first whole", shows(gateway, *old), seconds=60)
            before = await asyncio.to_thread(config_maps, world)
            assert len(before) == 6, "five parts and their head"
            tools[:] = noise("two")
            proxy.hold(is_part(2))
            world.patch_server("demo", {"spec": {"url": server.url + "/"}})
            await asyncio.wait_for(proxy.held.wait(), 60)
            process.kill()
            await asyncio.to_thread(process.wait)
        between = await asyncio.to_thread(config_maps, world)
        assert before.items() <= between.items()
        assert len(between) == len(before) + 2, "two of the new parts were written"
        assert await names(gateway) == old
        async with serving(world) as fresh:
            await until_async("the old whole, read again", shows(fresh, *old), seconds=30)
            proxy.hold(None)
            async with operator_process(world, proxy.kubeconfig):
                for reader in (gateway, fresh):
                    await until_async("the new whole", shows(reader, *new), seconds=60)
                await world.until("no part too many", lambda: len(config_maps(world)) == 6, seconds=30)
        assert not config_maps(world).keys() & before.keys() - {catalog_name(ServerKey(world.namespace, "demo"))}


async def test_parts_whose_head_was_never_written_go_with_the_next_sweep(world: World) -> None:
    part = f"{catalog_name(ServerKey(world.namespace, 'gone'))}-0123456789-0"
    labels = {
        "app.kubernetes.io/managed-by": "fairlead",
        "fairlead.dev/document": "catalog",
        "fairlead.dev/part": "true",
    }
    body = {"metadata": {"name": part, "labels": labels}, "binaryData": {"part": "AAAA"}}
    status, answer = world.request("POST", f"/api/v1/namespaces/{world.release}/configmaps", body)
    assert status == 201, answer
    async with running(world, lease_seconds=30.0):
        await world.until("deleted", lambda: world.get(world.config_map_path(part)) is None, seconds=20)


async def test_a_catalog_that_compresses_is_one_config_map_and_served_whole(world: World) -> None:
    tools = [tool(f"tool-{number:02}", description="text " * 20_000) for number in range(20)]
    async with server_of(tools) as server, running(world, lease_seconds=30.0), serving(world) as gateway:
        world.create("demo", {"url": server.url})
        await until_async("listed", shows(gateway, *(f"demo__tool-{n:02}" for n in range(20))), seconds=30)
        (head,) = config_maps(world).values()
        assert list(head["binaryData"]) == ["document.json.gz"]
        assert "data" not in head


@pytest.mark.timeout(180)
async def test_documents_deleted_or_edited_by_hand_are_put_right(world: World) -> None:
    tools = noise("one", 8)
    async with server_of(tools) as server, running(world, lease_seconds=30.0), serving(world) as gateway:
        world.create("demo", {"url": server.url})
        expected = [f"demo__one-{number:02}" for number in range(8)]
        await until_async("served", shows(gateway, *expected), seconds=30)
        right = {name: _content(item) for name, item in config_maps(world).items()}
        head = catalog_name(ServerKey(world.namespace, "demo"))
        part = next(name for name in right if name != head)
        for name in (head, part):
            for what, method, body in _manipulations():
                status, answer = world.request(method, world.config_map_path(name), body, content_type=MERGE)
                assert status == 200, answer
                await world.until(f"{name} put right after {what}", lambda: _contents(world) == right)
                await until_async("served", shows(gateway, *expected))


def _manipulations() -> list[tuple[str, str, Json | None]]:
    return [
        ("its deletion", "DELETE", None),
        ("other content", "PATCH", {"data": {"parts.json": "{}"}, "binaryData": {"part": "AAAA"}}),
        ("content of another sort", "PATCH", {"data": {"document.json": "{}"}}),
        ("a label that is gone", "PATCH", {"metadata": {"labels": {"fairlead.dev/document": None}}}),
        ("annotations that are gone", "PATCH", {"metadata": {"annotations": None}}),
    ]


def _content(item: Json) -> Any:
    metadata = item["metadata"]
    ours = dict(metadata["labels"])
    return ours, metadata.get("annotations"), item.get("data"), item.get("binaryData")


def _contents(world: World) -> dict[str, Any]:
    return {name: _content(item) for name, item in config_maps(world).items() if "labels" in item["metadata"]}


def edit_patch(item: Json, **members: Any) -> Json:
    """Patch that changes members of an uncompressed document and its hash, as another release would write it."""
    document = json.loads(item["data"]["document.json"]) | members
    text = json.dumps(document)
    return {
        "metadata": {"annotations": {ANNOTATION_SHA256: sha256(text.encode())}},
        "data": {"document.json": text},
    }


async def test_a_newer_format_is_refused_with_a_line_and_a_metric_and_unknown_members_are_ignored(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with server_of([tool("add")]) as server:
        async with running(world, lease_seconds=30.0):
            world.create("demo", {"url": server.url})
            await world.until("published", lambda: config_maps(world), seconds=20)
        ((name, item),) = config_maps(world).items()
        async with serving(world) as gateway:
            await until_async("served", shows(gateway, "demo__add"))
            _patch(world, name, edit_patch(item, version=2, tools="of another shape"))
            await until_async("refused", lambda: _is_broken(gateway))
            assert await names(gateway) == ["demo__add"]
            assert f"Document {name} cannot be used, its last valid version is served" in caplog.text
            assert "catalog has format 2, but this release reads up to 1: upgrade the release" in caplog.text
            _patch(world, name, edit_patch(item, prefix="renamed", novelty={"a": 1}))
            await until_async("read", shows(gateway, "renamed__add"))
            assert not gateway.snapshots.broken
        async with running(world, lease_seconds=30.0), serving(world) as gateway:
            await until_async("written again", shows(gateway, "demo__add"))


async def _is_broken(gateway: Gateway) -> bool:
    return len(gateway.snapshots.broken) == 1 and gateway.snapshots.broken_total == 1


def _patch(world: World, name: str, patch: Json) -> None:
    status, answer = world.request("PATCH", world.config_map_path(name), patch, content_type=MERGE)
    assert status == 200, answer
