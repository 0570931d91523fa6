"""Informers and stores with a real API server, by watches and by lists from the API server's cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controlplane import ControlPlane
from fairlead_kube.client import Kube
from fairlead_kube.connection import load_configuration
from fairlead_kube.informer import Informer
from fairlead_kube.resources import CONFIG_MAPS, Json, Scope
from fairlead_kube.store import ObjectStore
from waiting import eventually


@asynccontextmanager
async def following(kube: Kube, namespace: str, **options: Any) -> AsyncIterator[ObjectStore[str]]:
    store = ObjectStore[str](lambda item: item["data"]["n"])
    informer = Informer(kube, Scope(CONFIG_MAPS, Json, namespace, "of=this-test"), store, **options)
    task = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(informer.synced.wait(), 20)
        yield store
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("options", [{}, {"watches": False, "resync": 0.1}], ids=["watch", "lists from the cache"])
async def test_a_store_becomes_what_exists(control_plane: ControlPlane, namespace: str, options: Any) -> None:
    kube = Kube.connect(await load_configuration(control_plane.kubeconfig))

    async def put(name: str, number: int, **labels: str) -> Json:
        metadata = {"name": name, "labels": labels or {"of": "this-test"}}
        return await kube.apply(CONFIG_MAPS, namespace, {"metadata": metadata, "data": {"n": str(number)}})

    try:
        for number in range(3):
            await put(f"map-{number}", number)
        async with following(kube, namespace, **options) as store:
            assert sorted(store.values()) == ["0", "1", "2"]
            late = await put("map-0", 10)
            await put("map-1", 11, of="another")
            await kube.delete(CONFIG_MAPS, namespace, "map-2")
            await put("map-3", 13)
            await eventually(lambda: sorted(store.values()) == ["10", "13"])
            await kube.delete(CONFIG_MAPS, namespace, "map-0")
            await eventually(lambda: store.values() == ["13"])
            store.update(late)
            assert store.values() == ["13"], "the answer to a write that arrives after the deletion"
    finally:
        await kube.aclose()
