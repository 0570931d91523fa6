"""A deleted server's public names: no other server gets them, and every status, command and page says why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane import ControlPlane
from fairlead_api.documents.codec import SERVERS_NAME, decode
from fairlead_api.documents.servers import ServerEntry, Servers
from fairlead_api.meta import ANNOTATION_RELEASE_PREFIX
from fairlead_cli.servers.showing import details, row
from gatewayworld import ask, calling
from operatorworld import World, release_namespace, running
from restworld import get
from togetherworld import serving, shows
from toolservers import modern_server, tool
from waiting import until_async


@pytest.fixture
def teams(control_plane: ControlPlane, namespace: str) -> Iterator[tuple[World, World]]:
    """Namespaces of two tenants of one release."""
    other = control_plane.create_namespace(f"{namespace}-heir")
    with release_namespace(control_plane, namespace) as release:
        yield World(control_plane, namespace, release), World(control_plane, other, release)
    control_plane.remove_namespace(other)


def says(text: str) -> Any:
    return lambda request: {"content": [{"type": "text", "text": text}]}


def entry(world: World, name: str) -> ServerEntry | None:
    """Entry of a server in the servers document."""
    data = world.documents().get(SERVERS_NAME)
    document = decode(data) if data is not None else Servers()
    assert isinstance(document, Servers)
    return next((each for each in document.servers if (each.namespace, each.name) == (world.namespace, name)), None)


def columns(world: World, *options: str) -> dict[str, str]:
    """kubectl's output about the only server of a namespace, by column."""
    header, cells = world.plane.kubectl("-n", world.namespace, "get", "mcps", *options).stdout.splitlines()
    words = [*re.finditer(r"\S+", header)]
    ends = [*(word.start() for word in words[1:]), None]
    return {word.group(): cells[word.start() : end].strip() for word, end in zip(words, ends, strict=True)}


async def test_a_deleted_servers_prefix_stays_with_its_owner(teams: tuple[World, World]) -> None:
    """The server is deleted and created again, and the operator is replaced in between."""
    owner, heir = teams
    async with (
        modern_server([tool("add")], call=says("owner")) as server,
        modern_server([tool("add")], call=says("heir")) as rival,
        serving(owner) as gateway,
    ):
        async with running(owner):
            owner.create("demo", {"url": server.url})
            await owner.until("Ready", lambda: owner.is_("demo", "Ready", "True"))
            heir.create("demo", {"url": rival.url})
            await heir.until("told", lambda: heir.is_("demo", "Conflicted", "True", "PrefixTaken"))
            await until_async("the owner's tool", shows(gateway, "demo__add"))
            assert owner.request("DELETE", owner.server_path("demo"))[0] == 200
            await heir.until("told", lambda: heir.is_("demo", "Conflicted", "True", "PrefixReserved"))
            await until_async("no tool", shows(gateway))
        async with running(owner):
            await heir.until("looked at", lambda: heir.is_("demo", "Ready", "True"))
            answer = await ask(gateway, calling("demo__add", {}))
            assert "heir" not in str(answer.message)
            owner.create("demo", {"url": server.url})
            await until_async("its tool again", shows(gateway, "demo__add"))
            answer = await ask(gateway, calling("demo__add", {}))
            assert answer.message["result"]["content"][0]["text"] == "owner"
            assert heir.is_("demo", "Conflicted", "True", "PrefixTaken")
    assert rival.seen
    assert all(request.message.get("method") != "tools/call" for request in rival.seen)


async def test_a_conflict_is_told_by_kubectl_status_documents_rest_and_command_line(
    teams: tuple[World, World],
) -> None:
    owner, heir = teams
    name = f"{owner.namespace}/demo"
    async with modern_server([tool("add")]) as server, running(owner), serving(owner) as gateway:
        owner.create("demo", {"url": server.url})
        await owner.until("Ready", lambda: owner.is_("demo", "Ready", "True"))
        heir.create("demo", {"url": server.url})
        await heir.until("told", lambda: heir.is_("demo", "Conflicted", "True", "PrefixTaken"))
        assert owner.request("DELETE", owner.server_path("demo"))[0] == 200
        await heir.until("told", lambda: heir.is_("demo", "Conflicted", "True", "PrefixReserved"))
        assert columns(heir)["CONFLICTED"] == "True"
        assert name in columns(heir, "-o", "wide")["CONFLICT"]
        assert name in heir.condition("demo", "Conflicted")["message"]
        listed = await heir.until("its entry", lambda: entry(heir, "demo"))
        assert listed is not None
        assert (listed.state, listed.prefix) == ("ready", None)
        assert name in listed.conflict

        async def is_served() -> bool:
            shown = await get(gateway, f"/v1/servers/{heir.namespace}/demo")
            return shown.status == 200 and "PrefixReserved" in str(shown.message.get("conflict"))

        await until_async("/v1/servers", is_served)
        shown = (await get(gateway, f"/v1/servers/{heir.namespace}/demo")).message
        assert (shown["state"], shown["prefix"]) == ("ready", None)
        assert row(shown)[-1] == "Conflicted"
        assert any(name in line for line in details([shown]))


async def test_the_namespace_of_a_deleted_server_hands_its_prefix_over(teams: tuple[World, World]) -> None:
    owner, heir = teams
    async with modern_server([tool("add")]) as server, running(owner):
        owner.create("demo", {"url": server.url})
        owner.create("other", {"url": server.url})
        await owner.until("Ready", lambda: owner.is_("demo", "Ready", "True"))
        heir.create("demo", {"url": server.url}, annotations={ANNOTATION_RELEASE_PREFIX: "demo"})
        await heir.until("told", lambda: heir.is_("demo", "Conflicted", "True", "PrefixTaken"))
        assert owner.request("DELETE", owner.server_path("demo"))[0] == 200
        await heir.until("told", lambda: heir.is_("demo", "Conflicted", "True", "PrefixReserved"))
        owner.patch_server("other", {"metadata": {"annotations": {ANNOTATION_RELEASE_PREFIX: "demo"}}})
        await heir.until("it is free", lambda: heir.condition("demo", "Conflicted") == {})
        await heir.until("served", lambda: (catalog := heir.catalog("demo")) is not None and catalog.prefix == "demo")
