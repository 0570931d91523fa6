"""A gateway in front of a server with tasks (`taskserver`), and the requests of a client that supports tasks."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from msgspec import Raw

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from gatewayworld import Ask, Wire, ask, calling, catalog, modern, running
from policyworld import Vouching, anybody, by
from rawserver import RawServer, raw_server
from taskserver import CAPABILITIES, DECLARING, TaskServer

TOOLS: Final = ("job", "must", "rogue", "plain")
DENIED: Final = Rules(
    policies=(
        Policy(
            namespace="default",
            name="no",
            every=True,
            rules=(Rule(action="Deny", tools=("job",)), Rule(action="Allow", tools=("*",))),
        ),
    ),
    judged={"default": ("demo",)},
)


def demo(url: str, **more: Any) -> Catalog:
    return catalog("demo", url, TOOLS, capabilities=Raw(CAPABILITIES), **more)


@contextlib.asynccontextmanager
async def world(folder: Path, server: TaskServer, **settings: Any) -> AsyncIterator[tuple[Gateway, RawServer]]:
    async with raw_server(server.handle) as raw, running(folder, demo(raw.url), **settings) as gateway:
        yield gateway, raw


def calls(name: str = "job", ends: Any = None, number: int = 1, **more: Any) -> Ask:
    """A tool call of a client that supports tasks."""
    return calling(f"demo__{name}", {} if ends is None else {"ends": ends}, number=number, **{**DECLARING, **more})


def about(method: str, task: str, header: str | None = "", **params: Any) -> Ask:
    """A request about a task; most clients leave `Mcp-Name` out."""
    named = {} if header == "" else {"mcp_name": header}
    return modern(method, {"taskId": task, **params}, **DECLARING).with_headers(**named)


async def create_task(gateway: Gateway, *args: Any, **more: Any) -> str:
    result = (await ask(gateway, calls(*args, **more))).message["result"]
    assert result["resultType"] == "task", result
    return str(result["taskId"])


def trust_in(*names: str) -> Trust:
    return Trust((Vouching(*(anybody(name) for name in names)),))


async def listen_to_tasks(wire: Wire, tasks: list[str], who: str = "") -> dict[str, Any]:
    """Open a stream of notifications for these tasks. Returns the granted subscriptions."""
    wanted = {"taskIds": tasks, "toolsListChanged": True}
    request = modern("subscriptions/listen", {"notifications": wanted}, number="s", **DECLARING)
    wire.send(by(who, request) if who else request)
    return dict((await notification(wire))["params"]["notifications"])


async def notification(wire: Wire) -> dict[str, Any]:
    async with asyncio.timeout(20):
        event = await wire.reader.readuntil(b"}\n\n")
    return dict(json.loads(event.rpartition(b"data: ")[2]))
