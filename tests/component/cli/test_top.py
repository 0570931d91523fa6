"""`fairlead top` against a gateway: its screen for keys and window sizes, and its output for programs."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from commands import fairlead
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject, Tier
from fairlead_api.documents.servers import FileProblem, ServerEntry, Servers
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fairlead_cli.connecting import Destination
from fairlead_cli.rest import ManagementClient
from fairlead_cli.top.application import TopApp
from fairlead_cli.top.dialogs import TextDialog
from fairlead_cli.top.reading import read
from fairlead_cli.top.sort_key import SortKey
from fairlead_cli.top.tables import MAX_ROWS, WatchedTable
from gatewayworld import ask, calling, catalog, publish, running
from policyworld import Vouching, anybody
from ports import free_port
from restworld import get
from toolservers import modern_server
from waiting import until_async

TIERS = (Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep"))
FAILED = Servers(
    servers=(
        ServerEntry(
            namespace="default",
            name="vault",
            state="failed",
            reason="StartFailed",
            cause="CommandNotFound",
            message="default/vault failed: there is no program [red]npx-nope",
        ),
    )
)
FIGURES = Quantiles(p50_ms=700.0, p90_ms=800.0, p95_ms=900.0, p99_ms=950.0, samples=20)
SLOW = ToolState(name="slow", quantiles=FIGURES, tiers=("deep",), hidden={"fast": "over_budget p95=900ms tier=500ms"})
STATE = State(servers=(ServerState(namespace="default", name="demo", tools=(SLOW,)),))
PAGE = Path(__file__).parents[3] / "docs/operate/top.md"
_BLOCK = re.compile(r"^```sh\n(.+?)^```", re.MULTILINE | re.DOTALL)
ONCE = ("--once",)
TOOLS = ("add", "bad", "slow")


def url_of(gateway: Gateway) -> str:
    return f"http://127.0.0.1:{gateway.port}/mcp"


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


@asynccontextmanager
async def world(folder: Path, tools: tuple[str, ...] = TOOLS, **settings: Any) -> AsyncIterator[Gateway]:
    """A gateway with a server whose tool `bad` always fails, one slow tool, and a server that does not start."""
    serving = modern_server(call=lambda request: {"content": [], "isError": request.params["name"] == "bad"})
    rules = settings.pop("rules", Rules(tiers=TIERS))
    async with (
        serving as server,
        running(folder, catalog("demo", server.url, tools), FAILED, STATE, rules, **settings) as gateway,
    ):
        yield gateway


async def call(gateway: Gateway, *names: str) -> None:
    for name in names:
        await ask(gateway, calling(f"demo__{name}"))


@asynccontextmanager
async def screen(
    gateway: Gateway, size: tuple[int, int] = (120, 30), interval: float = 0.5
) -> AsyncIterator[tuple[TopApp, Pilot[None]]]:
    plane = ManagementClient.of(Destination.parse(url_of(gateway), [], None, 10))
    first = await asyncio.to_thread(read, plane)
    app = TopApp(plane, url_of(gateway), SortKey.calls, interval, first)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


def table(app: TopApp, kind: str) -> list[list[str]]:
    """Cells of a table, in rows, with the headings first."""
    shown_table = app.query_one(f"#{kind}", WatchedTable)
    headings = [str(column.label).strip() for column in shown_table.ordered_columns]
    return [
        headings,
        *([cell.plain.strip() for cell in shown_table.get_row_at(row)] for row in range(shown_table.row_count)),
    ]


def text_of(app: TopApp, name: str) -> str:
    part = app.query_one(f"#{name}", Static)
    return str(part.content) if part.display else ""


async def until_shown(pilot: Pilot[None], what: str, condition: Callable[[], bool]) -> None:
    async def look() -> bool:
        await pilot.pause()
        return condition()

    await until_async(what, look)


async def test_the_screen_shows_servers_and_tools_and_follows_their_calls(tmp_path: Path) -> None:
    async with world(tmp_path) as gateway, screen(gateway) as (app, pilot):
        assert table(app, "servers")[0][:2] == ["SERVER", "STATE"]
        assert [row[:2] for row in table(app, "servers")[1:]] == [["demo", "ready"], ["vault", "failed"]]
        assert "CommandNotFound" in table(app, "servers")[2]
        assert "1 of 2 servers not ready" in text_of(app, "summary")
        await call(gateway, "bad", "add", "add")
        await until_shown(pilot, "calls", lambda: ["demo__add", "2"] in [[r[0], r[6]] for r in table(app, "tools")])
        first, second, third = table(app, "tools")[1:]
    assert (first[0], first[1], first[7]) == ("demo__add", "fast", "0")
    assert (second[0], second[6], second[7]) == ("demo__bad", "1", "1")
    assert (third[0], third[1], third[4], third[5]) == ("demo__slow", "deep", "700 ms", "900 ms")
    assert float(first[2]) > float(second[3]) > 0


BROKEN = Servers(
    servers=FAILED.servers,
    files=(
        FileProblem(file="mcp.json", message="mcp.json:2: not valid [red]JSON"),
        FileProblem(file="b.yaml", message="b.yaml:1: not valid YAML"),
    ),
)


async def test_problems_of_files_are_shown_on_the_screen_in_tables_and_in_json(tmp_path: Path) -> None:
    async with world(tmp_path) as gateway, screen(gateway) as (app, pilot):
        assert text_of(app, "notice") == ""
        publish(tmp_path / "documents", BROKEN)
        notice = f"problem: mcp.json:2: not valid [red]JSON (1 more: `fairlead servers --url {url_of(gateway)}`)"
        await until_shown(pilot, "a problem", lambda: text_of(app, "notice") == notice)
        table_, json_ = [await fairlead("top", *words, "--url", url_of(gateway)) for words in (ONCE, (*ONCE, "--json"))]
    assert table_[1].endswith("\n\nproblem: mcp.json:2: not valid [red]JSON\n\nproblem: b.yaml:1: not valid YAML\n")
    assert [problem["file"] for problem in json.loads(json_[1])["fileProblems"]] == ["mcp.json", "b.yaml"]


async def test_a_gateway_whose_only_file_is_broken_has_a_problem_and_no_servers(tmp_path: Path) -> None:
    async with running(tmp_path, Servers(files=BROKEN.files[:1])) as gateway:
        code, out, _ = await fairlead("top", *ONCE, "--url", url_of(gateway))
    assert code == 0
    assert "has no servers that you may see.\n\nproblem: mcp.json:2: not valid" in out


async def test_keys_order_filter_and_pause(tmp_path: Path) -> None:
    async with world(tmp_path) as gateway, screen(gateway) as (app, pilot):
        await call(gateway, "add", "add", "bad")
        await until_shown(pilot, "calls", lambda: table(app, "tools")[1][6] == "2")
        orders = {}
        for key in "elnc":
            await pilot.press(key)
            orders[key] = table(app, "tools")[1][0]
        assert orders == {"e": "demo__bad", "l": "demo__slow", "n": "demo__add", "c": "demo__add"}
        await pilot.press("slash", *"slow", "enter")
        assert [row[0] for row in table(app, "tools")[1:]] == ["demo__slow"]
        await pilot.press("escape")
        assert len(table(app, "tools")) == 4
        await pilot.press("space")
        assert "PAUSED" in text_of(app, "summary")
        await pilot.press("space")
        await call(gateway, "add")
        await until_shown(pilot, "a call after the pause", lambda: table(app, "tools")[1][6] == "3")


async def test_the_key_enter_says_why_a_server_is_not_ready_and_why_a_tool_is_hidden(tmp_path: Path) -> None:
    async with world(tmp_path) as gateway, screen(gateway) as (app, pilot):

        def text() -> str:
            return app.screen.text if isinstance(app.screen, TextDialog) else ""

        await pilot.press("l", "enter")
        await until_shown(pilot, "the explanation", lambda: "deep: shown" in text())
        assert "fast: hidden, over_budget p95=900ms tier=500ms" in text()
        await pilot.press("escape", "shift+tab", "down", "enter")
        await until_shown(pilot, "the server", lambda: "vault: failed (CommandNotFound)" in text())
        assert "there is no program [red]npx-nope" in text()
        await pilot.press("escape", "question_mark")
        await until_shown(pilot, "help", lambda: "quit" in text())
        await pilot.press("escape", "q")
    assert app.return_code == 0


async def test_a_lost_gateway_is_told_with_the_old_figures_and_comes_back(tmp_path: Path) -> None:
    port = free_port()
    async with AsyncExitStack() as before, AsyncExitStack() as opened:
        gateway = await before.enter_async_context(world(make_folder(tmp_path / "a"), port=port))
        app, pilot = await opened.enter_async_context(screen(gateway))
        await before.aclose()
        await until_shown(pilot, "the loss", lambda: "Values are" in text_of(app, "notice"))
        assert [row[0] for row in table(app, "servers")[1:]] == ["demo", "vault"]
        await opened.enter_async_context(world(make_folder(tmp_path / "b"), ("add", "other"), port=port))
        await until_shown(pilot, "the return", lambda: not text_of(app, "notice"))
        assert [row[0] for row in table(app, "tools")[1:]] == ["demo__add", "demo__other"]


async def test_narrow_windows_keep_names_states_and_calls(tmp_path: Path) -> None:
    async with world(tmp_path) as gateway, screen(gateway, (44, 16)) as (app, pilot):
        assert table(app, "servers")[0] == ["SERVER", "STATE", "CALLS/MIN"]
        assert table(app, "tools")[0][:2] == ["TOOL", "CALLS/MIN"]
        await pilot.resize_terminal(130, 30)
        await until_shown(pilot, "all columns", lambda: "WHY" in table(app, "servers")[0])
        await pilot.press("ctrl+c")
    assert app.return_code == 0


async def test_top_draws_some_of_a_thousand_tools_and_a_filter_finds_the_others(tmp_path: Path) -> None:
    many = tuple(f"tool{number}" for number in range(1000))
    async with world(tmp_path, many) as gateway, screen(gateway, interval=3600) as (app, pilot):
        tools = app.query_one("#tools", WatchedTable)
        assert (tools.row_count, str(tools.border_title)) == (MAX_ROWS, "1,000 tools, 700 of them not drawn: use /")
        await pilot.press("slash", *"tool999", "enter")
        assert [row[0] for row in table(app, "tools")[1:]] == ["demo__tool999"]


async def test_top_once_prints_counts_since_the_start_for_people_and_programs(tmp_path: Path) -> None:
    async with world(tmp_path) as gateway:
        await call(gateway, "add", "bad", "bad")
        code, out, err = await fairlead("top", "--once", "--sort", "errors", "--url", url_of(gateway))
        told = await fairlead("top", "--once", "--json", "--url", url_of(gateway))
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert lines[1] == ["demo", "ready", "3", "2", "700", "ms", "900", "ms", "-", "3"]
    assert lines[5] == ["demo__bad", "fast", "2", "2", "-", "-"]
    document = json.loads(told[1])
    (bad,) = [each for each in document["tools"] if each["name"] == "demo__bad"]
    assert bad == {
        "name": "demo__bad",
        "server": "default/demo",
        "tier": "fast",
        "calls": 2,
        "errors": 2,
        "callsPerMinute": None,
        "errorsPerMinute": None,
        "p50Ms": None,
        "p95Ms": None,
    }


async def test_json_is_a_line_per_reading_with_rates_from_the_second_on(tmp_path: Path) -> None:
    async with world(tmp_path) as gateway:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "fairlead_cli",
            "top",
            "--json",
            "--interval",
            "0.5",
            "--url",
            url_of(gateway),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            first = json.loads(await process.stdout.readline())
            await call(gateway, "add")
            second = json.loads(await process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)
            await process.communicate()
    assert first["origin"] == second["origin"]
    assert {score["callsPerMinute"] for score in first["tools"]} == {None}
    assert [score["callsPerMinute"] > 0 for score in second["tools"]] == [True, False, False]


async def test_a_caller_sees_the_counts_of_the_tools_that_policies_show_it(tmp_path: Path) -> None:
    everything = Policy(namespace="default", name="all", every=True, rules=(Rule(action="Allow", tools=("*",)),))
    not_bad = Policy(
        namespace="default",
        name="not-bad",
        every=True,
        subjects=(Subject(kind="Agent", name="npc"),),
        rules=(Rule(action="Deny", tools=("bad",)),),
    )
    trust = Trust((Vouching(anybody("npc"), anybody("dm")),))
    rules = Rules(tiers=TIERS, policies=(everything, not_bad))
    async with world(tmp_path, rules=rules, trust=trust) as gateway:
        await ask(gateway, calling("demo__bad").with_headers(authorization="Bearer dm"))
        seen = {}
        for agent in ("npc", "dm"):
            document = (await get(gateway, "/v1/scores", authorization=f"Bearer {agent}")).message
            seen[agent] = {score["name"]: score["count"] for score in document["tools"]}
    none = {"calls": 0, "errors": 0}
    failed_call = {"calls": 1, "errors": 1}
    assert seen == {
        "npc": {"demo__add": none, "demo__slow": none},
        "dm": {"demo__add": none, "demo__bad": failed_call, "demo__slow": none},
    }


def in_terminal(*words: str) -> int:
    """Run a command in a terminal, and press `q` after it has drawn a tool. Returns its exit code."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen([sys.executable, "-m", "fairlead_cli", *words], stdin=there, stdout=there, stderr=there)
    os.close(there)
    drawn = b""
    quitting = False
    try:
        while process.poll() is None and select.select([here], [], [], 30)[0]:
            try:
                drawn += os.read(here, 1 << 16)
            except OSError:  # the process has closed its end of the terminal
                break
            if b"demo__add" in drawn and not quitting:
                quitting = bool(os.write(here, b"q"))
        return process.wait(30) if quitting else -1
    finally:
        process.kill()
        process.wait()
        os.close(here)


async def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [line.split()[1:] for block in _BLOCK.findall(PAGE.read_text()) for line in block.splitlines()]
    assert ["top"] in commands
    assert len(commands) > 2
    async with world(tmp_path) as gateway:
        monkeypatch.setenv("FAIRLEAD_URL", url_of(gateway))
        for words in commands:
            if "--once" in words:
                assert (await fairlead(*words))[::2] == (0, "")
            else:
                assert await asyncio.to_thread(in_terminal, *words) == 0


async def test_without_a_terminal_the_screen_is_refused(tmp_path: Path) -> None:
    code, out, err = await fairlead("top")
    assert (code, out) == (2, "")
    assert "--once or --json" in err
