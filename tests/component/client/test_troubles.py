"""Servers of a registry that hang, die and announce changes; transports other than streamable HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fairlead_client import AsyncToolRegistry, ExecutionError, Retry, Server, UnknownFunction
from fairlead_mcp.errors import ConnectionLost, McpError
from rawserver import Reply, Request, raw_server
from serverprocesses import sse_server
from toolservers import LEGACY_STDIO, SDK_STDIO, SDK_TOOLS, answer_modern, modern_server, tool
from waiting import eventually, until, until_async

MARKING = str(Path(SDK_STDIO).with_name("marking_stdio.py"))


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def pid_of(registry: AsyncToolRegistry, server: str) -> int:
    host = registry._connector._host
    assert host is not None
    child = host.find(server)
    assert child is not None
    assert child.program.pid is not None
    return child.program.pid


async def test_a_server_that_is_killed_under_a_call_ends_the_call_and_comes_back_with_the_next() -> None:
    lost: list[tuple[str, McpError | None]] = []
    async with AsyncToolRegistry(
        [Server(name="s", command=[sys.executable, LEGACY_STDIO])],
        on_disconnect=lambda name, error: lost.append((name, error)),
    ) as registry:
        call = asyncio.create_task(registry.execute("s__later", {"n": 99}))
        await registry.execute("s__echo")  # the earlier call has been sent
        os.kill(pid_of(registry, "s"), signal.SIGKILL)
        outcome = await asyncio.wait_for(call, 20)
        assert isinstance(outcome.error, ExecutionError)
        assert isinstance(outcome.error.cause, ConnectionLost)
        assert "SIGKILL" in str(outcome.error)
        await eventually(lambda: [name for name, _ in lost] == ["s"])
        assert (await registry.execute("s__echo", {"x": 1})).text == '{"x": 1}'


async def test_a_server_that_is_killed_while_nobody_calls_is_offline_at_once() -> None:
    async with AsyncToolRegistry([Server(name="s", command=[sys.executable, LEGACY_STDIO])]) as registry:
        os.kill(pid_of(registry, "s"), signal.SIGKILL)
        await eventually(lambda: not registry.tools)
        assert len(await registry.get_all_tools()) == 6


async def test_a_process_that_dies_is_not_restarted_by_each_look_at_the_tools(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    program = f"open({str(starts)!r}, 'a').write('x'); raise SystemExit('no key was given')"
    now = 1000.0
    async with AsyncToolRegistry(
        [Server(name="dead", command=[sys.executable, "-c", program])], clock=lambda: now
    ) as registry:
        for _ in range(20):
            assert await registry.get_all_tools() == ()
            assert await registry.get_openai_tools() == []
        outcome = await registry.execute("dead__anything")
        assert len(starts.read_text()) == 1
        assert "no key was given" in outcome.text
        assert "restarts it, and refresh_cache() restarts it now" in outcome.text
        assert isinstance(outcome.error, ExecutionError)
        assert outcome.error.retryable
        assert outcome.error.retry_after is not None
        assert 0 < outcome.error.retry_after <= 1
        now += 1
        for _ in range(3):
            await registry.get_all_tools()
        assert len(starts.read_text()) == 2
        await registry.refresh_cache()
        await registry.health_check()
        registry.clear_cache()
        await registry.get_all_tools()
        assert len(starts.read_text()) == 5


async def test_a_lookup_does_not_wait_for_long_for_a_process_that_failed(tmp_path: Path) -> None:
    failed = tmp_path / "failed"
    program = f"""
        import os, sys, time
        if os.path.exists({str(failed)!r}):
            time.sleep(600)
        open({str(failed)!r}, "w")
        sys.exit("no key was given")
    """
    now = 1000.0
    command = [sys.executable, "-c", textwrap.dedent(program)]
    async with AsyncToolRegistry([Server(name="s", command=command)], clock=lambda: now) as registry:
        now += 1
        assert await asyncio.wait_for(registry.get_all_tools(), 20) == ()
        assert registry._connector._host is not None
        assert registry._connector._host.find("s") is not None  # the server is still being started


async def test_a_process_that_dies_as_it_lists_its_tools_is_left_alone_too(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    program = f"""
        import sys
        with open({str(starts)!r}, "a") as file:
            file.write("x")
        for line in sys.stdin:
            if '"initialize"' in line:
                print('{{"jsonrpc": "2.0", "id": ' + str(__import__("json").loads(line)["id"]) + ', "result": '
                      '{{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}}, "serverInfo": '
                      '{{"name": "s", "version": "1"}}}}}}', flush=True)
            elif "tools/list" in line:
                sys.exit("the database is gone")
            elif "server/discover" in line:
                print('{{"jsonrpc": "2.0", "id": ' + str(__import__("json").loads(line)["id"]) + ', "error": '
                      '{{"code": -32601, "message": "no"}}}}', flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    async with AsyncToolRegistry([Server(name="s", command=command)], clock=lambda: 1000.0) as registry:
        for _ in range(5):
            await registry.get_all_tools()
        outcome = await registry.execute("s__x")
        assert "the database is gone" in outcome.text
        assert len(starts.read_text()) == 1


async def test_no_process_is_left_when_the_registry_is_closed() -> None:
    async with AsyncToolRegistry([Server(name="s", command=[sys.executable, LEGACY_STDIO])]) as registry:
        pid = pid_of(registry, "s")
        await registry.close_mcp_clients()
        await eventually(lambda: is_gone(pid))
        await registry.get_all_tools()
        pid = pid_of(registry, "s")
    assert is_gone(pid)


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


async def test_a_call_that_is_given_up_is_cancelled_at_a_legacy_server() -> None:
    async with AsyncToolRegistry([Server(name="s", command=[sys.executable, LEGACY_STDIO])]) as registry:
        outcome = await registry.execute("s__later", {"n": 99}, timeout=0.5)
        assert outcome.error is not None
        assert outcome.error.code == "TIMEOUT"
        assert "notifications/cancelled" in (await registry.execute("s__seen")).text


async def test_tools_behind_http_with_sse_are_listed_and_called_and_their_loss_is_noticed() -> None:
    lost: list[str] = []
    async with sse_server() as url:
        registry = AsyncToolRegistry(
            [Server(name="s", url=url, transport="sse")], on_disconnect=lambda name, error: lost.append(name)
        )
        await registry.start()
        assert [tool.own_name for tool in registry.tools] == list(SDK_TOOLS)
        assert (await registry.execute("s__add", {"a": 1, "b": 2})).value == {"result": 3}
        assert await registry.health_check() == {"s": True}
    await eventually(lambda: lost == ["s"])
    assert registry.tools == ()
    await registry.close()


async def test_a_legacy_server_announces_changes_on_its_stream() -> None:
    streams: list[Reply] = []
    tools = [tool("early")]

    async def handle(request: Request, reply: Reply) -> None:
        if request.verb == "GET":
            reply.open_stream()
            streams.append(reply)
        elif request.method == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            reply.result(request, {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": {}})
        elif request.method == "tools/list":
            reply.result(request, {"tools": tools})
        elif request.method == "server/discover":
            reply.error(request, 400, -32000, "Server not initialized")
        else:
            reply.send(202)

    async with raw_server(handle) as server, AsyncToolRegistry([Server(name="s", url=server.url)]) as registry:
        await eventually(lambda: streams)
        tools.append(tool("late"))
        assert [tool.own_name for tool in await registry.get_all_tools()] == ["early"]
        streams[0].event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

        async def both() -> bool:
            return [tool.own_name for tool in await registry.get_all_tools()] == ["early", "late"]

        await until_async("the announced tool is listed", both)


async def test_a_lookup_does_not_wait_for_long_for_a_server_that_was_slow() -> None:
    go = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        await go.wait()
        answer_modern(request, reply, [tool("a")])

    async with raw_server(handle) as server:
        slow = Server(name="s", url=server.url)
        async with AsyncToolRegistry([slow], connect_timeout=0.5) as registry:
            registry._connector.connect_seconds = 30  # longer than this test waits
            assert await registry.get_all_tools() == ()  # the connection is still being tried
            go.set()
            await eventually(lambda: registry.tools)


async def test_a_name_is_looked_for_no_longer_than_the_timeout_of_the_call() -> None:
    async def handle(request: Request, reply: Reply) -> None:
        await asyncio.Event().wait()

    async with raw_server(handle) as server:
        hanging = Server(name="s", url=server.url)
        async with AsyncToolRegistry([hanging], initialize_on_startup=False, connect_timeout=50) as registry:
            for name, code in (("s__a", "TIMEOUT"), ("mcp.s.a", "TIMEOUT"), ("a", "UNKNOWN_TOOL")):
                outcome = await asyncio.wait_for(registry.execute(name, timeout=0.1), 20)
                assert outcome.error is not None
                assert outcome.error.code == code, name


async def test_a_name_with_the_prefix_of_a_server_that_was_never_there_is_not_called_unknown() -> None:
    async with (
        modern_server([tool("a")]) as here,
        AsyncToolRegistry(
            [Server(name="gone", url="http://127.0.0.1:1/mcp"), Server(name="here", url=here.url)]
        ) as registry,
    ):
        lost = await registry.execute("gone__a")
        assert isinstance(lost.error, ExecutionError)
        assert (lost.error.code, lost.error.retryable) == ("CONNECTION_LOST", True)
        assert isinstance((await registry.execute("here__b")).error, UnknownFunction)


async def test_a_reason_to_leave_a_server_out_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with AsyncToolRegistry([Server(name="s", url="http://127.0.0.1:1/mcp")]) as registry:
        await registry.get_all_tools()
        await registry.get_all_tools()
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


ODD_TOOLS = [
    tool("good"),
    tool("good", description="listed twice"),
    tool("with blank/slash\x07 " + "x" * 200),
    tool("no schema", inputSchema=None),
    tool("wrong schema", inputSchema="text"),
    tool("large", description="d" * (1 << 20), inputSchema={"type": "object", "description": "s" * (5 << 20)}),
    tool("deep", inputSchema={"type": "object", "properties": {"a": {"$ref": "#"}}}),
    {"name": "", "inputSchema": {}},
    {"name": 7},
    {"inputSchema": {}},
    *[tool(f"many_{number}") for number in range(2000)],
]


async def test_a_server_with_odd_tools_harms_neither_its_other_tools_nor_other_servers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with modern_server(ODD_TOOLS) as odd, modern_server([tool("a")]) as plain:
        servers = [Server(name="odd", url=odd.url), Server(name="plain", url=plain.url)]
        async with AsyncToolRegistry(servers) as registry:
            names = {tool.name for tool in registry.tools}
            assert len(names) == 2007
            for provider in ("openai", "anthropic", "gemini", "bedrock"):
                offered = await registry.get_tool_definitions(provider)
                refused = {loss.tool for loss in offered.report if loss.action == "refused"}
                assert refused <= {"odd__no schema", "odd__wrong schema"}, provider
            for name in ("odd__good", "odd__large", "odd__deep", "odd__no schema", "plain__a"):
                assert (await registry.execute(name, {})).ok, name
    assert caplog.text.count("a tool of server odd is left out") == 3


async def test_a_server_that_does_not_start_is_told_of_in_the_words_that_say_why() -> None:
    program = "import sys; print('Error: no key', 'Node.js v20.20.2', sep='\\n', file=sys.stderr); sys.exit(1)"
    async with AsyncToolRegistry([Server(name="s", command=[sys.executable, "-c", program])]) as registry:
        message = str((await registry.execute("s__a", {})).error)
    assert message.startswith(
        "s exited with code 1: Error: no key (the server failed once; the first use after 1 s restarts it"
    )


async def test_the_log_of_a_registry_promises_no_start_that_its_calls_do_not_wait_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = "import sys; sys.exit(\"ModuleNotFoundError: No module named 'a_server'\")"
    async with AsyncToolRegistry([Server(name="s", command=[sys.executable, "-c", program])]) as registry:
        message = str((await registry.execute("s__a", {})).error)
    reason = "s exited with code 1: ModuleNotFoundError: No module named 'a_server'"
    assert message.startswith(f"{reason} (the server failed once; the first use after 1 s restarts it")
    assert reason in caplog.messages
    assert "next start in" not in caplog.text


async def test_registries_that_connect_again_and_again_leave_nothing_behind() -> None:
    async with modern_server([tool("a")]) as server:
        servers = [Server(name="http", url=server.url), Server(name="child", command=[sys.executable, LEGACY_STDIO])]
        async with AsyncToolRegistry(servers) as registry:

            async def cycle() -> tuple[int, int]:
                await registry.close_mcp_clients()
                await registry.get_all_tools()
                assert (await registry.execute("http__a")).ok
                return len(asyncio.all_tasks()), open_files()

            await cycle()
            tasks, files = await cycle()
            later = [await cycle() for _ in range(20)]
            assert later[-1][0] <= tasks + 2
            assert later[-1][1] <= files + 4


def test_an_interrupt_ends_the_wait_and_cancels_the_call(tmp_path: Path) -> None:
    program = f"""
        import signal, sys
        from fairlead_client import Server, ToolRegistry

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without it
        with ToolRegistry([Server(name="s", command=[sys.executable, {MARKING!r}])]) as registry:
            try:
                registry.execute("s__mark", {{"file": {str(tmp_path / "called")!r}, "seconds": 600}})
            except KeyboardInterrupt:
                print("interrupted")
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    until("the tool runs", (tmp_path / "called").exists, seconds=40)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=40)
    assert (output, process.returncode) == ("interrupted\n", 0)


@pytest.mark.network
@pytest.mark.timeout(240)
async def test_a_package_is_fetched_and_run() -> None:
    time_server = Server(name="time", package="pypi:mcp-server-time==2026.10.19", args=["--local-timezone", "UTC"])
    async with AsyncToolRegistry([time_server], start_timeout=200) as registry:
        outcome = await registry.execute("time__get_current_time", {"timezone": "UTC"}, retry=Retry())
        assert outcome.ok
        assert '"timezone": "UTC"' in outcome.text
