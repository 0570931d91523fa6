"""Errors of an API server are reported with the cause and the remedy, and large answers are limited."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes.aio.client import Configuration

from controlplane import ControlPlane
from fairlead_kube import errors
from fairlead_kube.client import EXCESS_MEMBER, OBJECT_VALUES, Kube, bound_item
from fairlead_kube.connection import load_configuration
from fairlead_kube.informer import Informer
from fairlead_kube.objects import ConfigMap, Secret
from fairlead_kube.resources import CONFIG_MAPS, MCP_SERVERS, SECRETS, TOKEN_REVIEWS, Json, Scope
from fairlead_kube.store import ObjectStore
from rawserver import Reply, Request, raw_server

SCOPE = Scope(CONFIG_MAPS, ConfigMap, "team")


@asynccontextmanager
async def client_of_server(answer: Callable[[Request, Reply], None], **options: Any) -> AsyncIterator[Kube]:
    """A client of an API server whose answers `answer` writes."""

    async def handle(request: Request, reply: Reply) -> None:
        answer(request, reply)
        await reply.flush()

    async with raw_server(handle) as server:
        configuration = Configuration(host=f"http://127.0.0.1:{server.port}")
        kube = Kube(Kube.connect(configuration).api, **options)
        try:
            yield kube
        finally:
            await kube.aclose()


def refuse_with(status: int) -> Callable[[Request, Reply], None]:
    body = {"kind": "Status", "message": "words", "reason": "Because"}
    return lambda request, reply: reply.send(status, json.dumps(body).encode())


async def test_every_verb_says_what_it_could_not_do() -> None:
    async with client_of_server(refuse_with(403)) as kube:
        refused = await asyncio.gather(
            kube.get(SECRETS, "team", "a"),
            kube.labels(SECRETS, "team", "a"),
            kube.list(SCOPE),
            kube.list(Scope(CONFIG_MAPS, Json)),
            anext(kube.watch(SCOPE, "1")),
            kube.create(SECRETS, "team", {}),
            kube.replace(SECRETS, "team", "a", {}),
            kube.apply(MCP_SERVERS, "team", {"metadata": {"name": "a"}}, subresource="status"),
            kube.delete(SECRETS, "team", "a"),
            kube.review(TOKEN_REVIEWS, {"token": "planted"}, Json),
            kube.get_path("/version"),
            return_exceptions=True,
        )
        assert [str(error).removesuffix(" (403): words") for error in refused] == [
            "cannot get secrets a in namespace team",
            "cannot get secrets a in namespace team",
            "cannot list configmaps in namespace team",
            "cannot list configmaps",
            "cannot watch configmaps in namespace team",
            "cannot create secrets in namespace team",
            "cannot update secrets a in namespace team",
            "cannot patch mcpservers/status a in namespace team",
            "cannot delete secrets a in namespace team",
            "cannot create tokenreviews",
            "cannot get /version",
        ]
        assert {type(error) for error in refused} == {errors.Forbidden}


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "does not accept the credentials: renew the kubeconfig"),
        (403, "rejects the request (cannot list configmaps in namespace team (403): words). Grant it."),
        (422, "rejects the request (cannot list configmaps in namespace team (422): words)"),
        (
            503,
            "is not ready (cannot list configmaps in namespace team (503): words): try again later",
        ),
    ],
)
async def test_a_sentence_names_the_api_server_and_says_what_to_do(status: int, says: str) -> None:
    async with client_of_server(refuse_with(status)) as kube:
        with pytest.raises(errors.ApiError) as caught:
            await kube.list(SCOPE)
        assert caught.value.sentence(kube.host, "Grant it.") == f"the API server at {kube.host} {says}"


async def test_a_missing_object_is_named_to_be_checked() -> None:
    async with client_of_server(refuse_with(403)) as kube:
        host = kube.host
    kube = Kube.connect(Configuration(host=host))
    with pytest.raises(errors.Unavailable) as caught:
        await kube.list(SCOPE)
    await kube.aclose()
    sentence = caught.value.sentence(host)
    assert sentence.startswith(
        f"the API server at {host} cannot be reached (cannot list configmaps in namespace team: "
    )
    assert sentence.endswith("): check that it runs")


async def test_an_answer_has_a_bound_whatever_its_length_says() -> None:
    def endless(request: Request, reply: Reply) -> None:
        reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(40):
            reply.chunk(b" " * 1000)

    async with client_of_server(endless, answer_bytes=20_000) as kube:
        with pytest.raises(errors.Unavailable, match="team: the response exceeds 20000 bytes"):
            await kube.list(SCOPE)


def of_values(number: int, values: int, **more: Any) -> Json:
    metadata = {"namespace": "team", "name": f"n{number}", "resourceVersion": str(number + 1), "labels": {"a": "b"}}
    return {"metadata": {**metadata, "managedFields": [{}]}, "spec": [1] * values, **more}


async def test_an_object_with_more_values_than_are_read_is_told_by_its_name_and_status() -> None:
    large = of_values(0, OBJECT_VALUES, status={"ready": True})

    def answer(request: Request, reply: Reply) -> None:
        if "watch=true" in request.path:
            reply.send(200, json.dumps({"type": "MODIFIED", "object": large}).encode())
        else:
            listed = {"metadata": {"resourceVersion": "3"}, "items": [large, of_values(1, 5)]}
            reply.send(200, json.dumps(listed).encode())

    head = {"namespace": "team", "name": "n0", "resourceVersion": "1", "labels": {"a": "b"}}
    shown = {"metadata": head, "status": {"ready": True}, EXCESS_MEMBER: "more than 50,000 values"}
    async with client_of_server(answer) as kube:
        scope = Scope(MCP_SERVERS, Json, "team")
        objects, _ = await kube.list(scope)
        assert [*objects] == [shown, of_values(1, 5)]
        assert [event.object async for event in kube.watch(scope, "3")] == [shown]
    assert bound_item(large) == shown
    assert bound_item(of_values(1, 5)) == of_values(1, 5)


@pytest.mark.parametrize("cached", [False, True])
async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones(cached: bool) -> None:
    limits: list[int] = []

    def answer(request: Request, reply: Reply) -> None:
        query = parse_qs(urlsplit(request.path).query)
        whole = "resourceVersion" in query
        start, limit = int(query.get("continue", ["0"])[0]), 40 if whole else int(query["limit"][0])
        limits.append(limit)
        items = [of_values(number, 100) for number in range(40)[start : start + limit]]
        more = str(start + limit) if start + limit < 40 else ""
        reply.send(200, json.dumps({"metadata": {"resourceVersion": "9", "continue": more}, "items": items}).encode())

    async with client_of_server(answer, answer_bytes=5_000) as kube:
        listed, _ = await kube.list(Scope(CONFIG_MAPS, Json, "team"), cached=cached)
        assert [item["metadata"]["name"] for item in listed] == [f"n{number}" for number in range(40)]
    assert limits == [40] * cached + [50] + [6] * 7


async def test_an_object_of_a_list_that_is_not_understood_costs_no_object_that_was_known() -> None:
    """The store gets a list only after all of its objects are decoded."""
    item = {"metadata": {"namespace": "team", "name": "a", "resourceVersion": "3"}}

    def answer(request: Request, reply: Reply) -> None:
        reply.send(200, json.dumps({"metadata": {"resourceVersion": "3"}, "items": [item, []]}).encode())

    store: ObjectStore[str] = ObjectStore(lambda item: str(item["metadata"]["resourceVersion"]))
    before = [{"metadata": {"namespace": "team", "name": name, "resourceVersion": "2"}} for name in ("a", "b")]
    await store.replace(before, "2")
    async with client_of_server(answer) as kube:
        listed, version = await kube.list(Scope(CONFIG_MAPS, Json, "team"))
        assert len(listed) == 2
        assert listed[0]["metadata"]["name"] == "a"
        with pytest.raises(
            errors.Unavailable, match="cannot list configmaps in namespace team: the response cannot be decoded"
        ):
            await store.replace(listed, version)
    assert store.values() == ["2", "2"]


async def test_an_event_that_is_too_large_has_everything_listed_again() -> None:
    listed = asyncio.Event()
    lists = 0

    def answer(request: Request, reply: Reply) -> None:
        nonlocal lists
        if "watch=true" not in request.path:
            lists += 1
            reply.send(200, b'{"metadata": {"resourceVersion": "1"}, "items": []}')
            if lists == 2:
                listed.set()
            return
        reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        reply.chunk(b'{"type":"ADDED","object":{"metadata":{"name":"' + b"x" * (5 << 20))

    async with client_of_server(answer) as kube:
        task = asyncio.create_task(Informer(kube, SCOPE, Ignored()).run())
        await asyncio.wait([task, asyncio.create_task(listed.wait())], return_when=asyncio.FIRST_COMPLETED)
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])


class Ignored:
    """A store that ignores all objects."""

    def replace(self, objects: Sequence[ConfigMap], version: str) -> None: ...

    def update(self, item: ConfigMap) -> None: ...

    def delete(self, item: ConfigMap) -> None: ...


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata": {"name": "a"}, "data": {"key": "planted*"}}',
        b'{"metadata": {"name": "a"}, "data": {"key": "planted',
        b'{"metadata": {"name": "a"}, "data": {"key": "planted\xff"}}',
    ],
)
async def test_a_secret_that_cannot_be_read_is_quoted_nowhere(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with client_of_server(lambda request, reply: reply.send(200, body)) as kube:
        with pytest.raises(errors.Unavailable, match="cannot get secrets a in namespace team: the response") as caught:
            await kube.get_as(Secret, SECRETS, "team", "a")
    logging.getLogger(__name__).error("unread", exc_info=caught.value)
    assert "planted" not in caplog.text
    assert "planted" not in repr(caught.value.__context__)


async def test_objects_are_read_as_what_is_asked_for_and_pages_are_followed(
    control_plane: ControlPlane, namespace: str
) -> None:
    kube = Kube.connect(await load_configuration(control_plane.kubeconfig))
    try:
        for number in range(60):
            metadata = {"name": f"map-{number}", "labels": {"of": "this-test"}}
            await kube.apply(CONFIG_MAPS, namespace, {"metadata": metadata, "data": {"n": str(number)}})
        listed, version = await kube.list(Scope(CONFIG_MAPS, ConfigMap, namespace, "of=this-test"))
        assert sorted(int(item.data["n"]) for item in listed) == list(range(60))
        named, _ = await kube.list(Scope(CONFIG_MAPS, ConfigMap, namespace, name="map-7"))
        assert [item.metadata.name for item in named] == ["map-7"]
        await kube.delete(CONFIG_MAPS, namespace, "map-7")
        events = kube.watch(Scope(CONFIG_MAPS, ConfigMap, namespace, name="map-7"), version)
        event = await anext(events)
        assert event.type == "DELETED"
        assert event.object is not None
        assert event.object.data == {"n": "7"}
        await events.aclose()
    finally:
        await kube.aclose()


def test_an_object_with_too_many_values_in_its_status_and_labels_is_read_without_these() -> None:
    labels = {f"k{number:06}": "1" for number in range(OBJECT_VALUES)}
    item = {"metadata": {"name": "a", "labels": labels}, "status": {"conditions": [{}] * OBJECT_VALUES}}
    read = bound_item(item)
    assert read == {"metadata": {"name": "a"}, EXCESS_MEMBER: read[EXCESS_MEMBER]}
