"""`fairlead bridge` passes on all messages of the SDK's clients of both eras, and survives restarts of its gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest

from askers import PICKED, LegacyAsker, text_result
from commands import fairlead
from fairlead_app.authentication import build_trust
from fairlead_app.settings import Settings
from fairlead_cli.bridging.relay import Relay
from fairlead_cli.connecting import Destination
from forkserver import program_words
from gatewayworld import LEGACY, catalog, running
from ports import free_port
from rawserver import raw_server
from toolservers import Reply, Request, answer_modern, modern_server, serve_asgi, tool
from waiting import eventually

Mode = Literal["legacy", "auto"]
BOTH: tuple[Mode, ...] = ("legacy", "auto")
pytestmark = pytest.mark.timeout(60)


def bridge_parameters(url: str, *words: str, **environment: str) -> Any:
    """The bridge as a child process of a client."""
    command = [*program_words(), "bridge", url, *words]
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env={**os.environ, **environment}))


@contextlib.contextmanager
def expect_refusal(words: str) -> Iterator[None]:
    """Context in which an MCP error is expected, alone or in the exception groups of a client that cannot connect."""
    with pytest.raises((MCPError, ExceptionGroup)) as caught:
        yield
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, MCPError)
    assert re.search(words, str(error)), error


class ToolListChanges:
    """Message handler with an event for announced changes of the tool list."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.heard.set()


def words_of(result: Any) -> str:
    return "\n".join(item.text for item in result.content)


async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"x": "this"})


async def answer_sampling(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    text = types.TextContent(type="text", text="a model's word")
    return types.CreateMessageResult(role="assistant", content=text, model="m")


class Sdk:
    """An SDK server whose tools report, ask, and wait."""

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.server = server = MCPServer("demo")

        @server.tool()
        async def steps(ctx: Context) -> str:
            for step in range(3):
                await ctx.report_progress(step + 1, 3, f"step {step + 1}")
            return "done"

        @server.tool()
        async def sample(ctx: Context) -> str:
            question = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="?"))
            answer = await ctx.session.create_message([question], max_tokens=9)
            return words_of(type("", (), {"content": [answer.content]}))

        @server.tool()
        async def wait() -> str:
            self.waiting.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "late"

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        async with serve_asgi(self.server.streamable_http_app(transport_security=security)) as port:
            yield f"http://127.0.0.1:{port}/mcp"


@pytest.mark.parametrize("mode", BOTH)
async def test_a_call_its_progress_and_its_cancellation_go_through(mode: Mode) -> None:
    sdk = Sdk()
    seen = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message)

    async with sdk.served() as url, Client(bridge_parameters(url), mode=mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"steps", "sample", "wait"}
        result = await client.call_tool("steps", {}, progress_callback=on_progress)
        assert (words_of(result), seen) == ("done", ["step 1", "step 2", "step 3"])
        call = asyncio.create_task(client.call_tool("wait", {}))
        await sdk.waiting.wait()
        call.cancel()
        async with asyncio.timeout(20):
            await sdk.cancelled.wait()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        assert words_of(await client.call_tool("steps", {})) == "done"


@pytest.mark.parametrize("mode", BOTH)
async def test_a_tool_that_asks_its_client_is_answered(mode: Mode, tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("asks", server.url, [tool("ask")], version=LEGACY)) as gateway,
        Client(
            bridge_parameters(f"http://127.0.0.1:{gateway.port}/mcp"), mode=mode, elicitation_callback=elicit
        ) as client,
    ):
        assert json.loads(words_of(await client.call_tool("asks__ask", {}))) == [PICKED]


@pytest.mark.filterwarnings("ignore:The sampling capability is deprecated")  # for servers of 2025-11-25
async def test_a_server_that_asks_for_a_models_answer_gets_it() -> None:
    async with (
        Sdk().served() as url,
        Client(bridge_parameters(url), mode="legacy", sampling_callback=answer_sampling) as client,
    ):
        assert words_of(await client.call_tool("sample", {})) == "a model's word"


