"""Golden pictures of the screen of `fairlead up`, one per situation and size. `FAIRLEAD_GOLDEN=write` renews them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from fairlead_cli.up.clients import client_lines
from fairlead_cli.up.layout import CONSOLE, MIN_HEIGHT, MIN_WIDTH, ScreenView, ServerRow, duration, screen

GOLDEN = Path(__file__).parent / "golden"
NAMES = ("everything", "fetch", "filesystem", "git", "github", "memory", "puppeteer", "sqlite", "sequential-thinking")
URL = "http://127.0.0.1:8080/mcp"
CONSOLE_URL = "http://127.0.0.1:8080/console/?token=Lc2h1b87-kSoLNWcgH2YaEns"


def ready(name: str, tools: int, message: str = "") -> ServerRow:
    return ServerRow(name, "ready", message, tuple(f"{name}__tool_{number}" for number in range(tools)))


FOURTEEN = ScreenView(
    mcp=URL,
    metrics="http://127.0.0.1:9464/metrics",
    clients=((CONSOLE, CONSOLE_URL), *client_lines(URL)),
    servers=(
        *(ready(name, 10) for name in NAMES),
        ready("time", 10, "1 of 11 definitions are left out: tool broken: it has no inputSchema"),
        ServerRow("slack", "failed", "there is no program npx-nope on this machine. Install it, or correct command."),
        ServerRow(
            "postgres", "failed", "exited with code 3: connection refused. Check command, args and env.", restarts=7
        ),
        ServerRow("slow", "starting", seconds=83),
        ServerRow("docs", "offline", "it ended", ("docs__search",)),
    ),
    problems=("mcp.json:12: mcpServers.typo.comand: unknown key: did you mean command?",),
    tier_changes=("demo: ask_supplier left the fast tier: 3 of its last 3 calls took over 500 ms (p95 1,004 ms)",),
)
QUICK = replace(
    FOURTEEN,
    servers=(
        ServerRow("demo", "ready", "", ("demo__ask_supplier", "demo__get_stock")),
        ServerRow("git", "skipped", "/home/me is not in a git repository"),
        ServerRow("linear", "sign-in", "fairlead login linear"),
        ServerRow("time", "installing", "mcp-server-time==2026.10.19: 12 packages"),
    ),
    problems=(),
    tier_changes=(),
)
EVIL = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J 見つかりません \u202eturned z\u0301\u0301\u0301\u0301a\n\rnext"
FOREIGN = replace(
    FOURTEEN,
    servers=(
        ServerRow("日本語サーバー", "ready", "", ("東京", "大阪")),
        ServerRow("evil", "failed", EVIL),
        ServerRow("a-name-that-is-longer-than-the-column-for-names-may-be", "ready"),
    ),
)
PICTURES = {
    "fourteen": FOURTEEN,
    "quick": QUICK,
    "foreign": FOREIGN,
    "nothing": replace(QUICK, servers=()),
    "early": ScreenView(),
}


def draw(view: ScreenView, width: int, height: int) -> str:
    return "".join(f"{line.text}\n" for line in screen(view, width, height))


@pytest.mark.parametrize(("width", "height"), [(80, 23), (60, 14), (200, 49)])
@pytest.mark.parametrize("name", PICTURES)
def test_the_screen_looks_like_its_picture(name: str, width: int, height: int) -> None:
    golden = GOLDEN / f"screen-{name}-{width}x{height}.txt"
    picture = draw(PICTURES[name], width, height)
    if os.environ.get("FAIRLEAD_GOLDEN") == "write":
        golden.write_text(picture)
    assert picture == golden.read_text()


@pytest.mark.parametrize("name", PICTURES)
def test_at_every_size_the_screen_fits(name: str) -> None:
    for width in [1, *range(MIN_WIDTH, 130, 17)]:
        for height in [1, *range(MIN_HEIGHT, 60, 5)]:
            lines = screen(PICTURES[name], width, height)
            assert len(lines) <= max(height, MIN_HEIGHT)
            assert all(cell_len(line.text) <= max(width, MIN_WIDTH) for line in lines)
            assert all(line.text.isprintable() for line in lines)


@pytest.mark.parametrize(("width", "height"), [(80, 23), (60, 14), (200, 49), (80, 10), (40, 8), (30, 5)])
def test_every_server_is_shown_or_counted(width: int, height: int) -> None:
    picture = draw(FOURTEEN, width, height)
    lines = [f" {line} " for line in picture.splitlines()]
    shown = {
        server.name
        for server in FOURTEEN.servers
        if any(f" {server.name} " in line.replace(",", " ") for line in lines)
    }
    more = [line for line in picture.splitlines() if " more server" in line]
    counted = int(more[0].split()[1]) if more else 0
    assert len(shown) + counted == len(FOURTEEN.servers)
    if height > 5:
        assert "14 servers: 2 failed, 1 offline, 1 starting, 10 ready; 100 tools" in " ".join(picture.split())


def test_servers_that_files_keep_from_running_are_counted_as_failed_ones() -> None:
    view = replace(FOURTEEN, refused_count=2)
    assert "16 servers: 4 failed, 1 offline, 1 starting, 10 ready" in " ".join(draw(view, 200, 49).split())
    alone = ScreenView(mcp="http://127.0.0.1:8080/mcp", problems=("mcp.json:3: mail: no key",), refused_count=1)
    assert "1 server: 1 failed; 0 tools" in draw(alone, 80, 23)


def test_servers_that_need_a_person_stand_on_top() -> None:
    lines = draw(FOURTEEN, 80, 23).splitlines()
    words = ("problem", "postgres", "slack", "docs", "slow", "time", "ready: everything", "demo: ask_supplier")
    at = [next(number for number, line in enumerate(lines) if line.startswith(word)) for word in words]
    assert at == sorted(at)


def test_names_of_tools_are_shown_where_there_is_room_and_counted_elsewhere() -> None:
    assert "git__tool_9" in draw(FOURTEEN, 200, 49)
    small = draw(FOURTEEN, 80, 23)
    assert "git__tool" not in small
    assert "ready: everything 10 tools, fetch 10, filesystem 10" in small


def test_the_address_of_the_console_is_shown_also_where_lines_of_clients_have_no_room() -> None:
    many = replace(FOURTEEN, servers=tuple(ready(f"server-{number:02}", 3) for number in range(22)))
    for view in (FOURTEEN, many):
        picture = draw(view, 80, 23)
        assert f"\nConsole: {CONSOLE_URL}\n" in picture
        assert "claude mcp add" not in picture


def test_a_cut_screen_says_how_much_more_there_is() -> None:
    long = ServerRow("chatty", "failed", "word " * 400)
    assert "more lines" in draw(replace(FOURTEEN, servers=(*FOURTEEN.servers, long)), 80, 23)
    problems = tuple(f"mcp.json:{line}: mcpServers.a: wrong" for line in range(40))
    assert "… 36 more problems" in draw(replace(FOURTEEN, problems=problems), 80, 23)
    moved = replace(
        FOURTEEN, tier_changes=tuple(f"demo: tool {number} left" for number in range(9)), older_change_count=91
    )
    assert "more moves before" in draw(moved, 80, 23)
    shown = sum(line.startswith("demo: tool") for line in draw(moved, 200, 70).splitlines())
    assert f"… {100 - shown} more moves before" in draw(moved, 200, 70)


def test_many_servers_on_a_small_screen_are_counted_by_state() -> None:
    many = replace(
        FOURTEEN, servers=tuple(ServerRow(f"s{n}", "failed", "no") for n in range(90)), problems=(), tier_changes=()
    )
    lines = draw(many, 80, 23).splitlines()
    assert lines[1] == "90 servers: 90 failed; 0 tools"
    shown = sum("failed: no" in line for line in lines)
    assert f"… {90 - shown} more servers: {90 - shown} failed" in lines


def test_a_server_counts_as_slow_after_ten_seconds() -> None:
    assert not ServerRow("a", "starting", seconds=9.9).is_slow
    assert ServerRow("a", "waiting", seconds=10.0).is_slow
    assert not ServerRow("a", "installing", seconds=99.0).is_slow


def test_an_installation_says_after_ten_seconds_how_long_it_takes() -> None:
    rows = (
        ServerRow("a", "installing", "fetching x with npx", seconds=9.0),
        ServerRow("b", "installing", "fetching y with uvx", seconds=83.0),
    )
    text = [line.text for line in screen(replace(FOURTEEN, servers=rows), 80, 40)]
    assert "a  installing: fetching x with npx" in text
    assert "b  installing for 1 min 23 s: fetching y with uvx" in text


@pytest.mark.parametrize(("seconds", "text"), [(9.9, "9 s"), (61, "1 min 1 s"), (7260, "2 h 1 min")])
def test_times_are_said_in_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text
