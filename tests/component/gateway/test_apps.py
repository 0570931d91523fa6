"""Apps of several servers through one gateway: whose HTML a host gets, whose tools an app calls, and what policies
hide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appserver import SHARED, AppServer
from extension_servers import ERAS, MERGED, OWN, extensions, host_request, read, world
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_mcp.methods import UI
from gatewayworld import Answer, Wire, ask, modern, running
from rawserver import raw_server


@pytest.mark.parametrize(("era", "server_era"), ERAS)
async def test_servers_that_share_a_uri_are_each_read_by_their_own_name(
    tmp_path: Path, era: str, server_era: str
) -> None:
    async with world(AppServer, tmp_path, era=server_era) as (gateway, a, b):
        listed = (await ask(gateway, host_request("resources/list", {}, era))).message["result"]["resources"]
        assert [resource["uri"] for resource in listed] == ["ui://a/shared/app.html", "ui://b/shared/app.html"]
        assert listed[0]["mimeType"] == "text/html;profile=mcp-app"
        tools = (await ask(gateway, host_request("tools/list", {}, era))).message["result"]["tools"]
        metas = {each["name"]: each["_meta"] for each in tools if "_meta" in each}
        for server in (a, b):
            shown = f"ui://{server.name}/shared/app.html"
            meta = metas[f"{server.name}__show"]
            assert meta["ui"] == {"resourceUri": shown, "visibility": ["model", "app"]}
            assert (meta["ui/resourceUri"], meta["k"]) == (shown, {"uri": SHARED}), "what is nobody's stays as it is"
            content = (await read(gateway, shown, era)).message["result"]["contents"][0]
            assert (content["uri"], content["text"]) == (shown, f"<p>of {server.name}, see {SHARED}</p>")
            assert content["_meta"]["ui"] == {"csp": {}}, "a domain is good for the server's own URL alone"
            called = await ask(gateway, host_request("tools/call", {"name": f"{server.name}__show"}, era))
            link, embedded = called.message["result"]["content"]
            assert (link["uri"], embedded["resource"]) == (shown, {"uri": shown, "text": SHARED})
            assert called.message["result"]["_meta"]["ui"] == {"resourceUri": shown}
        assert a.read == b.read == [SHARED], "each server gets the name that it knows"
        assert (await read(gateway, SHARED, era)).code is not None, "nobody guesses whose is meant"


@pytest.mark.parametrize(("era", "server_era"), ERAS)
async def test_the_endpoint_of_one_server_passes_uris_as_they_are(tmp_path: Path, era: str, server_era: str) -> None:
    async with world(AppServer, tmp_path, era=server_era) as (gateway, a, _):
        listed = (await ask(gateway, host_request("resources/list", {}, era, OWN))).body
        assert b'{"uri": "ui://shared/app.html", "name": "app"' in listed
        content = (await read(gateway, SHARED, era, OWN)).message["result"]["contents"][0]
        assert (content["uri"], content["_meta"]["ui"]) == (SHARED, {"domain": "d", "csp": {}})
        called = await ask(gateway, host_request("tools/call", {"name": "show"}, era, OWN))
        assert called.message["result"]["content"][0]["uri"] == SHARED
        foreign = await ask(gateway, host_request("tools/call", {"name": "only_b"}, era, OWN))
        assert foreign.code == -32602
        assert a.called == ["show"], "an app at its own server's endpoint reaches no other server"


@pytest.mark.parametrize("target", [MERGED, OWN])
async def test_a_resource_that_only_a_tool_names_is_read(tmp_path: Path, target: str) -> None:
    async with world(AppServer, tmp_path) as (gateway, a, b):
        uri = "ui://a/shared/hidden.html" if target == MERGED else "ui://shared/hidden.html"
        assert (await read(gateway, uri, target=target)).message["result"]["contents"][0]["uri"] == uri
        assert (a.read, b.read) == (["ui://shared/hidden.html"], [])


@pytest.mark.parametrize("target", [MERGED, OWN])
async def test_the_interface_of_a_tool_that_is_denied_is_not_read(tmp_path: Path, target: str) -> None:
    policy = Policy(
        namespace="default",
        name="p",
        servers=("a",),
        rules=(Rule(action="Deny", tools=("refresh", "show")), Rule(action="Allow", tools=("*",))),
    )
    part = "a/" if target == MERGED else ""
    async with world(AppServer, tmp_path, Rules(policies=(policy,))) as (gateway, a, _):
        spellings = (
            "shared/app.html",
            "shared/hidden.html",
            "shared/./app.html",
            "shared/app.html?",
            "Shared/app.html",
        )
        for uri in (f"{scheme}://{part}{rest}" for scheme in ("ui", "UI") for rest in spellings):
            assert (await read(gateway, uri, target=target)).code == -32602, uri
        listed = await ask(gateway, host_request("resources/list", {}, target=target))
        assert f"ui://{part}shared" not in json.dumps(listed.message)
        async with await Wire.connect(gateway) as wire:
            wanted = {"resourceSubscriptions": [f"ui://{part}shared/app.html"]}
            wire.send(modern("subscriptions/listen", {"notifications": wanted}).to(target))
            assert b"resourceSubscriptions" not in await wire.reader.readuntil(b"}}\n\n")
        assert a.read == [], "its server is not even asked"


@pytest.mark.parametrize(("era", "server_era"), ERAS)
async def test_an_app_calls_the_tools_of_its_own_server_by_their_own_names(
    tmp_path: Path, era: str, server_era: str
) -> None:
    async with world(AppServer, tmp_path, era=server_era) as (gateway, a, b):

        async def call(name: str) -> Answer:
            return await ask(gateway, host_request("tools/call", {"name": name}, era))

        assert (await call("only_a")).message["result"]["_meta"]["by"] == "a"
        assert (await call("only_b")).message["result"]["_meta"]["by"] == "b"
        assert a.called == ["only_a"]
        both = await call("show")
        assert (both.code, "a__show, b__show" in both.message["error"]["message"]) == (-32602, True)
        assert (await call("think")).code == -32602, "it is not for apps"
        assert (await call("nonesuch")).code == -32602
        assert (a.called, b.called) == (["only_a"], ["only_b"])


async def test_an_app_reaches_neither_a_server_without_apps_nor_a_tool_that_is_denied(tmp_path: Path) -> None:
    plain = AppServer("vault")
    policy = Policy(
        namespace="default",
        name="p",
        servers=("a",),
        rules=(Rule(action="Deny", tools=("only_a",)), Rule(action="Allow", tools=("*",))),
    )
    a = AppServer("a")
    async with (
        raw_server(a.handle) as server_a,
        raw_server(plain.handle) as server_b,
        running(
            tmp_path,
            a.catalog(server_a.url),
            plain.catalog(server_b.url, tools=["pay"]),
            Rules(policies=(policy,)),
        ) as gateway,
    ):
        for name in ("pay", "only_a"):
            assert (await ask(gateway, host_request("tools/call", {"name": name}))).code == -32602
        assert (await read(gateway, "ui://a/vault/shared/app.html")).status == 200
        assert (a.read, plain.read) == (["ui://vault/shared/app.html"], []), "a name of one server is never another's"
        assert (a.called, plain.called) == ([], [])


async def test_a_host_finds_the_extension_in_both_eras_where_a_server_declares_it(tmp_path: Path) -> None:
    async with world(AppServer, tmp_path) as (gateway, _, _):
        assert await extensions(gateway) == ({UI: {}},) * 2
