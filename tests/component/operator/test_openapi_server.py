"""An HTTP API, from its OpenAPI document to a catalog, on a real API server."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import msgspec
import pytest

from fairlead_api.meta import ANNOTATION_APPROVE, ServerKey
from fairlead_operator.app import Operator
from operatorworld import World, running
from petstore import DOCUMENT, DocumentHost, document
from rawserver import raw_server

BASE = {"baseURL": "http://127.0.0.1:9/v1"}
OWNERS = {"get": {"operationId": "getOwners", "responses": {}}}


def config_map(world: World, **members: Any) -> None:
    body = {"metadata": {"name": "petstore"}, **members}
    status, answer = world.request("POST", world.path("configmaps"), body)
    assert status == 201, answer


async def ready(world: World) -> None:
    await world.until("Ready", lambda: world.is_("pets", "Ready", "True"))


def refresh(operator: Operator, world: World) -> None:
    """Request that the document is read now."""
    assert operator.controller is not None
    operator.controller.reconciler.refresh(ServerKey(world.namespace, "pets"))


def failed_refresh(world: World) -> str:
    """Time at which the last requested reading of the document failed; empty if it succeeded."""
    catalog = world.catalog("pets")
    assert catalog is not None
    return catalog.refreshed.at if catalog.refreshed is not None and catalog.refreshed.failure else ""


def is_online(world: World) -> bool:
    catalog = world.catalog("pets")
    assert catalog is not None
    return catalog.online


def tools(world: World) -> dict[str, str]:
    """Path of each tool's request in the catalog."""
    catalog = world.catalog("pets")
    assert catalog is not None
    return {tool.name: tool.operation.path for tool in catalog.tools if tool.operation is not None}


async def test_operations_of_a_document_in_a_config_map_are_tools_and_the_others_are_named(world: World) -> None:
    config_map(world, data={"openapi.json": json.dumps(DOCUMENT)})
    async with running(world):
        world.create("pets", {"openapi": {"configMapRef": {"name": "petstore"}, "exclude": ["DELETE *"]}})
        await ready(world)
        status, catalog = world.server("pets")["status"], world.catalog("pets")
    assert catalog is not None
    assert tools(world) == {"listPets": "/pets", "getPet": "/pets/{id}"}
    assert catalog.endpoint.url == "http://127.0.0.1:9/v1"  # type: ignore[union-attr]  # an HTTP API has a URL
    assert not any(b"fairlead.dev/operation" in bytes(tool.definition) for tool in catalog.tools)
    assert (status["transport"], status["tools"], status["toolsLeftOut"]) == ("openapi", 2, 1)
    report = status["openapi"]
    assert (report["operations"], report["leftOut"], len(report["digest"])) == (3, 1, 64)
    assert report["remarks"][0]["operation"] == "GET /broken"
    assert status["serverInfo"] == {"name": "Petstore", "version": "7"}
    assert "OperationsLeftOut" in world.condition("pets", "Verified")["message"]


async def test_a_compressed_document_is_read_by_its_key(world: World) -> None:
    packed = base64.b64encode(gzip.compress(json.dumps(DOCUMENT).encode())).decode()
    config_map(world, data={"notes": "not this"}, binaryData={"api.gz": packed})
    async with running(world):
        world.create("pets", {"openapi": {"configMapRef": {"name": "petstore", "key": "api.gz"}, **BASE}})
        await ready(world)
        assert set(tools(world)) == {"listPets", "getPet", "deletePet"}


async def test_a_document_at_a_url_is_asked_for_by_its_tag_and_followed_when_it_changes(world: World) -> None:
    host = DocumentHost(DOCUMENT)
    async with raw_server(host.handle) as server, running(world) as operator:
        world.create("pets", {"openapi": {"url": f"http://127.0.0.1:{server.port}/openapi.json", "include": ["get*"]}})
        await ready(world)
        assert set(tools(world)) == {"getPet"}
        refresh(operator, world)
        await world.until("asked again", lambda: len(host.conditions) > 1)
        assert host.conditions[0] is None
        assert host.conditions[1] is not None
        host.served = document(owners=OWNERS)
        refresh(operator, world)
        await world.until("the new operation", lambda: "getOwners" in tools(world))


async def test_tools_are_still_called_while_their_document_cannot_be_read(world: World) -> None:
    host = DocumentHost(DOCUMENT)
    async with running(world) as operator:
        async with raw_server(host.handle) as server:
            url = f"http://127.0.0.1:{server.port}/openapi.json"
            world.create("pets", {"openapi": {"url": url, **BASE}})
            await ready(world)
        refresh(operator, world)
        await world.until("told", lambda: world.is_("pets", "Verified", "False", "ConnectionRefused"))
        assert is_online(world)
        assert "getPet" in tools(world)
        world.patch_server("pets", {"spec": {"openapi": {"exclude": ["getPet"]}}})
        await world.until("another spec", lambda: not is_online(world))
        world.patch_server("pets", {"spec": {"openapi": {"exclude": []}}})
        await world.until("the first spec", lambda: is_online(world))
    async with running(world) as operator:
        before = failed_refresh(world)
        await world.until("it leads", lambda: operator.controller is not None)
        refresh(operator, world)
        await world.until("asked again", lambda: failed_refresh(world) != before)
        assert is_online(world), "another operator knows by the generation that the tools are those of the spec"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "is empty"),
        ({"a": "{}", "b": "{}"}, "set openapi.configMapRef.key"),
        ({"a": '{"swagger": "2.0", "paths": {}}'}, "2.0"),
        ({"a": "<html>"}, "petstore"),
        ({"a": json.dumps({**DOCUMENT, "servers": []})}, "set openapi.baseURL"),
    ],
)
async def test_a_document_of_which_no_tools_can_be_made_is_told_with_the_remedy(
    world: World, data: dict[str, str], words: str
) -> None:
    config_map(world, data=data)
    async with running(world):
        world.create("pets", {"openapi": {"configMapRef": {"name": "petstore"}}})
        await world.until("told", lambda: world.is_("pets", "Verified", "False", "DocumentUnusable"))
        assert words in world.condition("pets", "Verified")["message"]