@pytest.mark.parametrize("mode", BOTH)
async def test_a_gateway_that_starts_again_is_reached_again(mode: Mode, tmp_path: Path) -> None:
    port = free_port()
    changes = ToolListChanges()
    url = f"http://127.0.0.1:{port}/mcp"

    async with modern_server([tool("rope")]) as server, contextlib.AsyncExitStack() as stack:
        document = catalog("demo", server.url, [tool("rope")])
        async with running(tmp_path, document, port=port):
            client = await stack.enter_async_context(
                Client(bridge_parameters(url), mode=mode, message_handler=changes.hear)
            )
            assert (await client.call_tool("demo__rope", {})).content
        changes.heard.clear()
        call = asyncio.create_task(client.call_tool("demo__rope", {}))
        async with running(tmp_path, document, port=port):
            assert (await call).content
            assert (await client.call_tool("demo__rope", {})).content
            if mode == "legacy":
                async with asyncio.timeout(20):
                    await changes.heard.wait()
        await stack.aclose()


async def test_a_session_that_a_server_forgot_is_opened_again_with_what_the_client_is(tmp_path: Path) -> None:
    asker = LegacyAsker()
    forgotten: list[Request] = []

    async def handle(request: Request, reply: Reply) -> None:
        if request.headers.get("mcp-session-id") == "s1" and request.method == "tools/call" and not forgotten:
            forgotten.append(request)
        if request.headers.get("mcp-session-id") == "s1" and forgotten:
            return reply.send(404)
        if request.method == "tools/list":
            return reply.result(request, {"tools": [tool("ask")]})
        return await asker.handle(request, reply)

    async with (
        raw_server(handle) as server,
        Client(bridge_parameters(server.url), mode="legacy", elicitation_callback=elicit) as client,
    ):
        for _ in range(2):
            assert json.loads(words_of(await client.call_tool("ask", {}))) == [PICKED]
    assert asker.sessions == 2
    assert asker.declared[0] == asker.declared[1]
    assert "elicitation" in asker.declared[1]


async def test_a_session_is_opened_again_by_an_answer_that_is_one_event_of_a_stream_that_stays_open() -> None:
    opened: list[Request] = []
    session = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}

    async def handle(request: Request, reply: Reply) -> None:
        if request.verb == "GET":
            return reply.send(405)
        if request.method == "initialize":
            opened.append(request)
            reply.open_stream(mcp_session_id=f"s{len(opened)}")
            reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
            reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": session})
            return await reply.flush()
        if request.method == "tools/list":
            return reply.result(request, {"tools": [tool("rope")]})
        if request.method != "tools/call":
            return reply.send(202)
        if request.headers["mcp-session-id"] == "s1":
            return reply.send(404)
        return reply.result(request, text_result("in the second session"))

    async with raw_server(handle) as server, Client(bridge_parameters(server.url), mode="legacy") as client:
        async with asyncio.timeout(20):
            assert words_of(await client.call_tool("rope", {})) == "in the second session"


async def test_notifications_come_again_after_a_restart_without_a_request(tmp_path: Path) -> None:
    port = free_port()
    changes = ToolListChanges()

    async with modern_server([tool("rope")]) as server, contextlib.AsyncExitStack() as stack:
        document = catalog("demo", server.url, [tool("rope")])
        async with running(tmp_path, document, port=port):
            client = await stack.enter_async_context(
                Client(bridge_parameters(f"http://127.0.0.1:{port}/mcp"), mode="legacy", message_handler=changes.hear)
            )
            assert (await client.call_tool("demo__rope", {})).content
        changes.heard.clear()
        async with running(tmp_path, document, port=port), asyncio.timeout(20):
            await changes.heard.wait()
            await stack.aclose()


