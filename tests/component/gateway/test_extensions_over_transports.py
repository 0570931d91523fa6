"""Apps and skills of servers over transports other than streamable HTTP, also with a session for each client."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Raw

from extension_servers import extensions, host_request, read
from fairlead_api.documents.catalog import Catalog, ChildEndpoint, Definition, Endpoint
from fairlead_mcp.host import ChildHost
from fairlead_mcp.methods import SKILLS, UI
from gatewayworld import LEGACY, MODERN, ask, catalog, running
from linkservers import events_server, tcp_server
from stdio_servers.extensions_stdio import APP, CAPABILITIES, NOTES, SKILL, TOOL, entry_of, response, text_of
from toolservers import EXTENSIONS_STDIO

REACHED: Final = ("child", "gate", "events")
URIS: Final = (APP, SKILL, NOTES)


@contextlib.asynccontextmanager
async def server(name: str, reached: str) -> AsyncIterator[Endpoint]:
    """A server whose tools, apps and skills have the same names as those of all other servers here."""
    if reached == "child":
        yield ChildEndpoint(command=sys.executable, args=(EXTENSIONS_STDIO, name))
        return
    made = tcp_server if reached == "gate" else events_server
    async with made(partial(response, name)) as endpoint:
        yield endpoint


def make_catalog(name: str, endpoint: Endpoint, session: str) -> Catalog:
    def definition(uri: str, raw: dict[str, Any]) -> tuple[Definition, ...]:
        return (Definition(name=uri, definition=Raw(json.dumps(raw).encode()), hash=""),)

    return catalog(
        name,
        endpoint,
        [TOOL],
        version=LEGACY,
        session=session,
        capabilities=Raw(json.dumps(CAPABILITIES).encode()),
        resources=definition(APP, {"uri": APP, "name": "app"}),
        skills=definition(SKILL, entry_of(name)),
    )


@pytest.mark.parametrize("session", ["Shared", "PerClient"])
@pytest.mark.parametrize("reached", REACHED)
async def test_apps_and_skills_of_each_server_pass_over_every_transport(
    tmp_path: Path, reached: str, session: str
) -> None:
    """Tested with two replicas, clients of both eras, and both kinds of endpoint."""
    hosts = [ChildHost(), ChildHost()]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    try:
        async with server("a", reached) as a, server("b", reached) as b:
            documents = [make_catalog(name, endpoint, session) for name, endpoint in (("a", a), ("b", b))]
            settings: dict[str, Any] = {"shared_children": False}
            async with (
                running(tmp_path / "one", *documents, children=hosts[0], **settings) as first,
                running(tmp_path / "two", *documents, children=hosts[1], **settings) as second,
            ):
                for gateway, era in ((first, MODERN), (second, LEGACY)):
                    assert await extensions(gateway) == ({UI: {}, SKILLS: {}},) * 2
                    listed = (await ask(gateway, host_request("skills/list", {}, era))).message["result"]["skills"]
                    for name, skill in zip("ab", listed, strict=True):
                        shown = [f"{scheme}://{name}/{rest}" for scheme, rest in (uri.split("://") for uri in URIS)]
                        got = (await ask(gateway, host_request("skills/get", {"uri": shown[1]}, era))).message["result"]
                        assert got["skill"] == skill
                        assert [file["uri"] for file in skill["resources"]] == shown[1:]
                        digests = [None, *(file["digest"] for file in skill["resources"])]
                        for uri, own, digest in zip(shown, URIS, digests, strict=True):
                            content = (await read(gateway, uri, era)).message["result"]["contents"][0]
                            assert (content["uri"], content["text"]) == (uri, text_of(name, own))
                            digest_read = hashlib.sha256(content["text"].encode()).hexdigest()
                            assert digest in (None, f"sha256:{digest_read}")
                        called = await ask(gateway, host_request("tools/call", {"name": f"{name}__show"}, era))
                        assert called.message["result"]["content"][0]["uri"] == shown[0]
                        there = f"/servers/default/{name}/mcp"
                        content = (await read(gateway, SKILL, era, there)).message["result"]["contents"][0]
                        assert (content["uri"], content["text"]) == (SKILL, text_of(name, SKILL))
    finally:
        for host in hosts:
            await host.aclose()
