"""Custom tools in the two commands that serve them: `fairlead up --tools` and `fairlead gateway --tools`."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

from mcp import Client

from forkserver import program_words
from gatewayworld import publish
from upprocess import fairlead_up, in_state
from waiting import until

TOOLS = """
import threading
from pathlib import Path

from fairlead_gateway import tool


@tool
def greet(name: str) -> str:
    return f"Hello, {name}!"


@tool
def hang(mark: str) -> None:
    Path(mark).touch()
    threading.Event().wait()
"""


async def test_up_serves_the_functions_of_a_file_as_the_server_local_and_tells_of_a_broken_module(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text(TOOLS)
    (tmp_path / "servers").mkdir()
    (tmp_path / "broken.py").write_text("import nothing.here")
    async with fairlead_up("servers", "--tools", "broken.py", "--tools", "mine.py", cwd=tmp_path) as up:
        shown, problem = await up.events_in_any_order(
            in_state("default/local", "ready"), lambda event: event.get("file") == "broken.py"
        )
        assert shown["tools"] == ["greet", "hang"]
        assert "No module named 'nothing'" in problem["message"]
        for url in (up.url, up.url.replace("/mcp", "/servers/default/local/mcp")):
            async with Client(url) as client:
                result = await client.call_tool("greet", {"name": "Ada"})
                assert result.content[0].model_dump()["text"] == "Hello, Ada!"


async def test_custom_tools_are_served_by_the_gateways_option_and_a_hanging_one_does_not_hold_its_end(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text(TOOLS)
    publish(tmp_path / "documents")
    command = [*program_words(), "gateway", "--documents", "documents", "--port", "0", "--metrics-port", "0"]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--tools",
        "mine.py",
        "--tools",
        "nothing.here",
        cwd=tmp_path,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "FAIRLEAD_GRACE": "0.2"},
    )
    try:
        assert process.stderr is not None
        log = ""
        port = None
        async with asyncio.timeout(30):
            while port is None:
                log += (await process.stderr.readline()).decode()
                port = re.search(r"MCP on http://127\.0\.0\.1:(\d+)/mcp", log)
        assert "custom tools of nothing.here: the source cannot be loaded: ModuleNotFoundError" in log
        await _hang(f"http://127.0.0.1:{port[1]}/mcp", tmp_path / "mark")
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            await process.stderr.read()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _hang(url: str, mark: Path) -> None:
    """Start a call that never ends, and do not wait for it."""
    async with Client(url) as client:
        call = asyncio.create_task(client.call_tool("hang", {"mark": str(mark)}))
        await asyncio.to_thread(until, "the handler to begin", mark.exists, seconds=30)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
