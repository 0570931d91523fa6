"""A server from PyPI, in an environment of its own as `fairlead up` runs it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from fairlead_mcp.host import ChildHost
from fairlead_mcp.processes import descendants
from fairlead_mcp.session import McpSession
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.stream_client import StreamState
from upprocess import alive
from waiting import eventually

pytestmark = [pytest.mark.network, pytest.mark.timeout(180)]


def uv() -> str:
    return shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])) or "uv"


def package_variables() -> dict[str, str]:
    """Environment variables for the package indexes that this machine uses."""
    return {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_", "HTTP"))}


@pytest.mark.timing
async def test_the_time_server_runs_through_uv_is_called_and_goes_with_all_its_processes() -> None:
    host = ChildHost()
    args = ["tool", "run", "-q", "mcp-server-time", "--local-timezone", "UTC"]
    child = host.get("time", ChildSpec.of(uv(), args, package_variables()))
    async with McpSession.over_child(child) as session:
        await session.connect(timeout=150)
        tools = [json.loads(bytes(item))["name"] for item in await session.list_all("tools/list")]
        assert "get_current_time" in tools
        result = json.loads(bytes(await session.call_tool("get_current_time", {"timezone": "UTC"})))
        assert not result.get("isError")
    assert child.program.pid is not None
    pids = [child.program.pid, *(stray.pid for stray in descendants(child.program.pid))]
    begun = time.monotonic()
    await host.aclose()
    assert time.monotonic() - begun < 5
    assert child.state is StreamState.CLOSED
    await eventually(lambda: not any(alive(pid) for pid in pids))
