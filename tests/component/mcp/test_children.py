"""Real child processes: valid ones, legacy ones, misbehaving ones, and ones that end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairlead_mcp.capabilities import decline
from fairlead_mcp.child import BEFORE_ANSWERING
from fairlead_mcp.eras import Era, modern_params
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout
from fairlead_mcp.host import ChildHost
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.processes import descendants, started_at
from fairlead_mcp.session import McpSession
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.stream_client import StreamState
from toolservers import LEGACY_STDIO, ODD_STDIO, SDK_STDIO, SDK_TOOLS
from upprocess import alive
from waiting import soon, until, until_async


def script(path: str, *args: str) -> ChildSpec:
    return ChildSpec.of(sys.executable, [path, *args])


async def test_the_sdk_server_over_stdio_is_modern_and_serves_all_its_tools() -> None:
    host = ChildHost()
    async with McpSession.over_child(host.get("sdk", script(SDK_STDIO))) as session:
        assert session.era is Era.MODERN
        items = await session.list_all("tools/list")
        assert sorted(json.loads(bytes(item))["name"] for item in items) == list(SDK_TOOLS)
        result = json.loads(bytes(await session.call_tool("add", {"a": 2, "b": 3})))
        assert result["content"][0]["text"] == "5"
    await host.aclose()


async def test_progress_of_the_sdk_server_comes_back_under_the_token_of_the_caller() -> None:
    host = ChildHost()
    child = host.get("sdk", script(SDK_STDIO))
    agreed = await child.wait_until_ready(soon())
    assert agreed.era is Era.MODERN
    got: list[bytes] = []
    params = b'{"name":"progress","arguments":{"steps":3},"_meta":{"progressToken":"mine"}}'
    await child.request("tools/call", modern_params(params, child.side.client), deadline=soon(), on_progress=got.append)
    tokens = [json.loads(line)["params"]["progressToken"] for line in got]
    assert tokens == ["mine"] * 3
    await host.aclose()


async def test_calls_given_up_end_in_the_sdk_server() -> None:
    host = ChildHost()
    async with McpSession.over_child(host.get("sdk", script(SDK_STDIO))) as session:
        with pytest.raises(Timeout):
            await session.call_tool("slow", {"ms": 60_000}, timeout=0.2)
        assert await session.call_tool("add", {"a": 1, "b": 1}, timeout=5)
    await host.aclose()


@pytest.mark.parametrize(
    ("args", "era"), [((), Era.LEGACY), (("--quit",), Era.LEGACY)], ids=["refuses the probe", "ends on the probe"]
)
async def test_a_legacy_server_is_initialized(args: tuple[str, ...], era: Era) -> None:
    host = ChildHost()
    child = host.get("old", script(LEGACY_STDIO, *args))

    async def is_running() -> bool:
        return child.state is StreamState.RUNNING

    await until_async("the server runs", is_running)
    assert child.negotiated is not None
    assert child.negotiated.era is era
    async with McpSession.over_child(child) as session:
        assert len(await session.list_all("tools/list")) == 6
    await host.aclose()


async def test_answers_out_of_order_find_their_callers() -> None:
    host = ChildHost()
    child = host.get("old", script(LEGACY_STDIO))
    await child.wait_until_ready(soon())

    async def ask(n: int) -> None:
        if n % 10 == 0:
            params = b'{"name":"later","arguments":{"n":3}}'
            line = await child.request("tools/call", params, deadline=soon())
            assert json.loads(json.loads(line)["result"]["content"][0]["text"]) == {"late": True}
        else:
            params = b'{"name":"echo","arguments":{"n":%d}}' % n
            line = await child.request("tools/call", params, deadline=soon())
            assert json.loads(json.loads(line)["result"]["content"][0]["text"]) == {"n": n}

    await asyncio.gather(*(ask(n) for n in range(1000)))
    await host.aclose()


async def test_a_killed_server_fails_its_calls_and_comes_back() -> None:
    host = ChildHost(random=lambda: 1.0)
    child = host.get("sdk", script(LEGACY_STDIO))
    await child.wait_until_ready(soon())
    first = child.program.pid
    assert first is not None
    call = asyncio.ensure_future(child.request("tools/call", b'{"name":"later","arguments":{"n":9}}', deadline=soon()))
    await asyncio.sleep(0)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(ConnectionLost, match="was killed by SIGKILL"):  # not Timeout
        await call

    async def again() -> bool:
        return child.state is StreamState.RUNNING and child.program.pid != first

    await until_async("the server is back", again)
    assert child.starts == 2
    await host.aclose()


async def test_the_last_words_of_a_server_are_in_the_error() -> None:
    host = ChildHost()
    child = host.get("old", script(LEGACY_STDIO))
    await child.wait_until_ready(soon())
    with pytest.raises(ConnectionLost) as caught:
        await child.request("tools/call", b'{"name":"die"}', deadline=soon())
    assert str(caught.value) == "old exited with code 7: told to die"
    assert caught.value.reason == "ProcessExited"
    await host.aclose()


@pytest.mark.parametrize(
    ("spec", "reason", "sentence"),
    [
        (ChildSpec("no-such-command-here"), "CommandNotFound", "there is no program no-such-command-here"),
        (ChildSpec.of("true", cwd="/no/such/folder"), "StartFailed", r"\(cwd\) /no/such/folder does not exist"),
        (ChildSpec.of("true", cwd="/etc/passwd"), "StartFailed", r"\(cwd\) /etc/passwd is not a directory"),
        (ChildSpec("/"), "StartFailed", "cannot be started"),
        (ChildSpec.of(sys.executable, ["-c", "pass"]), "StartFailed", f"exited with code 0 {BEFORE_ANSWERING}"),
        (script(ODD_STDIO, "crash"), "StartFailed", "cannot find the database"),
        (script(ODD_STDIO, "long", str(17 << 20)), "AnswerTooLarge", "a line of more than"),
        (script(ODD_STDIO, "mute"), "StartFailed", "closed its output"),
    ],
    ids=["no command", "no folder", "a file for a folder", "no program", "ends", "crashes", "long line", "mute"],
)
async def test_a_start_that_fails_says_why(spec: ChildSpec, reason: str, sentence: str) -> None:
    host = ChildHost()
    child = host.get("odd", spec)
    with pytest.raises(ConnectFailed if reason != "AnswerTooLarge" else McpError, match=sentence) as caught:
        await child.wait_until_ready(soon())
    assert caught.value.reason == reason
    assert "\x1b" not in str(caught.value)
    await host.aclose()


async def test_noise_on_stdout_is_skipped_and_logged_as_text(caplog: pytest.LogCaptureFixture) -> None:
    host = ChildHost()
    agreed = await host.get("odd", script(ODD_STDIO, "noise")).wait_until_ready(soon())
    assert json.loads(bytes(agreed.server_info))["name"] == "odd"
    await host.aclose()
    assert "odd sent a line that is not MCP: 'Starting server...'" in caplog.messages


async def test_a_process_for_one_client_warns_of_no_noise_on_stdout(caplog: pytest.LogCaptureFixture) -> None:
    host = ChildHost()
    await host.get("odd", script(ODD_STDIO, "noise"), Offering(b"{}", decline)).wait_until_ready(soon())
    await host.aclose()
    assert not [record for record in caplog.records if "is not MCP" in record.getMessage()]


async def test_a_server_gets_no_variables_of_ours_but_those_it_needs() -> None:
    assert ChildSpec.of("x", env={"KEY": "v"}).environment({"PATH": "/bin", "HOME": "/h", "AWS_SECRET": "s"}) == {
        "PATH": "/bin",
        "HOME": "/h",
        "KEY": "v",
    }


@pytest.mark.timing
async def test_a_stubborn_server_is_gone_after_closing(tmp_path: Path) -> None:
    host = ChildHost()
    host.get("odd", script(ODD_STDIO, "stubborn", str(tmp_path / "pid")))

    async def read_pid() -> str:
        return (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else ""

    pid = int(await until_async("the server started", read_pid))
    begun = time.monotonic()
    await host.aclose()
    assert time.monotonic() - begun < 8
    assert not alive(pid)


@pytest.mark.parametrize("habit", ["parent", "escapee"])
async def test_grandchildren_go_with_the_server(habit: str, tmp_path: Path) -> None:
    host = ChildHost()
    child = host.get("odd", script(ODD_STDIO, habit, str(tmp_path / "pids")))
    await child.wait_until_ready(soon())
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert child.program.pid == pids[0]
    assert [stray.pid for stray in descendants(pids[0])] == pids[1:]
    await host.aclose()
    until("all of them are gone", lambda: not any(alive(pid) for pid in pids))


async def test_a_child_host_that_closes_ends_every_process_and_leaves_no_zombie() -> None:
    before = {stray.pid for stray in descendants(os.getpid())}
    host = ChildHost()
    children = [host.get(n, script(LEGACY_STDIO)) for n in range(4)]
    await asyncio.gather(*(child.wait_until_ready(soon()) for child in children))
    await host.aclose()
    after = {stray.pid for stray in descendants(os.getpid())}
    assert after <= before


HOLDER = """\
import asyncio, sys
from fairlead_mcp.host import ChildHost
from fairlead_mcp.processes import become_subreaper
from fairlead_mcp.stdio import ChildSpec

