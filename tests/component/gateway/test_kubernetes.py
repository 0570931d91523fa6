"""Documents and credentials from a real API server, through its outages and refusals."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane, PlaneFactory
from fairlead_api.documents.base import sha256
from fairlead_api.documents.catalog import Catalog, CredentialRef
from fairlead_api.documents.codec import RULES_NAME, catalog_name, encode
from fairlead_api.documents.rules import Rules
from fairlead_api.documents.store import Blob, pack
from fairlead_api.meta import ANNOTATION_WITHDRAWN
from fairlead_app.gateway import Gateway
from gatewayworld import ask, calling, catalog, wait_for_snapshots
from togetherworld import gateway_on, names
from toolservers import modern_server
from waiting import LONGEST, eventually, until_async


def config_map(blob: Blob) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": blob.name, "labels": blob.labels, "annotations": blob.annotations},
        "data": blob.data,
        "binaryData": {key: base64.b64encode(value).decode() for key, value in blob.binary.items()},
    }


def store(plane: ControlPlane, namespace: str, blob: Blob) -> None:
    """Create or replace one ConfigMap."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    status, answer = plane.request("POST", path, config_map(blob))
    if status == 409:
        status, answer = plane.request("PUT", f"{path}/{blob.name}", config_map(blob))
    assert status in (200, 201), answer


def publish(plane: ControlPlane, namespace: str, document: Catalog) -> None:
    for blob in pack(catalog_name(document.key), "catalog", encode(document)):
        store(plane, namespace, blob)


def withdraw(plane: ControlPlane, namespace: str, document: Catalog) -> None:
    """Delete a ConfigMap as the operator does: mark it first."""
    path = f"/api/v1/namespaces/{namespace}/configmaps/{catalog_name(document.key)}"
    _, marked = plane.request("GET", path)
    marked["metadata"]["annotations"][ANNOTATION_WITHDRAWN] = "true"
    plane.request("PUT", path, marked)
    plane.request("DELETE", path)


def delete(plane: ControlPlane, namespace: str, name: str) -> None:
    """Delete a ConfigMap as a user does."""
    plane.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{name}")


async def lists(gateway: Gateway, *expected: str, seconds: float = LONGEST) -> None:
    """Wait until the merged endpoint shows exactly these tools."""

    async def is_shown() -> bool:
        return await names(gateway) == list(expected)

    try:
        await until_async("the tools", is_shown, seconds=seconds)
    except AssertionError as error:
        raise AssertionError(f"it shows {await names(gateway)}, not {list(expected)}") from error


NOWHERE = "http://127.0.0.1:1/mcp"


async def test_documents_are_taken_in_as_they_come_change_and_go(control_plane: ControlPlane, namespace: str) -> None:
    document = catalog("one", NOWHERE, ["a"])
    two = catalog("two", NOWHERE, ["b"])
    await asyncio.to_thread(publish, control_plane, namespace, document)
    async with gateway_on(control_plane, namespace) as gateway:
        await lists(gateway, "one__a")
        await asyncio.to_thread(publish, control_plane, namespace, two)
        await lists(gateway, "one__a", "two__b")
        await asyncio.to_thread(publish, control_plane, namespace, catalog("one", NOWHERE, ["c"]))
        await lists(gateway, "one__c", "two__b")
        await asyncio.to_thread(withdraw, control_plane, namespace, document)
        await lists(gateway, "two__b")


async def test_a_document_that_somebody_deleted_is_served_until_it_is_back(
    control_plane: ControlPlane, namespace: str
) -> None:
    document = catalog("one", NOWHERE, ["a"])
    two = catalog("two", NOWHERE, ["b"])
    await asyncio.to_thread(publish, control_plane, namespace, document)
    async with gateway_on(control_plane, namespace) as gateway:
        await lists(gateway, "one__a")
        await asyncio.to_thread(delete, control_plane, namespace, catalog_name(document.key))
        # the gateway sees this document after the other one
        await asyncio.to_thread(publish, control_plane, namespace, two)
        await lists(gateway, "one__a", "two__b")
        await asyncio.to_thread(publish, control_plane, namespace, catalog("one", NOWHERE, ["c"]))
        await lists(gateway, "one__c", "two__b")


async def test_a_document_that_does_not_come_back_goes_and_rules_stay(
    control_plane: ControlPlane, namespace: str
) -> None:
    document = catalog("one", NOWHERE, ["a"])
    rules = Rules(default_action="Deny")
    await asyncio.to_thread(publish, control_plane, namespace, document)
    for blob in pack(RULES_NAME, "rules", encode(rules)):
        await asyncio.to_thread(store, control_plane, namespace, blob)
    async with gateway_on(control_plane, namespace, hold=0.1) as gateway:
        await eventually(lambda: len(gateway.snapshot.servers) == 1 and gateway.snapshot.rules == rules)
        for name in (RULES_NAME, catalog_name(document.key)):
            await asyncio.to_thread(delete, control_plane, namespace, name)
        await eventually(lambda: not gateway.snapshot.servers)
        assert gateway.snapshot.rules == rules


@pytest.mark.timing
async def test_a_change_is_served_within_a_second(control_plane: ControlPlane, namespace: str) -> None:
    async with gateway_on(control_plane, namespace) as gateway:
        await wait_for_snapshots(gateway, 1)
        took: list[float] = []
        for name in ("a", "b", "c", "d"):
            began = time.monotonic()
            await asyncio.to_thread(publish, control_plane, namespace, catalog("one", NOWHERE, [name]))
            await lists(gateway, f"one__{name}")
            took.append(time.monotonic() - began)
        assert min(took) < 1.0, "a busy machine may delay one change, hardly all"


