"""The life of a child process, in virtual time and without processes."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any

import pytest

from fairlead_mcp.child import Child
from fairlead_mcp.eras import Era
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, PoolFull, Timeout
from fairlead_mcp.session import McpSession
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.stream_client import StreamState
from fakeprocesses import FakeLauncher, FakeProcess, host_of, legacy, modern, mute, now, silent

pytestmark = [pytest.mark.looptime(start=0)]
SPEC = ChildSpec("server")


@pytest.mark.parametrize(("server", "era"), [(modern, Era.MODERN), (legacy, Era.LEGACY)])
async def test_the_first_to_ask_gets_a_negotiated_child(server: Any, era: Era) -> None:
    host = host_of(FakeLauncher(server))
    child = host.get("a", SPEC)
    assert (await child.wait_until_ready(now() + 5)).era is era
    assert (child.state, child.program.pid, child.starts) == (StreamState.RUNNING, 1, 1)
    assert repr(child) == "<Child a running, 1 starts>"
    await host.aclose()


async def test_a_server_that_ignores_the_probe_is_initialized_after_a_while() -> None:
    launcher = FakeLauncher(silent)
    host = host_of(launcher)
    agreed = await host.get("a", SPEC).wait_until_ready(now() + 60)
    assert agreed.era is Era.LEGACY
    assert now() == pytest.approx(10)
    await host.aclose()


async def test_a_modern_server_that_is_slow_to_start_is_still_modern() -> None:
    held: list[dict[str, Any]] = []

    def late(process: FakeProcess) -> None:
        for message in held.copy():
            modern(process, message)

    def slow(process: FakeProcess, message: dict[str, Any]) -> None:
        held.append(message)
        if len(held) == 1:
            asyncio.get_running_loop().call_later(30, late, process)

    host = host_of(FakeLauncher(slow))
    agreed = await host.get("a", SPEC).wait_until_ready(now() + 60)
    assert agreed.era is Era.MODERN
    assert [message["method"] for message in held[:2]] == ["server/discover", "initialize"]
    await host.aclose()


async def test_a_server_that_ends_on_the_probe_is_initialized_the_next_time() -> None:
    def touchy(process: FakeProcess, message: dict[str, Any]) -> None:
        if message["method"] == "server/discover":
            process.die("exited with code 3")
        else:
            legacy(process, message)

    launcher = FakeLauncher(touchy)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    with pytest.raises(ConnectFailed, match="a exited with code 3"):
        await child.wait_until_ready(now() + 5)
    await asyncio.sleep(1)
    assert (await child.wait_until_ready(now() + 5)).era is Era.LEGACY
    await host.aclose()


async def test_a_handshake_without_an_answer_fails_the_start() -> None:
    host = host_of(FakeLauncher(mute))
    child = host.get("a", SPEC)
    with pytest.raises(Timeout):
        await child.wait_until_ready(now() + 60)
    with pytest.raises(ConnectFailed) as caught:
        await child.wait_until_ready(now() + 120)
    assert caught.value.reason == "StartTimeout"
    await host.aclose()


async def test_a_crash_fails_what_is_in_flight_and_what_comes_at_once() -> None:
    def server(process: FakeProcess, message: dict[str, Any]) -> None:
        if message["method"] != "tools/call":
            modern(process, message)

    launcher = FakeLauncher(server)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await child.wait_until_ready(now() + 5)
    requests = [asyncio.ensure_future(child.request("tools/call", None, deadline=now() + 60)) for _ in range(3)]
    await asyncio.sleep(0)
    launcher.launched[0].events.on_stderr("out of memory")
    launcher.launched[0].die("was killed by SIGKILL")
    results = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionLost] * 3
    assert str(results[0]) == "a was killed by SIGKILL: out of memory"
    assert child.state is StreamState.BACKOFF
    before = now()
    with pytest.raises(ConnectFailed) as caught:
        await child.request("tools/call", None, deadline=now() + 60)
    assert (caught.value.reason, now()) == ("ProcessExited", before)
    assert child.program.printed.stderr() == ("out of memory",)
    await host.aclose()


async def test_a_child_that_asks_and_reads_no_answer_is_ended_and_started_again() -> None:
    def server(process: FakeProcess, message: dict[str, Any]) -> None:
        if "method" not in message:
            raise PoolFull("the server does not read its input")
        if message["method"] != "tools/call":
            modern(process, message)

    launcher = FakeLauncher(server)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await child.wait_until_ready(now() + 5)
    call = asyncio.ensure_future(child.request("tools/call", None, deadline=now() + 60))
    await asyncio.sleep(0)
    launcher.launched[0].say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    with pytest.raises(PoolFull, match="does not read"):
        await call
    await asyncio.sleep(1)
    assert (child.state, child.starts, launcher.launched[0].stopped) == (StreamState.RUNNING, 2, True)
    await host.aclose()


async def test_a_crashed_child_is_started_and_negotiated_again() -> None:
    launcher = FakeLauncher(modern)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await child.wait_until_ready(now() + 5)
    launcher.launched[0].die()
    await asyncio.sleep(1)
    assert (child.state, child.starts, child.program.pid) == (StreamState.RUNNING, 2, 2)
    assert launcher.launched[0].stopped
    assert launcher.launched[1].received[0]["method"] == "server/discover"
    await host.aclose()


async def test_starts_that_fail_come_ever_more_seldom_and_the_state_says_so() -> None:
    launcher = FakeLauncher(modern)
    launcher.refusal = ConnectFailed("server does not exist", reason="CommandNotFound")
    host = host_of(launcher)
    child = host.get("a", SPEC)
    with pytest.raises(ConnectFailed, match="does not exist") as caught:
        await child.wait_until_ready(now() + 5)
    assert caught.value.reason == "CommandNotFound"
    assert repr(child) == "<Child a backoff, 1 starts>"
    await asyncio.sleep(0.5 + 1 + 0.1)
    assert (child.state, child.starts) == (StreamState.FAILED, 3)
    await asyncio.sleep(600)
    assert 10 < child.starts < 20
    launcher.refusal = None
    await asyncio.sleep(61)
    assert repr(child).startswith("<Child a running")
    await host.aclose()


async def test_a_child_host_has_one_process_per_key_and_spec() -> None:
    launcher = FakeLauncher(modern)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    assert host.get("a", ChildSpec.of("server")) is child
    assert host.find("a") is child
    assert host.find("b") is None
    await child.wait_until_ready(now() + 5)
    other = host.get("a", ChildSpec.of("server", ["--new"]))
    assert other is not child
    await other.wait_until_ready(now() + 5)
    assert child.state is StreamState.CLOSED
    assert launcher.launched[0].stopped
    assert [spec.args for spec in launcher.specs] == [(), ("--new",)]
    assert host.children() == {"a": other}
    await host.aclose()
    assert launcher.closed
    with pytest.raises(RuntimeError):
        host.get("a", SPEC)


async def test_a_retired_child_fails_its_requests_and_is_not_started_again() -> None:
    launcher = FakeLauncher(modern)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await child.wait_until_ready(now() + 5)
    host.retire("a")
    host.retire("a")
    await asyncio.sleep(600)
    assert (child.state, len(launcher.launched)) == (StreamState.CLOSED, 1)
    with pytest.raises(McpError, match="stopped"):
        await child.request("ping", None, deadline=now() + 1)
    await host.aclose()


async def test_a_listener_hears_of_states_and_changed_lists() -> None:
    heard: list[object] = []

    class Listener:
        def child_changed(self, key: Hashable, child: Child) -> None:
            heard.append((key, child.state.value))

        def child_notified(self, key: Hashable, child: Child, method: str, line: bytes) -> None:
            heard.append((key, method))

    launcher = FakeLauncher(modern)
    host = host_of(launcher)
    forget = host.listen(Listener())
    child = host.get("a", SPEC)
    await child.wait_until_ready(now() + 5)
    launcher.launched[0].say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    launcher.launched[0].die()
    await asyncio.sleep(0.1)
    forget()
    await host.aclose()
    assert heard == [
        ("a", "starting"),
        ("a", "running"),
        ("a", "notifications/tools/list_changed"),
        ("a", "backoff"),
    ]


async def test_a_session_over_a_child_adds_the_envelope_of_the_era() -> None:
    launcher = FakeLauncher(modern)
    host = host_of(launcher)
    async with McpSession.over_child(host.get("a", SPEC)) as session:
        await session.call_tool("x", {"n": 1})
    params = launcher.launched[0].received[-1]["params"]
    assert params["name"] == "x"
    assert params["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    child = host.find("a")
    assert child is not None
    assert child.state is StreamState.RUNNING
    await host.aclose()


async def test_a_launcher_that_breaks_leaves_nobody_waiting() -> None:
    class Broken(FakeLauncher):
        async def launch(self, spec: ChildSpec, events: Any) -> Any:
            raise RuntimeError("unforeseen")

    host = host_of(Broken(modern))
    with pytest.raises(ConnectFailed, match="unforeseen"):
        await host.get("a", SPEC).wait_until_ready(now() + 5)
    await host.aclose()


@pytest.mark.parametrize(
    "words",
    [
        "ModuleNotFoundError: No module named 'weather'",
        "Error: Cannot find module '/srv/weather.js'",
        "weather: error: the following arguments are required: --token",
        "weather: error: unrecognized arguments: --tokn",
        "Error: Missing option '--token'.",
        "error: unknown option '--tokn'",
        "  × No solution found:\n  ╰─▶ Because the current Python version (3.11.2) does not satisfy Python>=3.12, no.",
        "error: No interpreter found for Python 3.14 in managed installations or search path",
        "npm error code E404\nnpm error 404  'weather@*' is not in this registry.",
    ],
)
async def test_a_start_that_is_refused_for_good_is_tried_again_every_ten_minutes(
    words: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(process: FakeProcess, message: dict[str, Any]) -> None:
        for line in words.splitlines():
            process.events.on_stderr(line)
        process.die("exited with code 1")

    launcher = FakeLauncher(refuse)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await asyncio.sleep(599)
    assert (child.state, len(launcher.launched)) == (StreamState.FAILED, 1)
    await asyncio.sleep(1250)
    assert len(launcher.launched) == 4
    assert len([line for line in caplog.messages if "next start in" in line]) == 1
    child.retry()
    await asyncio.sleep(1)
    assert len(launcher.launched) == 5
    await host.aclose()


async def test_a_start_that_fails_in_other_words_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    causes = iter(["connection to port 1001 refused", "connection to port 1002 refused", "no space left.", "no quota"])

    def fail(process: FakeProcess, message: dict[str, Any]) -> None:
        process.events.on_stderr(next(causes, "no quota"))
        process.die("exited with code 1")

    host = host_of(FakeLauncher(fail))
    host.get("a", SPEC)
    await asyncio.sleep(100)
    logged = [line.split(";")[0] for line in caplog.messages if "next start in" in line]
    assert [line.rpartition(": ")[2] for line in logged] == [
        "connection to port 1001 refused",
        "no space left",
        "no quota",
    ]
    await host.aclose()


async def test_a_process_that_fetches_is_not_silent_until_nothing_more_arrives() -> None:
    launcher = FakeLauncher(mute)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    for _ in range(50):
        await asyncio.sleep(1)
        launcher.launched[0].written_bytes += 100_000
        assert not child.program.silent
    await asyncio.sleep(21)
    assert child.program.silent
    await host.aclose()
