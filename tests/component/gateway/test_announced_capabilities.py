"""Capabilities that an endpoint declares for its servers: it declares only capabilities that clients can use."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import ChildEndpoint, Definition, Endpoint, EventsEndpoint, HttpEndpoint
from fairlead_mcp.host import ChildHost
from fairlead_mcp.methods import TASKS
from gatewayworld import LEGACY, MODERN, ask, catalog, legacy, modern, running
from taskserver import DECLARING
from toolservers import LEGACY_STDIO

HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
WATCHED = Definition(name="test://one", hash="", definition=Raw(b'{"uri":"test://one","name":"one"}'))
CHILD = ChildEndpoint(command=sys.executable, args=(LEGACY_STDIO,))


async def declared_capabilities(gateway: Any) -> list[dict[str, Any]]:
    """The declared capabilities for a modern and for a legacy client."""
    answers = [await ask(gateway, modern("server/discover")), await ask(gateway, legacy("initialize", HELLO))]
    return [answer.message["result"]["capabilities"] for answer in answers]


@pytest.mark.parametrize(("version", "has_tasks"), [(MODERN, True), (LEGACY, False)])
async def test_tasks_are_declared_where_a_server_of_their_revision_has_them(
    tmp_path: Path, version: str, has_tasks: bool
) -> None:
    """A legacy server with the extension cannot create tasks (SEP-2663), so the extension is not declared."""
    capabilities = Raw(b'{"tools":{},"extensions":{"%b":{}}}' % TASKS.encode())
    document = catalog("demo", "http://127.0.0.1:1/mcp", ["job"], version=version, capabilities=capabilities)
    async with running(tmp_path, document) as gateway:
        new, old = await declared_capabilities(gateway)
        assert (TASKS in new.get("extensions", {}), "extensions" in old) == (has_tasks, False)
        answer = await ask(gateway, modern("tasks/get", {"taskId": "t1"}, **DECLARING))
        assert (answer.status, answer.code) == ((400, -32602) if has_tasks else (404, -32601))


@pytest.mark.parametrize(
    ("endpoint", "session", "passed_on"),
    [
        (HttpEndpoint(url="http://127.0.0.1:1/mcp"), "Shared", True),
        (EventsEndpoint(url="http://127.0.0.1:1/sse"), "Shared", False),
        (CHILD, "Shared", False),
        (CHILD, "PerClient", True),
    ],
)
async def test_log_messages_are_declared_where_they_reach_their_client(
    tmp_path: Path, endpoint: Endpoint, session: str, passed_on: bool
) -> None:
    capabilities = Raw(b'{"tools":{},"logging":{}}')
    document = catalog("demo", endpoint, ["job"], version=MODERN, session=session, capabilities=capabilities)
    children = ChildHost()
    try:
        async with running(tmp_path, document, children=children) as gateway:
            new, _ = await declared_capabilities(gateway)
            assert ("logging" in new) is passed_on
    finally:
        await children.aclose()


@pytest.mark.parametrize("session", ["Shared", "PerClient"])
@pytest.mark.parametrize(
    ("endpoint", "subscribes"),
    [
        (HttpEndpoint(url="http://127.0.0.1:1/mcp"), True),
        (EventsEndpoint(url="http://127.0.0.1:1/sse"), False),
        (CHILD, False),
    ],
    ids=["http", "events", "stdio"],
)
async def test_subscriptions_are_declared_where_updates_can_be_told_apart(
    tmp_path: Path, endpoint: Endpoint, subscribes: bool, session: str
) -> None:
    document = catalog(
        "demo",
        endpoint,
        version=LEGACY,
        session=session,
        resources=(WATCHED,),
        capabilities=Raw(b'{"resources":{"subscribe":true}}'),
    )
    children = ChildHost()
    try:
        async with running(tmp_path, document, children=children) as gateway:
            for capabilities in await declared_capabilities(gateway):
                assert capabilities["resources"].get("subscribe", False) is subscribes
            own = (await ask(gateway, legacy("initialize", HELLO))).headers["mcp-session-id"]
            answer = await ask(gateway, legacy("resources/subscribe", {"uri": "test://one"}, session=own))
            refused = "does not support subscriptions" in answer.message.get("error", {}).get("message", "")
            assert refused is not subscribes
    finally:
        await children.aclose()
