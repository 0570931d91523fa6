"""A write that was requested in time but would be executed too late is not executed, wherever it was delayed."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from typing import Any

import pytest
from kubernetes.aio.client import Configuration

from fairlead_api.documents.store import Blob
from fairlead_kube.client import Kube
from fairlead_kube.errors import Conflict, NotLeading
from fairlead_kube.informer import Informer
from fairlead_kube.resources import CONFIG_MAPS, Json, Scope
from fairlead_operator.kube.documents import KubeDocuments
from operatorworld import World, configuration_of
from toolservers import Reply, Request, raw_server
from waiting import eventually


def one_connection(url: str) -> Configuration:
    configuration = Configuration(host=url.removesuffix("/mcp"))
    configuration.connection_pool_maxsize = 1
    return configuration


async def test_a_write_that_waited_for_a_connection_is_not_sent_once_the_lease_is_lost() -> None:
    requested = asyncio.Event()
    go_on = asyncio.Event()
    left = 60.0

    async def handle(request: Request, reply: Reply) -> None:
        requested.set()
        await go_on.wait()
        reply.send(200, b'{"metadata": {"name": "a"}}')

    async with raw_server(handle) as server:
        kube = Kube(Kube.connect(one_connection(server.url)).api, allowance=lambda: left)
        read = asyncio.create_task(kube.get(CONFIG_MAPS, "ns", "a"))
        await requested.wait()
        writes = [
            asyncio.create_task(kube.apply(CONFIG_MAPS, "ns", {"metadata": {"name": "a"}})),
            asyncio.create_task(kube.create(CONFIG_MAPS, "ns", {})),
            asyncio.create_task(kube.replace(CONFIG_MAPS, "ns", "a", {})),
            asyncio.create_task(kube.merge(CONFIG_MAPS, "ns", "a", {})),
            asyncio.create_task(kube.delete(CONFIG_MAPS, "ns", "a")),
        ]
        session: Any = kube.api.rest_client.pool_manager
        await eventually(lambda: session.connector._waiters)
        left = 0.0
        go_on.set()
        await read
        ends = await asyncio.gather(*writes, return_exceptions=True)
        await kube.aclose()
        assert [type(end) for end in ends] == [NotLeading] * 5
        assert [request.verb for request in server.seen] == ["GET"]


async def test_a_write_tells_the_api_server_how_long_it_may_take_and_that_shrinks_with_the_lease() -> None:
    async def handle(request: Request, reply: Reply) -> None:
        reply.send(200, b'{"metadata": {"name": "a"}}')

    left = iter([60.0, 60.0, 1.5, 1.5])
    async with raw_server(handle) as server:
        kube = Kube(Kube.connect(one_connection(server.url)).api, allowance=lambda: next(left))
        await kube.create(CONFIG_MAPS, "ns", {})
        await kube.create(CONFIG_MAPS, "ns", {})
        await kube.aclose()
        told = [re.search(r"timeout=([\d.]+)s", request.path) for request in server.seen]
        assert [float(match[1]) for match in told if match] == [4.0, 1.5]


@pytest.mark.parametrize("bound", ["?timeout=1s", ""])
async def test_the_api_server_drops_a_write_whose_sender_is_stopped_half_way_for_longer(
    world: World, bound: str
) -> None:
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}).encode()
    path = f"/api/v1/namespaces/{world.namespace}/configmaps"
    connection = http.client.HTTPSConnection("127.0.0.1", world.plane._port, timeout=30, context=world.plane._tls)
    connection.putrequest("POST", path + bound)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body[:20])
    await asyncio.sleep(1.5)  # the API server's deadline has to pass, which it does not report
    connection.send(body[20:])
    answer = await asyncio.to_thread(connection.getresponse)
    connection.close()
    assert answer.status == (504 if bound else 201)
    assert (world.get(f"{path}/late") is None) == bool(bound)


async def test_a_late_write_of_a_document_does_not_replace_that_of_the_next_leader(world: World) -> None:
    kube = Kube.connect(await configuration_of(world.plane))
    late, heir = (KubeDocuments(kube, world.release, lambda name, labels: None) for _ in range(2))
    await late.publish([document("1")])
    informer = Informer(kube, Scope(CONFIG_MAPS, Json, world.release, "fairlead.dev/document"), heir.store)
    task = asyncio.create_task(informer.run())
    await asyncio.wait_for(informer.synced.wait(), 20)
    await heir.publish([document("2")])
    with pytest.raises(Conflict):
        await late.publish([document("3")])
    task.cancel()
    await asyncio.wait([task])
    await kube.aclose()
    stored = world.get(world.config_map_path("doc"))
    assert stored is not None
    assert stored["data"] == {"document": "2"}


def document(text: str) -> Blob:
    labels = {"fairlead.dev/document": "rules"}
    return Blob(name="doc", labels=labels, annotations={}, data={"document": text}, binary={})