async def test_patterns_that_match_no_operation_are_told(world: World) -> None:
    config_map(world, data={"openapi.json": json.dumps(DOCUMENT)})
    include = ["getPet", "listpets", "GET /nosuch"]
    async with running(world):
        api = {"configMapRef": {"name": "petstore"}, "include": include, "exclude": ["reading*"]}
        world.create("pets", {"openapi": api})
        await world.until("told", lambda: world.is_("pets", "PartiallyInvalid", "True", "PatternsMatchNothing"))
        told = world.condition("pets", "PartiallyInvalid")["message"]
        assert "no operation of the document matches 'GET /nosuch', 'listpets'; 0 operations are selected" in told
        world.patch_server("pets", {"spec": {"openapi": {"include": ["getPet"], "exclude": []}}})
        await world.until("corrected", lambda: set(tools(world)) == {"getPet"})
        await world.until("no complaint", lambda: not world.is_("pets", "PartiallyInvalid", "True"))


async def test_a_missing_config_map_is_told_and_noticed_when_it_is_there(world: World) -> None:
    async with running(world):
        world.create("pets", {"openapi": {"configMapRef": {"name": "petstore"}}})
        await world.until("told", lambda: world.is_("pets", "Verified", "False", "DocumentUnusable"))
        assert "create it" in world.condition("pets", "Verified")["message"]
        config_map(world, data={"openapi.json": json.dumps(DOCUMENT)})
        await ready(world)


async def test_a_config_map_is_read_again_when_it_changes(world: World) -> None:
    def data(**paths: Any) -> dict[str, Any]:
        return {"data": {"openapi.json": json.dumps(document(**paths))}}

    async with running(world):
        world.create("pets", {"openapi": {"configMapRef": {"name": "petstore"}, **BASE}})
        await world.until("told", lambda: world.is_("pets", "Verified", "False", "DocumentUnusable"))
        config_map(world, **data())
        await ready(world)
        assert "getOwners" not in tools(world)
        path, patch = world.path("configmaps", "petstore"), data(owners=OWNERS)
        assert world.request("PATCH", path, patch, content_type="application/merge-patch+json")[0] == 200
        await world.until("the new operation", lambda: "getOwners" in tools(world))


async def test_a_pinned_tool_whose_request_changes_alone_is_held_back(world: World) -> None:
    host = DocumentHost(DOCUMENT)
    async with raw_server(host.handle) as server, running(world) as operator:
        url = f"http://127.0.0.1:{server.port}/openapi.json"
        world.create("pets", {"openapi": {"url": url, "include": ["listPets"]}, "pin": True})
        await ready(world)
        moved = document(pets=None, animals=DOCUMENT["paths"]["/pets"])
        host.served = moved
        refresh(operator, world)
        await world.until("held back", lambda: world.is_("pets", "Approved", "False", "ChangesHeldBack"))
        assert tools(world) == {"listPets": "/pets"}
        message = world.condition("pets", "Approved")["message"]
        approved = message.partition("the hash of all of them is ")[2].split()[0].rstrip(".")
        world.patch_server("pets", {"metadata": {"annotations": {ANNOTATION_APPROVE: approved}}})
        await world.until("approved", lambda: tools(world) == {"listPets": "/animals"})


async def test_a_credential_stays_at_the_origin_of_the_base_url(world: World) -> None:
    elsewhere = {**DOCUMENT["paths"]["/pets"]["get"], "servers": [{"url": "https://uploads.example.com"}]}
    config_map(world, data={"openapi.json": json.dumps(document(pets={"get": elsewhere}))})
    secret = {
        "metadata": {"name": "pets", "labels": {"fairlead.dev/credential": "true"}},
        "stringData": {"token": "t0k3n"},
    }
    assert world.request("POST", world.path("secrets"), secret)[0] == 201
    async with running(world):
        auth = {"bearer": {"secretRef": {"name": "pets", "key": "token"}}}
        world.create("pets", {"openapi": {"configMapRef": {"name": "petstore"}, **BASE}, "auth": auth})
        await ready(world)
        assert set(tools(world)) == {"getPet", "deletePet"}
        remarks = {each["operation"]: each["why"] for each in world.server("pets")["status"]["openapi"]["remarks"]}
    assert "uploads.example.com" in remarks["GET /pets"]
    catalog = world.catalog("pets")
    assert catalog is not None
    assert catalog.credential is not None
    assert b"t0k3n" not in msgspec.json.encode(catalog)
