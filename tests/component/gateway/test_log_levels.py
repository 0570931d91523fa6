"""The gateway sets the log level of legacy servers to the most detailed level that a client wants."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

from askers import session_of
from fairlead_api.documents.catalog import ChildEndpoint
from fairlead_app.gateway import Gateway
from fairlead_mcp.host import ChildHost
from gated_stdio_server import CREDENTIAL, gated, write_token
from gatewayworld import LEGACY, META, ask, calling, catalog, legacy, modern, running
from rawserver import RawServer, Reply, Request, raw_server
from waiting import until_async

ALL = ("debug", "info", "warning", "error")
X = {"name": "demo__x", "arguments": {}}


class Quiet:
    """A legacy server that sends warnings and errors until a level is set. `lose`: makes it forget its sessions."""

    def __init__(self, capabilities: dict[str, Any] | None = None) -> None:
        self.capabilities = {"tools": {}, "logging": {}} if capabilities is None else capabilities
        self.levels: dict[str, str] = {}
        self._count = itertools.count()

    def report_loss(self) -> None:
        self.levels.clear()

    async def __call__(self, request: Request, reply: Reply) -> None:
        session = request.headers.get("mcp-session-id", "")
        if request.method == "initialize":
            session = f"s{next(self._count)}"
            self.levels[session] = "warning"
            info = {"name": "s", "version": "1"}
            hello = {"protocolVersion": LEGACY, "capabilities": self.capabilities, "serverInfo": info}
            reply.result(request, hello, mcp_session_id=session)
        elif request.verb == "GET":
            reply.send(405)
        elif request.verb == "DELETE" or session not in self.levels:
            reply.send(404)
        elif "id" not in request.message:
            reply.send(202)
        elif request.method == "logging/setLevel":
            self.levels[session] = request.params["level"]
            reply.result(request, {})
        else:
            reply.open_stream()
            for level in ALL[ALL.index(self.levels[session]) :]:
                params = {"level": level, "data": level}
                reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
            reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": {"content": []}})
            reply.end_stream()


async def client_of(gateway: Gateway, level: str | None, capabilities: dict[str, Any] | None = None) -> str:
    """Session of a client that requested log messages from `level` on."""
    session = await session_of(gateway, capabilities or {})
    if level is not None:
        await ask(gateway, legacy("logging/setLevel", {"level": level}, session=session))
    return session


async def received_levels(gateway: Gateway, session: str) -> list[str]:
    """The levels of the log messages that arrive with a call."""
    answer = await ask(gateway, calling("demo__x", era=LEGACY, session=session))
    return [event["params"]["level"] for event in answer.events if event.get("method") == "notifications/message"]


def requested_levels(server: RawServer) -> list[str]:
    return [request.params["level"] for request in server.seen if request.method == "logging/setLevel"]


async def test_a_server_that_is_quiet_by_itself_is_told_what_its_clients_want(tmp_path: Path) -> None:
    quiet = Quiet()
    async with (
        raw_server(quiet) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        curious, calm, indifferent = [await client_of(gateway, level) for level in ("debug", "error", None)]
        assert await received_levels(gateway, curious) == list(ALL)
        assert await received_levels(gateway, calm) == ["error"], "each client gets what it asked for itself"
        assert await received_levels(gateway, curious) == list(ALL), (
            "one that wants less takes nothing from one that wants more"
        )
        await received_levels(gateway, indifferent)
        assert requested_levels(server) == ["debug"], "said once"


async def test_in_a_session_of_many_a_client_that_wants_less_takes_nothing_from_those_that_said_nothing(
    tmp_path: Path,
) -> None:
    async with (
        raw_server(Quiet()) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        calm = await client_of(gateway, "emergency")
        assert await received_levels(gateway, calm) == []
        assert requested_levels(server) == ["info"]


async def test_the_session_of_one_client_is_set_to_just_its_level(tmp_path: Path) -> None:
    async with (
        raw_server(Quiet()) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        mine = await client_of(gateway, "error", {"elicitation": {}})
        assert await received_levels(gateway, mine) == ["error"]
        await ask(gateway, legacy("logging/setLevel", {"level": "debug"}, session=mine))
        assert await received_levels(gateway, mine) == list(ALL)
        await ask(gateway, legacy("logging/setLevel", {"level": "warning"}, session=mine))
        assert await received_levels(gateway, mine) == ["warning", "error"]
        assert requested_levels(server) == ["error", "debug", "warning"]


async def test_a_session_that_is_opened_again_gets_its_log_level_again(tmp_path: Path) -> None:
    quiet = Quiet()
    async with (
        raw_server(quiet) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        curious = await client_of(gateway, "debug")
        assert await received_levels(gateway, curious) == list(ALL)
        quiet.report_loss()
        assert await received_levels(gateway, curious) == list(ALL)
        assert requested_levels(server) == ["debug", "debug"]


async def test_a_modern_client_that_asks_for_messages_gets_those_of_a_quiet_legacy_server(tmp_path: Path) -> None:
    async with (
        raw_server(Quiet()) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        answer = await ask(gateway, modern("tools/call", X, **{META + "logLevel": "debug"}))
        assert [event["params"]["level"] for event in answer.events if "method" in event] == list(ALL)


async def test_a_server_without_log_messages_is_left_alone(tmp_path: Path) -> None:
    async with (
        raw_server(Quiet({"tools": {}})) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        await received_levels(gateway, await client_of(gateway, "debug"))
        assert requested_levels(server) == []


ON_STDIO = """\
import json, sys
level, levels = "warning", ["debug", "info", "warning", "error"]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}
    if message["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}},
                            "serverInfo": {"name": "s", "version": "1"}}
    elif message["method"] == "logging/setLevel":
        level = message["params"]["level"]
    elif message["method"] == "tools/call":
        for said in levels[levels.index(level):]:
            params = {"level": said, "data": said}
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params}))
    else:
        answer = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "?"}}
    print(json.dumps(answer), flush=True)
"""


async def test_a_client_with_a_process_of_its_own_in_a_pod_gets_its_log_messages(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(ON_STDIO)
    write_token(tmp_path)
    async with gated(str(script)) as server:
        document = catalog("demo", server.endpoint, ["x"], version=LEGACY, session="PerClient", credential=CREDENTIAL)
        async with running(tmp_path, document) as gateway:
            curious = await client_of(gateway, "debug")
            calm = await client_of(gateway, "error")
            assert await received_levels(gateway, curious) == list(ALL)
            assert await received_levels(gateway, calm) == ["error"]
            for process in server.servers:
                os.kill(process, signal.SIGKILL)

            async def receives_all_levels() -> bool:
                return await received_levels(gateway, curious) == list(ALL)

            await until_async("the messages of a new process", receives_all_levels)


async def test_a_client_with_a_child_process_of_its_own_gets_its_log_messages(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(ON_STDIO)
    children = ChildHost()
    try:
        reached = ChildEndpoint(command=sys.executable, args=(str(script),))
        document = catalog("demo", reached, ["x"], version=LEGACY, session="PerClient")
        async with running(tmp_path, document, children=children) as gateway:
            curious = await client_of(gateway, "debug")
            calm = await client_of(gateway, "error")
            assert await received_levels(gateway, curious) == list(ALL)
            assert await received_levels(gateway, calm) == ["error"]
            assert await received_levels(gateway, curious) == list(ALL)
    finally:
        await children.aclose()
