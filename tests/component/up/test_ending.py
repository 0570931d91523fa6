"""Failed starts and clean ends of `fairlead up`: ports, signals, and no leftovers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client

from commands import fairlead
from containerengine import ContainerEngine
from forkserver import program_words
from toolservers import ODD_STDIO
from upprocess import MARKING, PLAIN, Up, all_dead, children_of, fairlead_up, manifest, started_up
from waiting import until_async


@pytest.mark.parametrize("option", ["--port", "--metrics-port"])
async def test_a_port_that_is_taken_is_a_sentence_with_the_option(option: str, tmp_path: Path) -> None:
    other = "--metrics-port" if option == "--port" else "--port"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = (tmp_path, option, str(port), other, "0")
        async with started_up(*words, cwd=tmp_path) as up:
            assert await up.wait_for_end() == 1
            errors = await up.errors()
    assert errors.count("\n") == 1
    assert f"port {port}" in errors
    proposed, free = errors.partition(" is already in use: ")[2].split()[:2]
    assert proposed == option
    with socket.create_server(("127.0.0.1", int(free))):
        pass
    assert other not in errors


async def test_port_and_address_come_from_the_environment_where_no_option_names_them(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        env = {"FAIRLEAD_PORT": str(port), "FAIRLEAD_METRICS_PORT": "0", "FAIRLEAD_HOST": "127.0.0.1"}
        async with started_up(tmp_path, cwd=tmp_path, env=env) as up:
            assert await up.wait_for_end() == 1
            assert f"port {port} of 127.0.0.1 is already in use" in await up.errors()


async def test_two_runs_at_once_need_two_ports_and_both_are_proposed(tmp_path: Path) -> None:
    async with fairlead_up(tmp_path, cwd=tmp_path) as first:
        ports = [url.split(":")[2].partition("/")[0] for url in (first.url, first.metrics)]
        words = (tmp_path, "--port", ports[0], "--metrics-port", ports[1])
        async with started_up(*words, cwd=tmp_path) as second:
            assert await second.wait_for_end() == 1
            advice = (await second.errors()).partition(" is already in use: ")[2].split()
        async with started_up(tmp_path, *advice[:4], "--output", "json", cwd=tmp_path) as third:
            listening = await third.event(lambda event: event["event"] == "listening")
            assert listening["url"] == f"http://127.0.0.1:{advice[1]}/mcp"


async def test_a_metrics_port_alone_that_is_taken_leaves_the_other_as_it_is(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        free = other.getsockname()[1]
        other.close()
        words = (tmp_path, "--port", str(free), "--metrics-port", str(taken.getsockname()[1]))
        async with started_up(*words, cwd=tmp_path) as up:
            assert await up.wait_for_end() == 1
            assert " is already in use: --metrics-port " in await up.errors()


@pytest.mark.parametrize(
    "words", [("nope.json",), ("--tools", "nope.py"), ("--tools", "nope"), ("--routes", "nope.yaml")]
)
async def test_a_missing_path_ends_up_with_one_sentence_and_the_same_code(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    async with started_up(*words, "--port", "0", "--metrics-port", "0", cwd=tmp_path) as up:
        assert await up.wait_for_end() == 2
        errors = await up.errors()
    assert errors.startswith("fairlead up: ")
    assert "does not exist: give" in errors or "there is no module nope: give" in errors
    assert errors.count("\n") == 1
    assert words[-1] in errors


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this kernel has no IPv6")
@pytest.mark.parametrize(("host", "shown"), [("::1", "[::1]"), ("::", "127.0.0.1"), ("0.0.0.0", "127.0.0.1")])
async def test_the_printed_addresses_are_those_of_a_client_here(host: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(manifest("any", *PLAIN))
    async with fairlead_up(tmp_path, "--host", host, cwd=tmp_path) as up:
        await up.ready("default/any")
        assert up.url.startswith(f"http://{shown}:")
        assert up.metrics.startswith(f"http://{shown}:")
        code, out, error = await fairlead("tools", "--url", up.url)
        assert (code, error) == (0, "")
        assert "any__echo" in out


async def test_an_address_of_another_machine_is_a_sentence(tmp_path: Path) -> None:
    words = (tmp_path, "--host", "192.0.2.1", "--port", "0", "--metrics-port", "0")
    async with started_up(*words, cwd=tmp_path) as up:
        assert await up.wait_for_end() == 1
        errors = await up.errors()
    assert "192.0.2.1" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_fairlead_up_and_everything_that_it_started(number: signal.Signals, tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    (tmp_path / "a.yaml").write_text(manifest("any", *PLAIN))
    async with fairlead_up(tmp_path, cwd=tmp_path, env={"XDG_RUNTIME_DIR": str(runtime)}) as up:
        await up.ready("default/any")
        children = children_of(up.pid)
        assert children
        assert len(list(runtime.iterdir())) == 1
        up.process.send_signal(number)
        assert await up.wait_for_end() == 0
        assert await all_dead(children, within=20) == []
        assert list(runtime.iterdir()) == []
        assert await up.errors() == ""


@asynccontextmanager
async def up_with_call(folder: Path, seconds: float) -> AsyncIterator[tuple[Up, asyncio.subprocess.Process]]:
    """A `fairlead up` with a call that its server is working on."""
    (folder / "a.yaml").write_text(manifest("m", *MARKING))
    begun = folder / "begun"
    async with fairlead_up(folder, cwd=folder) as up:
        await up.ready("default/m")
        words = ("call", "m__mark", f"file={begun}", f"seconds={seconds}", "--url", up.url)
        await until_async("the tool to be listed", lambda: _is_listed(up.url))
        call = await asyncio.create_subprocess_exec(
            *program_words(),
            *words,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

        async def is_called() -> bool:
            return begun.exists()

        await until_async("the call to reach its server", is_called, seconds=40)
        try:
            yield up, call
        finally:
            async with asyncio.timeout(20):
                await call.communicate()


async def _is_listed(url: str) -> bool:
    async with Client(url) as client:
        return bool((await client.list_tools()).tools)


async def test_a_call_in_flight_is_answered_before_the_end(tmp_path: Path) -> None:
    async with up_with_call(tmp_path, seconds=1) as (up, call):
        up.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(40):
            answer, _ = await call.communicate()
        assert (call.returncode, answer) == (0, b"marked\n")
        assert await up.wait_for_end() == 0


async def test_a_second_signal_does_not_wait_for_calls(tmp_path: Path) -> None:
    async with up_with_call(tmp_path, seconds=60) as (up, _):
        children = children_of(up.pid)
        up.process.send_signal(signal.SIGINT)
        await up.event(lambda event: event["event"] == "stopping")
        up.process.send_signal(signal.SIGINT)
        assert await up.wait_for_end() == 1
        assert await all_dead(children, within=20) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_container_ends_with_the_gateway_however_that_ends(number: signal.Signals, tmp_path: Path) -> None:
    engine = ContainerEngine(tmp_path)
    entry = {"command": "docker", "args": ["run", "-i", "--rm", *engine.image]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"contained": entry}}))
    env = {"PATH": f"{engine.bin}{os.pathsep}{os.environ['PATH']}"}
    async with fairlead_up(tmp_path / "mcp.json", cwd=tmp_path, env=env) as up:
        await up.event(lambda event: event.get("state") == "ready")
        containers = engine.containers()
        assert len(containers) == 1, "no second one to compare lists"
        os.kill(up.pid, number)
        assert await all_dead(containers, within=20) == []
        await up.process.wait()


async def test_after_kill_9_no_child_lives_on(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    shell = ["/bin/sh", "-c", f"{' '.join(PLAIN)}; true"]
    (tmp_path / "a.yaml").write_text(
        manifest("any", *PLAIN)
        + manifest("shell", *shell)
        + manifest("stubborn", sys.executable, ODD_STDIO, "parent", str(pids))
    )
    async with fairlead_up(tmp_path, cwd=tmp_path) as up:
        ready = {"default/any", "default/shell"}
        while ready:
            event = await up.event(lambda event: event.get("state") == "ready")
            ready.discard(event["server"])

        async def is_written() -> bool:
            return pids.exists() and len(pids.read_text().split()) == 2

        await until_async("the stubborn server to start", is_written)
        children = children_of(up.pid)
        assert {int(pid) for pid in pids.read_text().split()} <= set(children)
        os.kill(up.pid, signal.SIGKILL)
        assert await all_dead(children, within=20) == []
        await up.process.wait()