async def test_other_config_maps_are_none_of_its_business(control_plane: ControlPlane, namespace: str) -> None:
    (blob,) = pack("stray", "catalog", encode(catalog("stray", NOWHERE, ["a"])))
    unlabelled = Blob(blob.name, {}, blob.annotations, blob.data)
    await asyncio.to_thread(store, control_plane, namespace, unlabelled)
    async with gateway_on(control_plane, namespace) as gateway:
        await wait_for_snapshots(gateway, 1)
        assert await names(gateway) == []


async def test_a_document_in_parts_is_served_whole_and_swapped_whole(
    control_plane: ControlPlane, namespace: str
) -> None:
    def large(mark: str) -> Catalog:
        noise = [sha256(f"{mark}{n}".encode()) for n in range(34_000)]
        return catalog("big", NOWHERE, [{"name": mark, "inputSchema": {"type": "object"}, "x": noise}])

    blobs = pack("big", "catalog", encode(large("one")))
    assert len(blobs) > 2
    for blob in blobs:
        await asyncio.to_thread(store, control_plane, namespace, blob)
    async with gateway_on(control_plane, namespace) as gateway:
        await lists(gateway, "big__one")
        *parts, head = pack("big", "catalog", encode(large("two")))
        for part in parts:
            await asyncio.to_thread(store, control_plane, namespace, part)
        assert await names(gateway) == ["big__one"]
        await asyncio.to_thread(store, control_plane, namespace, head)
        await lists(gateway, "big__two")


async def test_a_document_that_somebody_edited_is_not_believed(control_plane: ControlPlane, namespace: str) -> None:
    document = catalog("one", NOWHERE, ["a"])
    await asyncio.to_thread(publish, control_plane, namespace, document)
    async with gateway_on(control_plane, namespace) as gateway:
        await lists(gateway, "one__a")
        (blob,) = pack(catalog_name(document.key), "catalog", encode(document))
        forged = Blob(
            blob.name,
            blob.labels,
            blob.annotations,
            {"document.json": encode(catalog("one", "http://evil.example/mcp", ["a"])).decode()},
        )
        await asyncio.to_thread(store, control_plane, namespace, forged)
        await eventually(lambda: gateway.snapshots.broken)
        (server,) = gateway.snapshot.servers.values()
        assert server.catalog.endpoint == document.endpoint


async def test_credentials_are_read_from_the_secret_that_the_catalog_names(
    control_plane: ControlPlane, namespace: str
) -> None:
    value = json.dumps({"headers": {"X-Key": "hush"}}).encode()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "fairlead-credentials-3"},
        "data": {"one": base64.b64encode(value).decode()},
    }
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
    async with modern_server() as server:
        ref = CredentialRef(secret="fairlead-credentials-3", key="one", hash="1")
        missing = CredentialRef(secret="fairlead-credentials-3", key="two", hash="1")
        for document in (
            catalog("one", server.url, ["a"], credential=ref),
            catalog("two", server.url, ["a"], credential=missing),
        ):
            await asyncio.to_thread(publish, control_plane, namespace, document)
        async with gateway_on(control_plane, namespace) as gateway:
            await lists(gateway, "one__a", "two__a")
            assert (await ask(gateway, calling("one__a"))).message["result"]["isError"] is False
            assert (await ask(gateway, calling("two__a"))).refusal == "CONNECTION_LOST"
        assert [request.headers["x-key"] for request in server.seen] == ["hush"]


async def test_a_start_without_the_api_server_takes_credentials_from_their_volume(
    private_plane: PlaneFactory, tmp_path: Path
) -> None:
    plane = private_plane(crds=False)
    namespace = plane.create_namespace("release")
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "one").write_text(json.dumps({"headers": {"X-Key": "hush"}}))
    async with modern_server() as server:
        ref = CredentialRef(secret="fairlead-credentials-3", key="one", hash="1")
        document = catalog("one", server.url, ["a"], credential=ref)
        publish(plane, namespace, document)
        async with gateway_on(plane, namespace, cache_dir=tmp_path / "cache") as gateway:
            await lists(gateway, "one__a")
            assert (await ask(gateway, calling("one__a"))).refusal == "CONNECTION_LOST"
        await asyncio.to_thread(plane.kill_apiserver)
        async with gateway_on(plane, namespace, cache_dir=tmp_path / "cache", credentials=mounted) as restarted:
            await lists(restarted, "one__a")
            assert (await ask(restarted, calling("one__a"))).message["result"]["isError"] is False
        assert [request.headers["x-key"] for request in server.seen] == ["hush"]


async def test_an_api_server_that_dies_and_returns_costs_nobody_a_call(
    private_plane: PlaneFactory, tmp_path: Path
) -> None:
    plane = private_plane(crds=False)
    namespace = plane.create_namespace("release")
    async with modern_server() as server:
        document = catalog("one", server.url, ["a"])
        publish(plane, namespace, document)
        async with gateway_on(plane, namespace, cache_dir=tmp_path / "cache") as gateway:
            await lists(gateway, "one__a")
            await asyncio.to_thread(plane.kill_apiserver)
            await eventually(lambda: gateway.snapshots.stale)
            assert (await ask(gateway, calling("one__a"))).message["result"]["isError"] is False
            assert gateway.readiness().ready
        async with gateway_on(plane, namespace, cache_dir=tmp_path / "cache") as restarted:
            await lists(restarted, "one__a")
            assert restarted.snapshots.stale
            assert (await ask(restarted, calling("one__a"))).message["result"]["isError"] is False
            await asyncio.to_thread(plane.start_apiserver)
            await asyncio.to_thread(withdraw, plane, namespace, document)
            await asyncio.to_thread(publish, plane, namespace, catalog("two", server.url, ["b"]))
            await lists(restarted, "two__b")
            assert not restarted.snapshots.stale
