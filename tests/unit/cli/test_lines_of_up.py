"""Output of `fairlead up` without a screen: times, one line per change, and no endless repetition."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from fairlead_api.load import ManifestProblem
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.condition_types import Status
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_cli.up.board import Board
from fairlead_cli.up.display import Addresses, LiveTable, PlainLines, view_of
from fairlead_cli.up.repeats import FewerRepeats, Repeats
from fairlead_cli.up.terminal_text import fold, fold_to, sanitize
from fairlead_cli.wording import NAMED_URL

KEY = ServerKey("default", "demo")
NOON = datetime(2026, 1, 2, 12, 0, 5, tzinfo=UTC)


class Printed:
    """Lines printed while a server is reported in one state after the other."""

    def __init__(self, capsys: pytest.CaptureFixture[str], tools: int = 2) -> None:
        self._capsys = capsys
        self.board = Board(lambda key: tuple(f"demo__{number}" for number in range(tools)), lambda: None)
        self.lines = PlainLines(now=lambda: NOON)

    def show(self, status: Status, reason: str, message: str = "", name: str = "demo") -> list[str]:
        condition = Condition(
            type="Ready", status=status, reason=reason, message=message, last_transition_time=NOON.astimezone()
        )
        manifest = {"metadata": {"name": name, "namespace": "default"}, "spec": {"command": ["x"]}}
        self.board.on_status(McpServer.model_validate(manifest), McpServerStatus(conditions=[condition]))
        return self.refresh()

    def refresh(self) -> list[str]:
        self.lines.refresh(self.board)
        return self._capsys.readouterr().out.splitlines()


def test_each_change_is_one_line_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    printed.board.declare(KEY)
    assert printed.refresh() == ["12:00:05  demo  starting"]
    assert printed.show("Unknown", "Deploying") == []
    assert printed.show("True", "Verified") == ["12:00:05  demo  ready, 2 tools (demo__0, demo__1)"]
    assert printed.refresh() == []
    printed.board.on_removal(KEY)
    assert printed.refresh() == ["12:00:05  demo  gone"]


def test_the_ready_line_names_some_tools_and_counts_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = Printed(capsys, tools=9).show("True", "Verified")
    assert line.endswith("ready, 9 tools (demo__0, demo__1, demo__2, demo__3, demo__4, demo__5 and 3 more)")


def test_a_server_that_fails_for_ever_is_one_line_until_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    told = []
    for number in range(100):
        assert printed.show("Unknown", "Deploying") == ["12:00:05  demo  starting"] * (number == 0)
        told += printed.show("False", "StartFailed", f"default/demo exited with code 1 after {number} s")
    assert told == ["12:00:05  demo  failed: exited with code 1 after 0 s"]
    assert printed.show("True", "Verified") == ["12:00:05  demo  ready, 2 tools (demo__0, demo__1)"]
    assert printed.show("False", "StartFailed", "default/demo exited with code 1 after 7 s") == [
        "12:00:05  demo  failed: exited with code 1 after 7 s (2 times so far)"
    ]


def test_each_sign_in_that_is_wanted_again_is_told_and_none_after_the_user_signed_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = Printed(capsys)
    ready = "12:00:05  demo  ready, 2 tools (demo__0, demo__1)"
    printed.board.set_sign_ins([KEY])
    (line,) = printed.show("False", "SignInRequired")
    assert line.startswith("12:00:05  demo  wants you to sign in: fairlead login")
    assert printed.show("True", "Verified") == [], "the tools are known before the sign-in is"
    for _ in range(6):
        printed.board.set_sign_ins([])
        assert printed.refresh() == [ready]
        printed.board.set_sign_ins([KEY])
        assert printed.refresh() == [line]


def test_steps_of_an_installation_are_told_without_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    steps = ("mcp-server-time from PyPI", "downloading cryptography (4.5MiB)", "prepared 31 packages in 2.71s")
    told = [line for step in steps for line in printed.show("Unknown", "Pending", f"Installing: {step}")]
    assert told == [f"12:00:05  demo  installing: {step}" for step in steps]


def test_a_server_whose_tools_change_is_told_without_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys, tools=1)
    printed.show("True", "Verified")
    printed.board = Board(lambda _: ("demo__0", "demo__more"), lambda: None)
    assert printed.show("True", "Verified") == ["12:00:05  demo  ready, 2 tools (demo__0, demo__more)"]


def test_a_server_that_comes_and_goes_is_told_of_ever_more_rarely(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    told = []
    for _ in range(100):
        printed.show("True", "Verified")
        told += printed.show("False", "StartFailed", "default/demo exited with code 1")
    assert len(told) == 7
    assert told[-1] == "12:00:05  demo  failed: exited with code 1 (64 times so far)"


def test_another_failure_is_told_at_once_but_not_a_hundred_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    words = [f"{'abcdefghij'[number % 10]}{'klmnopqrst'[number // 10]} is wrong" for number in range(100)]
    told = [line for word in words for line in printed.show("False", "StartFailed", word)]
    assert told[1].startswith("12:00:05  demo  failed: bk is wrong")
    assert len(told) <= 8 + 7


def test_a_problem_that_is_mended_is_told_as_solved(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    printed.board.set_problems((ManifestProblem("mcp.json", 3, "mcpServers.a.comand", "unknown key", 7),))
    assert printed.refresh() == ["12:00:05  problem: mcp.json:3:7: mcpServers.a.comand: unknown key"]
    printed.board.set_problems(())
    assert printed.refresh() == ["12:00:05  solved: mcp.json:3:7: mcpServers.a.comand: unknown key"]


def test_a_note_asks_for_nothing_and_takes_no_room_on_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    printed.board.set_problems((ManifestProblem("a.json", 1, "", "it is left out here", is_note=True),))
    assert printed.refresh() == ["12:00:05  note: a.json:1: it is left out here"]
    assert view_of(printed.board, None).problems == ()
    printed.board.set_problems(())
    assert printed.refresh() == []


def test_a_problem_that_moves_to_another_line_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    printed.board.set_problems((ManifestProblem("mcp.json", 3, "mcpServers.a.comand", "unknown key"),))
    printed.refresh()
    printed.board.set_problems((ManifestProblem("mcp.json", 2, "mcpServers.a.comand", "unknown key"),))
    assert printed.refresh() == []
    printed.board.set_problems(())
    assert printed.refresh() == ["12:00:05  solved: mcp.json:2: mcpServers.a.comand: unknown key"]


def test_words_of_a_server_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = Printed(capsys).show("False", "StartFailed", "\x1b[2Jgone\x07\x1b]0;title\x1b\\ \x9b1mbold\r\n\u202eback")
    assert line == "12:00:05  demo  failed: gone 1mbold back"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31;1mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("\x1bPdevice\x1b\\ctl", "ctl"),
        ("a\x00b\x7fc\x85d", "a b c d"),
        ("z\u0301\u0301\u0301\u0301\u0301", "z\u0301\u0301"),
        ("\u200b\u2066x\u2069", "x"),
        ("日本語 tab\there", "日本語 tab here"),
        ("\x1b]never ended", ""),
        ("❤️", "❤"),
    ],
)
def test_text_is_made_harmless(text: str, shown: str) -> None:
    assert sanitize(text) == shown


def test_text_is_folded_by_cells_and_says_what_is_left() -> None:
    assert fold("one two three", 7) == ["one two", "three"]
    assert fold("日本語日本語", 5) == ["日本", "語日", "本語"]
    assert fold("", 5) == [""]
    assert fold_to("a b c d e f", 20, 1) == ["a b c d e f"]
    assert fold_to("word " * 20, 30, 2)[-1].endswith(" … 2 more lines")


def test_a_log_of_restarts_thins_out_and_other_warnings_do_not_hide_behind_it() -> None:
    thinned = FewerRepeats()

    def passes(name: str, message: str, *values: object, level: int = logging.WARNING) -> str | None:
        record = logging.LogRecord(name, level, "", 0, message, values, None)
        return record.getMessage() if thinned.filter(record) else None

    ended = "%s; next start in %.1f s"
    told = [passes("fairlead_mcp.child", ended, f"default/a exited with code 1: 100 % {n}", n) for n in range(100)]
    assert [number for number, line in enumerate(told, 1) if line] == [2, 4, 8, 16, 32, 64]
    assert told[1] == "a exited with code 1: 100 % 1; next start in 1.0 s (2 times so far)"
    assert passes("fairlead_mcp.child", ended, "default/b exited with code 1: x", 1.0) is None
    assert passes("fairlead_mcp.child", "%s", "default/c has printed nothing for 10 s: no answer") is None
    assert passes("other", "a tool of %s is left out: %s", "x", "rope") == "a tool of x is left out: rope"
    assert passes("other", "a tool of %s is left out: %s", "x", "tar") == "a tool of x is left out: tar"
    assert passes("other", "info", level=logging.INFO) == "info"


def test_memory_of_repeats_is_bounded() -> None:
    repeats = Repeats()
    for number in range(5_000):
        repeats.count(f"kind {number} " + "x" * 10_000, "y" * 10_000)
    assert len(repeats._counts) <= 1_000
    assert max(map(len, repeats._counts)) <= 400


def test_the_screen_counts_seconds_of_a_start_and_restarts() -> None:
    now = [100.0]
    board = Board(lambda key: (), lambda: None, lambda key: 5, clock=lambda: now[0])
    board.declare(KEY)
    now[0] = 112.0
    condition = Condition(type="Ready", status="Unknown", reason="Deploying", last_transition_time=NOON.astimezone())
    manifest = {"metadata": {"name": "demo", "namespace": "default"}, "spec": {"command": ["x"]}}
    board.on_status(McpServer.model_validate(manifest), McpServerStatus(conditions=[condition]))
    (server,) = view_of(board, None).servers
    assert (server.state, server.seconds, server.restarts, server.is_slow) == ("starting", 12.0, 4, True)


def test_a_window_that_changes_its_size_is_drawn_again() -> None:
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True, color_system=None)
    board = Board(lambda key: (), lambda: None)
    board.declare(KEY)
    assert isinstance(console.file, io.StringIO)
    with LiveTable(console) as live:
        live.refresh(board)
        drawn = console.file.getvalue()
        live.refresh(board)
        assert console.file.getvalue() == drawn
        console.size = (40, 10)
        live.refresh(board)
        assert "\x1b[2J" in console.file.getvalue()[len(drawn) :]


def test_names_of_addresses_stand_apart_from_what_they_name(capsys: pytest.CaptureFixture[str]) -> None:
    addresses = Addresses("http://a/mcp", "http://a/metrics", client_files_command="fairlead up ~/.cursor/mcp.json")
    PlainLines().show_addresses(addresses)
    assert "Your servers: fairlead up ~/.cursor/mcp.json" in capsys.readouterr().out


def test_commands_in_the_reason_of_a_failure_name_a_gateway_on_another_port(
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = "http://127.0.0.1:8081/mcp"
    token = NAMED_URL.set(url)
    try:
        printed = Printed(capsys)
        (line,) = printed.show("False", "StartFailed", "exited with code 1; fairlead logs default/demo has it.")
        assert f"fairlead logs --url {url} default/demo has it." in line
        (row,) = view_of(printed.board, None).servers
        assert row.message == f"exited with code 1; fairlead logs --url {url} default/demo has it."
    finally:
        NAMED_URL.reset(token)