async def test_a_call_that_may_have_been_made_is_not_made_twice(tmp_path: Path) -> None:
    calls: list[Request] = []

    async def handle(request: Request, reply: Reply) -> None:
        if request.method == "tools/call":
            calls.append(request)
            reply.close()
        else:
            answer_modern(request, reply, [tool("once")])

    async with raw_server(handle) as server, Client(bridge_parameters(server.url), mode="auto") as client:
        with expect_refusal("may have been executed"):
            await client.call_tool("once", {})
    assert len(calls) == 1


async def test_an_endpoint_that_is_away_is_an_error_that_says_so() -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    with expect_refusal(f"cannot reach {url}: the connection was refused. Is a gateway running there"):
        async with Client(bridge_parameters(url, "--patience", "0"), mode="legacy"):
            pass


async def test_a_key_comes_from_a_file_or_a_variable_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    key_file = tmp_path / "me.key"
    assert (await fairlead("keys", "create", "me", "--file", str(keys), "--out", str(key_file)))[0] == 0
    trust = build_trust(Settings.of(api_keys=keys))
    async with (
        modern_server([tool("rope")]) as server,
        running(tmp_path, catalog("demo", server.url, [tool("rope")]), trust=trust) as gateway,
    ):
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        ways: list[tuple[list[str], dict[str, str]]] = [
            (["--token", f"@{key_file}"], {}),
            (["--key-env", "MY_KEY"], {"MY_KEY": key_file.read_text().strip()}),
            ([], {"FAIRLEAD_TOKEN": key_file.read_text().strip()}),
        ]
        for words, environment in ways:
            async with Client(bridge_parameters(url, *words, **environment)) as client:
                assert (await client.call_tool("demo__rope", {})).content
        with expect_refusal("Give another credential with --token"):
            async with Client(bridge_parameters(url, "--token", "flk_wrong"), mode="legacy"):
                pass


async def test_the_bridge_tells_a_bad_url_a_missing_key_and_a_malformed_line(tmp_path: Path) -> None:
    code, out, err = await fairlead("bridge", "127.0.0.1:1/mcp")
    assert (code, out, "http://127.0.0.1:1/mcp" in err) == (2, "", True)
    code, _, err = await fairlead("bridge", "http://127.0.0.1:1/mcp", "--key-env", "NOT_SET")
    assert (code, "NOT_SET is not set" in err) == (2, True)
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    url = f"http://127.0.0.1:{free_port()}/mcp"
    code, out, _ = await fairlead("bridge", url, "--patience", "0", stdin=f"no message\n{json.dumps(hello)}\n")
    answers = [json.loads(line) for line in out.splitlines()]
    assert (code, [(answer["id"], answer["error"]["code"]) for answer in answers]) == (0, [(None, -32700), (1, -32000)])


async def test_the_bridge_says_what_a_url_without_a_path_lacks() -> None:
    async def handle(request: Request, reply: Reply) -> None:
        reply.send(404)

    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    async with raw_server(handle) as server:
        _, out, _ = await fairlead("bridge", f"http://127.0.0.1:{server.port}", "--patience", "0", stdin=f"{hello}\n")
    assert json.loads(out)["error"]["message"].endswith("; an MCP endpoint usually ends in /mcp")


async def test_the_bridge_delivers_an_answer_that_its_client_takes_only_after_closing_standard_input() -> None:
    relay = Relay(Destination(f"http://127.0.0.1:{free_port()}/mcp", {}, timeout=0))
    requests, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    to_client, answers = anyio.create_memory_object_stream[SessionMessage]()
    running_relay = asyncio.create_task(relay.run(from_client, to_client))
    await requests.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")))
    await eventually(lambda: to_client.statistics().tasks_waiting_send)
    requests.close()
    for _ in range(100):  # iterations of the loop in which the relay notices the end of the requests
        await asyncio.sleep(0)
    answer = answers.receive_nowait().message
    assert isinstance(answer, JSONRPCError)
    await running_relay
    for stream in (from_client, to_client, answers):
        stream.close()
