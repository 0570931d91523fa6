"""The registry without `await`: in plain threads, inside a running event loop, and closed in all ways."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead_api.extras import install_command
from fairlead_client import Request, Server, ToolRegistry
from toolservers import LEGACY_STDIO, tool
from toolservers import modern_server as modern
from waiting import until

CHILD = Server(name="s", command=[sys.executable, LEGACY_STDIO])


@contextmanager
def modern_in_a_thread() -> Iterator[str]:
    """A modern server with an event loop of its own."""
    ready: list[str] = []
    stop = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        async with modern([tool("a")]) as server:
            loops.append(asyncio.get_running_loop())
            ready.append(server.url)
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    until("the server listens", lambda: ready)
    try:
        yield ready[0]
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(20)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name == "tool registry"}


def test_every_method_works_without_a_loop() -> None:
    connected: list[str] = []
    with modern_in_a_thread() as url:
        servers = [Server(name="http", url=url), CHILD]
        with ToolRegistry(servers, on_connect=connected.append) as registry:
            assert [each.name for each in registry.tools][:2] == ["http__a", "s__ask"]
            assert registry.tools == registry.get_all_tools()
            looked_up = registry.get_tool("http__a")
            assert looked_up is not None
            assert looked_up.id == "mcp.http.a"
            assert registry.execute("s__echo", {"x": 1}).text == '{"x": 1}'
            both = registry.execute_all([Request("http__a", {"n": 1}), Request("nothing")], "sequential")
            assert [outcome.ok for outcome in both] == [True, False]
            assert registry.health_check() == {"http": True, "s": True}
            assert len(registry.get_openai_tools()) == 7
            assert len(registry.get_tool_definitions("ANTHROPIC")) == 7
            assert "nonesuch" in str(registry.get_tool_definitions_safe("nonesuch"))
            assert len(registry.add_to_openai_request({"messages": []})["tools"]) == 7
            assert len(registry.add_to_azure_request({"messages": []})["tools"]) == 7
            message = {"tool_calls": [{"id": "1", "function": {"name": "s__echo", "arguments": '{"y":2}'}}]}
            assert registry.execute_message("openai", message).messages[0]["content"] == '{"y": 2}'
            registry.refresh_cache()
            registry.clear_cache()
            registry.close_mcp_clients()
            assert len(registry.tools) == 7
    assert sorted(connected) == ["http", "http", "s", "s"]
    assert not threads()


async def test_a_blocking_registry_can_be_used_inside_a_running_loop() -> None:
    with ToolRegistry([CHILD]) as registry:
        assert registry.execute("s__echo", {"x": 1}).text == '{"x": 1}'


def test_a_tool_registry_may_be_used_by_several_threads_at_once() -> None:
    texts: list[str] = []
    with ToolRegistry([CHILD]) as registry:
        users = [
            threading.Thread(target=lambda n=n: texts.append(registry.execute("s__echo", {"n": n}).text))
            for n in range(8)
        ]
        for user in users:
            user.start()
        for user in users:
            user.join(20)
    assert sorted(texts) == [f'{{"n": {n}}}' for n in range(8)]


def test_a_callback_may_use_the_registry() -> None:
    seen: list[int] = []
    registry = ToolRegistry(
        [CHILD], initialize_on_startup=False, on_connect=lambda name: seen.append(len(registry.tools))
    )
    with registry:
        registry.get_all_tools()
        until("the callback came through", lambda: seen)
    assert seen == [6]


def test_a_closed_registry_says_so() -> None:
    registry = ToolRegistry([CHILD])
    registry.close()
    registry.close()
    with pytest.raises(RuntimeError, match="closed"):
        registry.get_all_tools()
    outcome = registry.execute("s__echo")
    assert outcome.error is not None
    assert outcome.error.code == "CLOSED"
    assert not registry.execute(None).ok


def test_a_call_that_a_model_did_not_make_is_an_error_and_no_exception() -> None:
    with ToolRegistry() as registry:
        assert not registry.execute(None).ok
        assert registry.execute_all(None) == []
        assert registry.execute_message("openai", None).messages == ()


def test_a_registry_that_nobody_closed_is_closed_with_its_last_reference() -> None:
    registry = ToolRegistry([CHILD])
    assert threads()
    del registry
    gc.collect()
    until("its thread ended", lambda: not threads())


def test_a_process_that_ends_without_closing_leaves_no_child_behind(tmp_path: Path) -> None:
    program = f"""
        import os, sys
        from fairlead_client import Server, ToolRegistry

        registry = ToolRegistry([Server(name="s", command=[sys.executable, {LEGACY_STDIO!r}])])
        print(registry._registry._connector._host.find("s").program.pid)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert done.stderr == ""
    until("the child is gone", lambda: not Path(f"/proc/{int(done.stdout)}").exists())


def test_a_tool_registry_refuses_to_wait_on_its_own_thread() -> None:
    messages: list[str] = []

    async def asks(name: str) -> None:
        try:
            registry.get_all_tools()
        except RuntimeError as error:
            messages.append(str(error))

    registry = ToolRegistry([CHILD], initialize_on_startup=False, on_connect=asks)
    with registry:
        registry.get_all_tools()
        until("the callback came through", lambda: messages)
    assert "use AsyncToolRegistry" in messages[0]


def test_a_missing_package_is_named_with_what_to_install() -> None:
    program = """
import sys
sys.modules["jsonschema_rs"] = None
try:
    from fairlead_client import ToolRegistry
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == f"fairlead_client needs the package jsonschema_rs: {install_command('gateway')}\n"