async def main():
    become_subreaper()
    host = ChildHost()
    for n, args in enumerate((sys.argv[2:4], sys.argv[4:6])):
        child = host.get(n, ChildSpec.of(sys.executable, [sys.argv[1], *args]))
        await child.wait_until_ready(asyncio.get_running_loop().time() + 20)
    print("ready", flush=True)
    await asyncio.sleep(600)

LOOP
"""


@pytest.mark.parametrize(
    "loop", ["asyncio.run(main())", "import uvloop; uvloop.run(main())"], ids=["asyncio", "uvloop"]
)
def test_after_a_kill_of_the_parent_no_child_and_no_grandchild_lives_two_seconds_later(
    loop: str, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    second = tmp_path / "second"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER.replace("LOOP", loop), ODD_STDIO, "parent", str(first), "parent", str(second)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        pids = [int(pid) for file in (first, second) for pid in file.read_text().split()]
        everything = [stray.pid for stray in descendants(holder.pid)]
        assert set(pids) < set(everything)  # the guard is another descendant
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()
    until("all of them are gone", lambda: not any(alive(pid) for pid in everything))


def test_the_start_time_of_a_process_tells_it_from_a_later_one() -> None:
    assert started_at(os.getpid()) > 0
    assert started_at(2**22 + 1) == 0
