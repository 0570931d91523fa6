"""Prompts, resources, completions and change notices through both kinds of endpoint, in both eras."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from askers import session_of
from fairlead_api.documents.catalog import Catalog, Definition
from fairlead_app.metrics.exposition import expose_metrics
from gatewayworld import LEGACY, META, MODERN, Ask, Wire, ask, catalog, legacy, modern, publish, running
from rawserver import Reply, Request, raw_server
from toolservers import answer_handshake

MERGED = "/mcp"
SERVER = "/servers/default/demo/mcp"
COLLISIONS = "fairlead_catalog_name_collisions"


def definition(member: str, name: str) -> Definition:
    return Definition(name=name, definition=Raw(json.dumps({"x": 1, "name": name, member: name}).encode()), hash="")


def demo(url: str, era: str = MODERN, name: str = "demo", **more: Any) -> Catalog:
    return catalog(
        name,
        url,
        ["x"],
        version=era,
        prompts=(definition("name", "greet"),),
        resources=(definition("uri", "test://one"),),
        resource_templates=(definition("uriTemplate", "test://{id}/data"),),
        **more,
    )


def make_request(method: str, params: dict[str, Any], era: str, target: str) -> Ask:
    if era == LEGACY:
        return legacy(method, params).to(target)
    named = params.get("name") or params.get("uri")
    return modern(method, params).with_headers(mcp_name=named).to(target)


async def handle(request: Request, reply: Reply) -> None:
    if answer_handshake(request, reply):
        return None
    return reply.result(request, {"saw": {k: v for k, v in request.params.items() if k != "_meta"}, "z": {"b": 1}})


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize("server_era", [MODERN, LEGACY])
async def test_names_are_prefixed_on_merged_endpoints_and_common_uris_never(
    tmp_path: Path, era: str, server_era: str
) -> None:
    async with raw_server(handle) as server, running(tmp_path, demo(server.url, server_era)) as gateway:
        for target, prompt in ((MERGED, "demo__greet"), (SERVER, "greet")):
            listed = (await ask(gateway, make_request("prompts/list", {}, era, target))).message["result"]["prompts"]
            assert listed == [{"x": 1, "name": prompt}]
            got = await ask(gateway, make_request("prompts/get", {"name": prompt}, era, target))
            assert got.message["result"]["saw"] == {"name": "greet"}
            assert got.message["result"]["z"] == {"b": 1}
            for uri in ("test://one", "test://7/data"):
                read = await ask(gateway, make_request("resources/read", {"uri": uri}, era, target))
                assert read.message["result"]["saw"] == {"uri": uri}
            completion = {"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": "a", "value": "b"}}
            done = await ask(gateway, make_request("completion/complete", completion, era, target))
            assert done.message["result"]["saw"]["ref"]["name"] == "greet"


async def test_a_uri_that_nobody_has_is_refused_in_the_words_of_the_era(tmp_path: Path) -> None:
    async with raw_server(handle) as server, running(tmp_path, demo(server.url)) as gateway:
        for era, code in ((MODERN, -32602), (LEGACY, -32002)):
            answer = await ask(gateway, make_request("resources/read", {"uri": "nowhere://"}, era, MERGED))
            assert (answer.code, answer.message["error"]["data"]) == (code, {"uri": "nowhere://"})


@pytest.mark.parametrize(
    ("era", "server_era", "code"),
    [
        (MODERN, LEGACY, -32602),
        (LEGACY, LEGACY, -32002),
        (MODERN, MODERN, -32602),
        (LEGACY, MODERN, -32602),
    ],
)
async def test_errors_of_resources_read_have_the_code_of_the_clients_era(
    tmp_path: Path, era: str, server_era: str, code: int
) -> None:
    async def unknown(request: Request, reply: Reply) -> None:
        if request.method != "resources/read":
            return await handle(request, reply)
        mine, status = (-32602, 400) if server_era == MODERN else (-32002, 200)
        return reply.error(request, status, mine, "Resource not found: zürich", {"uri": "test://one", "z": [1]})

    async with raw_server(unknown) as server, running(tmp_path, demo(server.url, server_era)) as gateway:
        answer = await ask(gateway, make_request("resources/read", {"uri": "test://one"}, era, MERGED))
    assert (answer.status, answer.code) == (400 if era == MODERN else 200, code)
    assert answer.message["error"]["message"] == "Resource not found: zürich"
    assert answer.message["error"]["data"] == {"uri": "test://one", "z": [1]}


async def test_of_two_servers_with_one_uri_the_first_answers_on_the_merged_endpoint(tmp_path: Path) -> None:
    async with (
        raw_server(handle) as first,
        raw_server(handle) as second,
        running(tmp_path, demo(first.url, name="a"), demo(second.url, name="b")) as gateway,
    ):
        await ask(gateway, make_request("resources/read", {"uri": "test://one"}, MODERN, MERGED))
        collisions = [collision.exposed_name for collision in gateway.snapshot.collisions]
        assert (first.methods(), second.methods()) == (["resources/read"], [])
        assert collisions == ["test://one", "test://{id}/data"]
        metrics = (await expose_metrics(gateway.metrics))[0].decode()
        (text,) = [line for line in metrics.splitlines() if line.startswith(f"# HELP {COLLISIONS} ")]
        assert "Tools, prompts, resources, resource templates and skills" in text
        assert f"{COLLISIONS} 2.0" in metrics


async def test_an_endpoint_without_prompts_neither_offers_nor_lists_them(tmp_path: Path) -> None:
    async with raw_server(handle) as server, running(tmp_path, catalog("demo", server.url, ["x"])) as gateway:
        discovered = (await ask(gateway, modern("server/discover"))).message["result"]["capabilities"]
        assert discovered == {"tools": {"listChanged": True}}
        assert (await ask(gateway, modern("prompts/list"))).code == -32601


def other(url: str, lists: str) -> Catalog:
    """The catalog of the server with a change in one list."""
    before = demo(url)
    if lists == "tools":
        return msgspec.structs.replace(before, tools=catalog("demo", url, ["x", "y"]).tools)
    item = (definition("name", "more"),) if lists == "prompts" else (definition("uri", "test://more"),)
    return msgspec.structs.replace(before, **{lists: getattr(before, lists) + item})


LISTS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize("target", [MERGED, SERVER])
@pytest.mark.parametrize("changed", LISTS.values())
async def test_list_changed_notifications_reach_listeners_for_the_lists_that_changed(
    tmp_path: Path, era: str, target: str, changed: str
) -> None:
    async with (
        raw_server(handle) as server,
        running(tmp_path, demo(server.url)) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        if era == MODERN:
            wanted = dict.fromkeys(LISTS, True)
            wire.send(modern("subscriptions/listen", {"notifications": wanted}, number="s").to(target))
            first = await wire.reader.readuntil(b"}}\n\n")
            acknowledged = json.loads(first.rpartition(b"data: ")[2])
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            assert acknowledged["params"]["notifications"] == wanted
        else:
            session = await session_of(gateway, {})
            head = {"accept": "text/event-stream", "mcp-session-id": session}
            wire.send(Ask(headers=head, body=b"", verb="GET").to(target))
            await wire.reader.readuntil(b"keep-alive\n\n")
        said_so = msgspec.structs.replace(demo(server.url), announced={changed: "2026-01-01T00:00:00Z"})
        for round_ in (other(server.url, changed), demo(server.url), said_so):
            publish(tmp_path / "documents", round_)
            heard = json.loads((await wire.reader.readuntil(b"}\n\n")).rpartition(b"data: ")[2])
            assert heard["method"] == f"notifications/{changed}/list_changed"
            if era == MODERN:
                assert heard["params"]["_meta"] == {META + "subscriptionId": "s"}
            listed = (await ask(gateway, make_request(f"{changed}/list", {}, era, target))).message["result"][changed]
            assert len(listed) == len(getattr(round_, changed)), "who asks then gets what has changed"


async def test_a_stream_is_kept_alive_by_comments(tmp_path: Path) -> None:
    async with running(tmp_path, demo("http://127.0.0.1:1/mcp")) as gateway, await Wire.connect(gateway) as wire:
        wire.send(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, number="s"))
        head = await wire.reader.readuntil(b"\r\n\r\n")
        assert b"x-accel-buffering: no" in head.lower(), "or nginx would keep what is said until there is more"
        await wire.reader.readuntil(b"}}\n\n")
        gateway.endpoint.streams.keep_alive(asyncio.get_running_loop().time() + 3600)
        assert b"\n: " in b"\n" + await wire.reader.readuntil(b"\n\n")


@pytest.mark.parametrize("wanted", [{}, {"promptsListChanged": True}, {"toolsListChanged": False}])
async def test_list_changed_notifications_reach_no_client_that_did_not_ask(
    tmp_path: Path, wanted: dict[str, bool]
) -> None:
    async with (
        raw_server(handle) as server,
        running(tmp_path, demo(server.url)) as gateway,
        await Wire.connect(gateway) as wire,
        await Wire.connect(gateway) as everything,
    ):
        for listener, notifications in ((wire, wanted), (everything, dict.fromkeys(LISTS, True))):
            listener.send(modern("subscriptions/listen", {"notifications": notifications}, number="s"))
            await listener.reader.readuntil(b"}}\n\n")
        publish(tmp_path / "documents", other(server.url, "tools"))
        await everything.reader.readuntil(b"tools/list_changed")
        publish(tmp_path / "documents", other(server.url, "prompts"))
        await everything.reader.readuntil(b"prompts/list_changed")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wire.reader.readuntil(b"tools/list_changed"), 0.2)
