"""`fairlead servers`, `refresh`, `tools` and `call` with real processes that start slowly, fail, or stay silent."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from commands import fairlead
from toolservers import SDK_STDIO
from upprocess import DEMO, Up, fairlead_up

KEY = "import pathlib, sys; key = pathlib.Path(sys.argv[1])"
FAILING = f"{KEY}; key.exists() or sys.exit('KEY is missing: write it to ' + key.name); import runpy"
LATE = "import time; time.sleep(3); import runpy"


def server(code: str, *words: str) -> dict[str, Any]:
    """A program that runs `code` and then becomes the demo server."""
    run = f"{code}; sys.argv[1:] = []" if "sys" in code else code
    return {
        "command": sys.executable,
        "args": ["-c", f"{run}; runpy.run_module('fairlead_cli.demo', run_name='__main__')", *words],
    }


def write_configuration(folder: Path, **servers: dict[str, Any]) -> Path:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


async def list_servers(up: Up, *words: str) -> Any:
    code, out, err = await fairlead("servers", *words, "--url", up.url, "--output", "json")
    assert code == 0, err
    return json.loads(out)


async def test_servers_are_shown_with_state_words_memory_tools_and_speed(tmp_path: Path) -> None:
    mcp_json = write_configuration(
        tmp_path, demo={"command": DEMO[0], "args": DEMO[1:]}, broken=server(FAILING, str(tmp_path / "key"))
    )
    async with fairlead_up(mcp_json, cwd=tmp_path) as up:
        assert await up.states(2) == {"default/broken": "failed:StartFailed", "default/demo": "ready:"}
        await fairlead("call", "demo__get_stock", "item=rope", "--url", up.url)
        servers = {row["server"]: row for row in (await list_servers(up))["servers"]}
        code, table, _ = await fairlead("servers", "--url", up.url)
        broken_shown = await list_servers(up, "broken")
    broken = servers["default/broken"]
    demo = servers["default/demo"]
    assert (broken["state"], broken["cause"]) == ("failed", "StartFailed")
    assert "KEY is missing: write it to key" in broken["lastWords"]
    assert "KEY is missing" in broken["message"]
    assert broken["restarts"] >= 0
    assert "tools" not in broken
    assert (demo["state"], demo["tools"], demo["restarts"]) == ("ready", 4, 0)
    assert demo["rssBytes"] > 5_000_000, "an interpreter"
    assert broken_shown["server"] == "default/broken"
    assert code == 0
    assert table.split()[:7] == ["SERVER", "STATE", "TOOLS", "P95", "RESTARTS", "RSS", "REASON"]
    assert "\n\ndefault/broken exited with code 1: KEY is missing: write it to key" in table


async def test_a_call_and_a_list_just_after_the_start_wait_for_the_server_and_say_so(tmp_path: Path) -> None:
    async with fairlead_up(write_configuration(tmp_path, slow=server(LATE)), cwd=tmp_path) as up:
        code, out, err = await fairlead("call", "slow__get_stock", "item=rope", "--url", up.url)
        assert (code, '"pieces": 407' in out) == (0, True)
        assert "default/slow is still starting" in err


async def test_the_list_of_tools_waits_for_servers_that_start_and_names_those_that_failed(tmp_path: Path) -> None:
    mcp_json = write_configuration(tmp_path, slow=server(LATE), broken=server(FAILING, str(tmp_path / "key")))
    async with fairlead_up(mcp_json, cwd=tmp_path) as up:
        await up.server("default/broken", "failed")
        code, out, err = await fairlead("tools", "--url", up.url)
        wrong, _, why = await fairlead("call", "broken__get_stock", "item=rope", "--url", up.url)
    assert code == 0
    assert "slow__get_stock" in out
    assert "default/slow is still starting" in err
    assert "not available: default/broken" in out
    assert wrong == 1
    assert "CONNECTION_LOST: not available: default/broken exited with code 1" in why
    assert f"fairlead logs --url {up.url} default/broken shows what it printed" in why


async def test_a_server_that_failed_is_started_and_asked_by_a_refresh(tmp_path: Path) -> None:
    key = tmp_path / "key"
    async with fairlead_up(write_configuration(tmp_path, broken=server(FAILING, str(key))), cwd=tmp_path) as up:
        await up.server("default/broken", "failed")
        failed, _, why = await fairlead("refresh", "broken", "--url", up.url)
        assert (failed, "KEY is missing" in why) == (1, True)
        key.write_text("x")
        code, out, err = await fairlead("refresh", "broken", "--url", up.url)
        assert (code, err) == (0, "")
        assert "default/broken responded: 4 tools" in out
        again, out, _ = await fairlead("refresh", "default/broken", "--url", up.url)
        assert (again, "4 tools, unchanged" in out) == (0, True)


async def test_a_server_that_says_nothing_is_spoken_of_with_what_to_do(tmp_path: Path) -> None:
    sleep = shutil.which("sleep")
    assert sleep is not None
    mcp_json = write_configuration(
        tmp_path, mute={"command": sleep, "args": ["600"]}, sdk={"command": sys.executable, "args": [SDK_STDIO]}
    )
    async with fairlead_up(mcp_json, cwd=tmp_path) as up:
        told = await up.event(lambda event: event.get("cause") == "Silent")
        server = await list_servers(up, "mute")
        listed, out, _ = await fairlead("tools", "--url", up.url)
        code, _, why = await fairlead("call", "mute__say", "--timeout", "3600", "--url", up.url)
        _, _, unanswered = await fairlead("refresh", "mute", "--timeout", "1", "--url", up.url)
    assert "did not respond within 1 s, its state is starting; --timeout waits longer" in unanswered
    assert code == 1, "at once, and not after the hour that a call may wait"
    assert "still starting: default/mute" in why
    assert (told["server"], told["state"]) == ("default/mute", "starting")
    for message in (told["message"], server["message"]):
        assert "has printed nothing for 10 s" in message
        assert "Run its command in a terminal" in message
    assert (server["state"], server["cause"]) == ("starting", "Silent")
    assert (listed, "sdk__add" in out, "still starting: default/mute" in out) == (0, True, True)
