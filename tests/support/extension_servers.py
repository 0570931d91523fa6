"""Two servers with equal names of tools and resources at one gateway (`AppServer`, `SkillServer`), and a host's
requests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from fairlead_api.documents.catalog import Catalog
from fairlead_app.gateway import Gateway
from fairlead_mcp.methods import MCP_NAME_MEMBER, SKILLS, UI
from gatewayworld import LEGACY, META, MODERN, Answer, Ask, ask, legacy, modern, running
from rawserver import Reply, Request, raw_server

MERGED: Final = "/mcp"
OWN: Final = "/servers/default/a/mcp"
ERAS: Final = [(MODERN, MODERN), (MODERN, LEGACY), (LEGACY, MODERN), (LEGACY, LEGACY)]
"""Eras of the client and of its server."""
DECLARED: Final[dict[str, Any]] = {META + "clientCapabilities": {"extensions": {UI: {}, SKILLS: {}}}}
"""`_meta` of a host."""
HELLO: Final = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


class Sharing(Protocol):
    """A server of one era, and its catalog."""

    def __init__(self, name: str, era: str) -> None: ...

    def catalog(self, url: str, **more: Any) -> Catalog: ...

    async def handle(self, request: Request, reply: Reply) -> None: ...


S = TypeVar("S", bound=Sharing)


@contextlib.asynccontextmanager
async def world(
    kind: type[S], folder: Path, *documents: Any, era: str = MODERN, pinned: bool = False
) -> AsyncIterator[tuple[Gateway, S, S]]:
    """A gateway in front of the servers `a`, which may be pinned, and `b`."""
    a = kind("a", era)
    b = kind("b", era)
    async with (
        raw_server(a.handle) as server_a,
        raw_server(b.handle) as server_b,
        running(folder, a.catalog(server_a.url, pinned=pinned), b.catalog(server_b.url), *documents) as gateway,
    ):
        yield gateway, a, b


def host_request(method: str, params: dict[str, Any], era: str = MODERN, target: str = MERGED) -> Ask:
    """Request of a host of one era."""
    if era == LEGACY:
        return legacy(method, params).to(target)
    named = params.get(MCP_NAME_MEMBER.get(method, ""))
    return modern(method, params, **DECLARED).with_headers(mcp_name=named).to(target)


async def read(gateway: Gateway, uri: str, era: str = MODERN, target: str = MERGED) -> Answer:
    return await ask(gateway, host_request("resources/read", {"uri": uri}, era, target))


async def extensions(gateway: Gateway) -> tuple[Any, Any]:
    """Extensions that the gateway announces to hosts of both eras."""
    modern_result = (await ask(gateway, modern("server/discover"))).message["result"]["capabilities"]
    legacy_result = (await ask(gateway, legacy("initialize", HELLO))).message["result"]["capabilities"]
    return modern_result.get("extensions"), legacy_result.get("extensions")
