"""Teams that share an installation: no object that a team may write in its namespace affects another team."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
import pytest

from controlplane import ControlPlane
from fairlead_api.documents.catalog import CATALOG, HttpEndpoint
from fairlead_api.documents.codec import catalog_name, encode
from fairlead_api.documents.store import pack
from fairlead_api.meta import LABEL_DOCUMENT, ServerKey
from fairlead_operator.kube.credentials import shard_name, store_key
from fairlead_operator.kube.documents import config_map_for
from fairlead_operator.publish.catalogs import labels_for
from gatewayworld import ask, calling, modern
from operatorworld import World, release_namespace, running
from togetherworld import gateway_on, serving, shows
from toolservers import modern_server, tool
from waiting import until_async


@dataclass
class Teams:
    """Namespaces of two tenants of one release."""

    older: World
    younger: World


@pytest.fixture
def teams(control_plane: ControlPlane, namespace: str) -> Iterator[Teams]:
    other = control_plane.create_namespace(f"{namespace}-other")
    with release_namespace(control_plane, namespace) as release:
        yield Teams(World(control_plane, namespace, release), World(control_plane, other, release))
    control_plane.remove_namespace(other)


def says(text: str) -> Any:
    return lambda request: {"content": [{"type": "text", "text": text}]}


async def test_a_forged_document_in_a_tenants_namespace_has_no_effect(teams: Teams) -> None:
    """A gateway for that namespace serves the document, which shows that the document is valid."""
    world = teams.older
    async with (
        modern_server([tool("add")], call=says("true")) as server,
        modern_server([tool("add"), tool("steal")], call=says("forged")) as forger,
        running(world),
        serving(world) as gateway,
    ):
        world.create("demo", {"url": server.url})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        real = world.catalog("demo")
        assert real is not None
        forged = msgspec.structs.replace(real, endpoint=HttpEndpoint(url=forger.url), updated_at="2099-01-01T00:00:00Z")
        labels = labels_for(forged.key, forged.uid)
        (blob,) = pack(catalog_name(forged.key), CATALOG, encode(forged), labels)
        for namespace in (world.namespace, teams.younger.namespace):
            manifest = config_map_for(blob, namespace)
            assert manifest["metadata"]["labels"][LABEL_DOCUMENT] == CATALOG
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            assert world.request("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", **manifest})[0] == 201
        # The server that is created last shows that all earlier objects have been processed.
        world.create("later", {"url": server.url})
        await until_async("the later tool", shows(gateway, "demo__add", "later__add"))
        answer = await ask(gateway, calling("demo__add", {}))
        assert answer.message["result"]["content"][0]["text"] == "true"
        assert forger.seen == []
        async with gateway_on(world.plane, world.namespace) as fooled:
            await until_async("the forged document", shows(fooled, "demo__add"))
            answer = await ask(fooled, calling("demo__add", {}))
            assert answer.message["result"]["content"][0]["text"] == "forged"
        for namespace in (world.namespace, teams.younger.namespace):
            assert world.get(f"/api/v1/namespaces/{namespace}/configmaps/{blob.name}") is not None, "not ours to delete"


@pytest.mark.parametrize("prefix", [{}, {"prefix": "demo"}])
async def test_a_name_or_a_prefix_that_another_team_has_costs_the_younger_server_alone(
    teams: Teams, prefix: dict[str, str]
) -> None:
    older = teams.older
    younger = teams.younger
    async with (
        modern_server([tool("add")], call=says("older")) as server,
        modern_server([tool("add"), tool("more")], call=says("younger")) as rival,
        running(older),
        serving(older) as gateway,
    ):
        older.create("demo", {"url": server.url})
        await older.until("Ready", lambda: older.is_("demo", "Ready", "True"))
        before = older.server("demo")["status"]
        younger.create("demo", {"url": rival.url, **prefix})
        await younger.until("told", lambda: younger.is_("demo", "Conflicted", "True", "PrefixTaken"))
        await younger.until("published", lambda: younger.catalog("demo"))
        assert await shows(gateway, "demo__add")()
        answer = await ask(gateway, calling("demo__add", {}))
        assert answer.message["result"]["content"][0]["text"] == "older"
        own = f"/servers/{younger.namespace}/demo/mcp"

        async def is_served_apart() -> bool:
            return (await ask(gateway, replace(modern("tools/list"), target=own))).status == 200

        await until_async("the younger one's own endpoint", is_served_apart)
        answer = await ask(gateway, replace(calling("more", {}), target=own))
        assert answer.message["result"]["content"][0]["text"] == "younger"
        assert older.server("demo")["status"]["conditions"] == before["conditions"]


async def test_credentials_of_another_team_are_not_to_be_had_and_not_to_be_lost(teams: Teams) -> None:
    older = teams.older
    younger = teams.younger
    secret = {
        "metadata": {"name": "key", "labels": {"fairlead.dev/credential": "true"}},
        "stringData": {"token": "of the older team"},
    }
    assert older.request("POST", older.path("secrets"), secret)[0] == 201
    auth = {"bearer": {"secretRef": {"name": "key", "key": "token"}}}
    async with (
        modern_server([tool("add")]) as server,
        modern_server([tool("add")]) as thief,
        running(older),
    ):
        older.create("demo", {"url": server.url, "auth": auth})
        await older.until("Ready", lambda: older.is_("demo", "Ready", "True"))
        younger.create("demo", {"url": thief.url, "auth": auth})
        await younger.until("refused", lambda: younger.is_("demo", "ResolvedRefs", "False", "SecretNotFound"))
        elsewhere = {"bearer": {"secretRef": {"name": "key", "key": "token", "namespace": older.namespace}}}
        younger.create("named", {"url": thief.url, "auth": elsewhere})
        await younger.until("refused", lambda: younger.is_("named", "ResolvedRefs", "False", "SecretNotFound"))
        assert younger.request("DELETE", younger.server_path("demo"))[0] == 200
        await younger.until("gone", lambda: younger.catalog("demo") is None)
        assert "of the older team" in copied_credential(older, "demo")
        assert not copied_credential(younger, "demo")
        assert all("authorization" not in request.headers for request in thief.seen)
    assert any(request.headers.get("authorization") == "Bearer of the older team" for request in server.seen)


def copied_credential(world: World, name: str) -> str:
    """The credential that the gateway would send to a server."""
    key = ServerKey(world.namespace, name)
    secret = world.get(f"/api/v1/namespaces/{world.release}/secrets/{shard_name(key)}")
    value = ((secret or {}).get("data") or {}).get(store_key(key), "")
    return json.dumps(base64.b64decode(value).decode()) if value else ""


async def test_a_credential_goes_to_the_hosts_that_its_secret_names_whatever_the_host_header_says(teams: Teams) -> None:
    world = teams.older
    secret = {
        "metadata": {
            "name": "key",
            "labels": {"fairlead.dev/credential": "true"},
            "annotations": {"fairlead.dev/hosts": "http://tools.example.com"},
        },
        "stringData": {"token": "for tools.example.com"},
    }
    assert world.request("POST", world.path("secrets"), secret)[0] == 201
    auth = {"bearer": {"secretRef": {"name": "key", "key": "token"}}}
    async with modern_server([tool("add")]) as server, modern_server([tool("add")]) as thief, running(world):
        world.hosts.ports["tools.example.com"] = port_of(server.url)
        for host in ("tools.example.com.evil.net", "evil.net"):
            world.hosts.ports[host] = port_of(thief.url)
        world.create("right", {"url": "http://tools.example.com/mcp", "auth": auth})
        await world.until("Ready", lambda: world.is_("right", "Ready", "True"))
        for name, url in {
            "longer": "http://tools.example.com.evil.net/mcp",
            "other": "http://evil.net/mcp",
            "path": "http://evil.net/tools.example.com/mcp",
        }.items():
            world.create(name, {"url": url, "auth": auth, "remote": {"hostHeader": "tools.example.com"}})
            await world.until(name, partial(world.is_, name, "ResolvedRefs", "False", "HostNotAllowed"))
        assert all("authorization" not in request.headers for request in thief.seen)
    assert any("authorization" in request.headers for request in server.seen)


def port_of(url: str) -> int:
    return int(url.split(":")[2].split("/", maxsplit=1)[0])


@pytest.mark.parametrize(
    "url",
    [
        "http://user:pass@example.com/mcp",
        "http://example.com#@127.0.0.1/",
        "http://127%2e0%2e0%2e1/mcp",
        "http://127.0.0.1\\@example.com/",
        "http://exa mple.com/",
        "http://[::1%25eth0]/mcp",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_INFO",
        "http:///mcp",
        "http://ⓔxample.com/",
        "http://例え。テスト/",
        "//example.com/",
        "http://example.com:80:90/",
        "http://example.com./mcp",
        "http://example.com\r\nHost:x/",
    ],
)
def test_addresses_that_mean_one_thing_here_and_another_there_are_refused_at_the_door(teams: Teams, url: str) -> None:
    body = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "McpServer",
        "metadata": {"name": "trick", "namespace": teams.older.namespace},
        "spec": {"url": url},
    }
    path = f"/apis/fairlead.dev/v1alpha1/namespaces/{teams.older.namespace}/mcpservers"
    status, answer = teams.older.request("POST", path, body)
    assert status == 422, answer
