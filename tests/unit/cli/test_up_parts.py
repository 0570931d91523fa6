"""The parts of `fairlead up` that need no process: rows, lines, tables, folders, quick start."""

from __future__ import annotations

import fcntl
import io
import json
import shlex
import socket
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from fairlead_api.latency_metadata import authored_latency
from fairlead_api.load import ManifestProblem
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import REASON_OF, Cause, sentence
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.condition_types import Status
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_cli.demo import main as run_demo
from fairlead_cli.demo import server as demo
from fairlead_cli.failure import Failure
from fairlead_cli.up.board import CHOSEN_TOOLS, READING_SECONDS, Board, row_for
from fairlead_cli.up.clients import KEY_VARIABLE, client_lines
from fairlead_cli.up.command import UpOptions, is_own_address
from fairlead_cli.up.display import Addresses, JsonChanges, LiveTable, PlainLines
from fairlead_cli.up.folders import folders, grants_folder, package_cache
from fairlead_cli.up.quickstart import Skipped, quick_start
from fairlead_gateway import CustomTool, CustomTools
from fairlead_gateway.custom.load import LoadedTools, LoadProblem
from fairlead_operator.ports import TIER_MOVED, Announcement

KEY = ServerKey("default", "demo")
URL = "http://127.0.0.1:8080/mcp"
LEFT = "a left the fast tier: 5 of its last 5 calls took over 500 ms (p95 900 ms)"
ADDRESSES = Addresses(URL, "http://127.0.0.1:9464/metrics")


def status(ready: Status, cause: str, message: str = "", *, offline: int = 0) -> McpServerStatus:
    condition = Condition(
        type="Ready",
        status=ready,
        reason=REASON_OF[Cause(cause)],
        message=sentence(Cause(cause), message),
        last_transition_time=datetime.now(UTC),
    )
    return McpServerStatus(conditions=[condition], tools_offline=offline)


@pytest.mark.parametrize(
    ("given", "tools", "text"),
    [
        (McpServerStatus(), (), "waiting"),
        (status("Unknown", "Deploying", "x"), (), "starting"),
        (status("Unknown", "Installing", "x==1: resolved"), (), "installing: x==1: resolved"),
        (status("True", "Verified"), ("a",), "ready, 1 tool"),
        (status("True", "Verified"), ("a", "b"), "ready, 2 tools"),
        (status("True", "Verified", "it answered"), ("a",), "ready, 1 tool"),
        (status("True", "InvalidSchemas", "1 is left out"), ("a",), "ready, 1 tool: 1 is left out"),
        (status("False", "CommandNotFound", "there is no x"), (), "failed: there is no x"),
        (status("False", "ConnectionLost", "it ended", offline=1), ("a",), "offline: it ended"),
        (status("False", "SignInRequired", "x"), ("demo__sign_in",), "wants you to sign in: fairlead login demo"),
    ],
)
def test_a_status_becomes_a_state_in_words(given: McpServerStatus, tools: tuple[str, ...], text: str) -> None:
    assert row_for(KEY, given, tools).text == text


def test_a_server_that_is_ready_and_conflicted_says_with_whom() -> None:
    good = status("True", "Verified")
    taken = status("True", "PrefixTaken", "a prefix is held").conditions[0]
    both = McpServerStatus(conditions=[*good.conditions, taken.model_copy(update={"type": "Conflicted"})])
    row = row_for(KEY, both, ("a",))
    assert (row.text, row.reason, row.cause) == ("ready, 1 tool: a prefix is held", "Conflicted", "PrefixTaken")


def board() -> Board:
    return Board(lambda key: (f"{key.name}__a", f"{key.name}__b"), lambda: None)


def test_a_process_that_lists_no_tools_names_the_command_that_shows_its_output() -> None:
    empty = Board(lambda key: (), lambda: None, starts_of=lambda key: 1 if key.name == "local" else 0)
    for name in ("local", "remote"):
        empty.on_status(server(name), status("True", "Verified"))
    assert [row.text for row in empty.rows] == [
        "ready, 0 tools: its output may say why: fairlead logs local",
        "ready, 0 tools",
    ]


def test_a_process_whose_tools_are_all_left_out_by_its_entry_is_told_so() -> None:
    empty = Board(lambda key: (), lambda: None, starts_of=lambda key: 1)
    hidden: dict[str, Any] = {"tools": [{"name": "a", "enabled": False}]}
    for name, chosen in (("excluded", hidden), ("listed", {"discovery": {"tools": "Named"}})):
        manifest = {"metadata": {"name": name, "namespace": "default"}, "spec": {"command": ["x"], **chosen}}
        empty.on_status(McpServer.model_validate(manifest), status("True", "Verified"))
    assert [row.text for row in empty.rows] == [f"ready, 0 tools: {CHOSEN_TOOLS}"] * 2


def server(name: str) -> McpServer:
    return McpServer.model_validate({"metadata": {"name": name, "namespace": "default"}, "spec": {"command": ["x"]}})


def test_a_server_that_its_user_has_to_sign_in_at_says_so_though_it_is_ready_for_others() -> None:
    shown = board()
    shown.on_status(server("linear"), status("True", "Verified"))
    key = ServerKey("default", "linear")
    assert ([row.state for row in shown.rows], shown.sign_ins) == (["ready"], [])
    shown.set_sign_ins([key])
    (row,) = shown.rows
    assert (row.text, row.cause) == ("wants you to sign in: fairlead login linear", "SignInRequired")
    assert row.tools == ("linear__a", "linear__b")
    assert shown.sign_ins == [key]
    shown.set_sign_ins([])
    assert ([row.state for row in shown.rows], shown.sign_ins) == (["ready"], [])


def test_a_server_that_its_user_has_signed_in_at_is_starting_until_its_tools_are_read() -> None:
    now = 0.0
    shown = Board(lambda key: (), lambda: None, clock=lambda: now)
    shown.on_status(server("linear"), status("False", "SignInRequired"))
    shown.set_sign_ins([])
    assert ([row.text for row in shown.rows], shown.sign_ins) == (["starting"], [])
    now = READING_SECONDS
    assert [row.text for row in shown.rows] == ["wants you to sign in: fairlead login linear"]


def test_a_user_who_cannot_sign_in_is_not_advised_to() -> None:
    shown = board()
    shown.on_status(server("linear"), status("False", "SignInRequired"))
    shown.set_sign_ins([], "possible with --host 127.0.0.1")
    assert [row.text for row in shown.rows] == ["wants you to sign in: possible with --host 127.0.0.1"]
    assert shown.sign_ins == []


def test_custom_tools_keep_their_row_and_a_server_of_their_name_is_a_problem() -> None:
    tools = CustomTools()
    tools.add(CustomTool(name="greet", handler=print, input_schema={}))
    shown = board()
    shown.add_custom_tools(ServerKey("default", "local"), LoadedTools(tools, (LoadProblem("mine.py", "it is broken"),)))
    shown.on_status(server("local"), status("True", "Verified"))
    shown.on_status(server("local"), status("True", "Verified"))
    shown.on_removal(ServerKey("default", "local"))
    (row,) = shown.rows
    assert (row.text, row.tools) == ("ready, 1 tool", ("greet",))
    assert [str(problem) for problem in shown.problems] == [
        "mine.py: it is broken",
        "default/local: the name is taken by the gateway's custom tools: rename the server",
    ]


def test_lines_are_printed_for_what_changes_and_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    shown = board()
    lines = PlainLines(now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    lines.show_addresses(ADDRESSES)
    shown.declare(KEY)
    lines.refresh(shown)
    shown.on_status(server("demo"), status("True", "Verified"))
    shown.set_problems((ManifestProblem("a.yaml", 3, "spec", "no"),))
    lines.refresh(shown)
    lines.refresh(shown)
    shown.on_removal(KEY)
    lines.refresh(shown)
    lines.show_stopping()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"03:04:05  Serving MCP at {URL} and metrics at http://127.0.0.1:9464/metrics"
    assert [line.removeprefix("03:04:05  ") for line in printed[-5:]] == [
        "demo  starting",
        "demo  ready, 2 tools (demo__a, demo__b)",
        "problem: a.yaml:3: spec: no",
        "demo  gone",
        "Stopping",
    ]


def test_programs_get_one_json_object_per_change(capsys: pytest.CaptureFixture[str]) -> None:
    shown = board()
    lines = JsonChanges()
    lines.show_addresses(ADDRESSES)
    shown.on_status(server("demo"), status("True", "Verified"))
    shown.skip(Skipped(ServerKey("default", "git"), "no repository"))
    shown.set_problems((ManifestProblem("a.yaml", 3, "spec", "no"),))
    lines.refresh(shown)
    lines.refresh(shown)
    shown.on_removal(KEY)
    lines.refresh(shown)
    lines.show_stopping()
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event.pop("event") for event in events] == ["listening", "server", "server", "problem", "gone", "stopping"]
    assert events[0] == {"url": URL, "metrics": ADDRESSES.metrics}
    assert events[1] == {
        "server": "default/demo",
        "state": "ready",
        "reason": "",
        "cause": "",
        "message": "",
        "tools": ["demo__a", "demo__b"],
    }
    assert (events[2]["state"], events[2]["message"]) == ("skipped", "no repository")
    assert events[3] == {"file": "a.yaml", "line": 3, "field": "spec", "message": "no"}


def test_a_tool_that_changes_tiers_is_told_once_in_each_way(capsys: pytest.CaptureFixture[str]) -> None:
    shown = board()
    lines = PlainLines(now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    objects = JsonChanges()
    shown.on_announcement(server("demo"), Announcement("Normal", "Ready", "ready with 2 tools"))
    shown.on_announcement(server("demo"), Announcement("Warning", TIER_MOVED, LEFT))
    for display in (lines, lines, objects, objects):
        display.refresh(shown)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"03:04:05  demo  {LEFT}"
    assert [json.loads(line) for line in printed[1:]] == [{"event": "moved", "server": "default/demo", "message": LEFT}]
    console = Console(file=io.StringIO(), width=100, height=30, force_terminal=True, color_system=None)
    with LiveTable(console) as live:
        live.refresh(shown)
    assert isinstance(console.file, io.StringIO)
    assert f"demo: {LEFT}" in console.file.getvalue()


def table(height: int) -> str:
    console = Console(file=io.StringIO(), width=100, height=height, force_terminal=True, color_system=None)
    shown = board()
    for name in ("demo", "time"):
        shown.on_status(server(name), status("True", "Verified"))
    with LiveTable(console) as live:
        live.show_addresses(ADDRESSES)
        live.refresh(shown)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_the_live_table_names_tools_where_there_is_room() -> None:
    roomy = table(50)
    narrow = table(8)
    assert "demo__a, demo__b" in roomy
    assert "demo__a, demo__b" not in narrow
    assert "claude mcp add --transport http fairlead" in roomy
    for text in (roomy, narrow):
        assert URL in text
        assert "2 tools" in text


def test_lines_of_clients_hold_the_brackets_of_an_ipv6_address_as_shells_take_them() -> None:
    lines = dict(client_lines("http://[::1]:8080/mcp"))
    for client in ("Claude Code", "Inspector"):
        assert "http://[::1]:8080/mcp" in shlex.split(lines[client])
        assert "'http://[::1]:8080/mcp'" in lines[client], "zsh takes brackets for a pattern"
    assert '"url": "http://[::1]:8080/mcp"' in lines["Cursor"]


def test_the_lines_of_a_gateway_with_keys_take_the_key_from_a_variable() -> None:
    lines = dict(client_lines("http://127.0.0.1:9/mcp", wants_key=True))
    assert lines["Key"].startswith(f"export {KEY_VARIABLE}=")
    assert shlex.split(lines["Claude Code"])[-2:] == ["--header", f"Authorization: Bearer ${KEY_VARIABLE}"]
    assert "Inspector" not in lines, "it takes no header"
    entry = json.loads(lines["Cursor"].partition(": ")[2])["mcpServers"]["fairlead"]
    assert entry["headers"] == {"Authorization": f"Bearer ${{env:{KEY_VARIABLE}}}"}


def test_the_command_that_makes_a_key_names_the_gateways_file_of_keys(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path("/srv/my state/keys.json")
    PlainLines().show_addresses(Addresses(URL, "", wants_key=True, key_file=file))
    assert f"`fairlead keys create NAME --file '{file}'` makes a key" in capsys.readouterr().out


def test_the_lines_of_a_gateway_at_which_people_sign_in_have_the_url_alone() -> None:
    url = "https://tools.example.com/mcp"
    lines = dict(client_lines(url, wants_key=True, signs_in=True))
    assert lines["Claude Code"] == f"claude mcp add --transport http fairlead {url}"
    assert json.loads(lines["Cursor"].partition(": ")[2]) == {"mcpServers": {"fairlead": {"url": url}}}
    assert list(lines)[-2:] == ["Key", "Fairlead"], "the key is for fairlead alone"


def test_lines_have_the_public_url_where_people_sign_in(capsys: pytest.CaptureFixture[str]) -> None:
    addresses = Addresses(URL, "", wants_key=True, sign_in="https://tools.example.com/mcp")
    PlainLines().show_addresses(addresses)
    assert "fairlead https://tools.example.com/mcp" in capsys.readouterr().out


def test_the_lines_to_paste_name_the_address() -> None:
    lines = dict(client_lines("http://127.0.0.1:9/mcp"))
    assert lines["Claude Code"] == "claude mcp add --transport http fairlead http://127.0.0.1:9/mcp"
    assert json.loads(lines["Cursor"].partition(": ")[2]) == {
        "mcpServers": {"fairlead": {"url": "http://127.0.0.1:9/mcp"}}
    }
    assert "http://127.0.0.1:9/mcp" in lines["Inspector"]
    assert lines["Fairlead"] == "fairlead tools --url http://127.0.0.1:9/mcp"
    assert dict(client_lines(URL))["Fairlead"] == "fairlead tools"


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8080/mcp", True),
        ("http://localhost:8080/servers/a/b/mcp", True),
        ("http://127.0.0.1:8081/mcp", False),
        ("https://tools.example.com/mcp", False),
        ("http://127.0.0.1:nonsense/mcp", False),
    ],
)
def test_the_gateways_own_address_is_recognized(url: str, here: bool) -> None:
    assert is_own_address(url, UpOptions()) is here


async def test_the_slow_tool_of_the_demo_declares_its_latency() -> None:
    slow = {
        tool.name: authored_latency(msgspec.json.encode(tool.model_dump(by_alias=True))).latency
        for tool in await demo.list_tools()
        if "about 3 s" in (tool.description or "")
    }
    assert {name: latency.estimated_duration_ms for name, latency in slow.items()} == {"forecast_demand": 3000}


def test_the_quick_start_serves_the_repository_around_it(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    contents, skipped = quick_start(inner)
    assert sorted(key.name for key in contents.servers) == ["demo", "git", "time"]
    assert skipped == ()
    package = contents.servers[ServerKey("default", "git")].server.spec.package
    assert package is not None
    assert package.args == ["--repository", str(tmp_path)]


def test_the_quick_start_says_why_it_leaves_git_out(tmp_path: Path) -> None:
    contents, skipped = quick_start(tmp_path)
    assert sorted(key.name for key in contents.servers) == ["demo", "time"]
    assert [(skip.key.name, skip.why) for skip in skipped] == [("git", f"{tmp_path} is not in a git repository")]


def test_a_run_keeps_its_things_to_itself_and_takes_them_along(tmp_path: Path) -> None:
    with folders(None, {"XDG_RUNTIME_DIR": str(tmp_path)}) as where:
        root = where.documents.parent
        assert root.parent == tmp_path
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []


def test_folders_of_a_killed_run_are_removed_by_the_next_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    dead = tmp_path / "fairlead-up-dead"
    living = tmp_path / "fairlead-up-living"
    for folder in (dead, living):
        folder.mkdir()
        (folder / ".lock").touch()
    with (living / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with folders(None, {"XDG_RUNTIME_DIR": str(tmp_path)}):
            assert not dead.exists()
            assert living.exists()


def test_a_state_directory_stays_and_serves_one_run_at_a_time(tmp_path: Path) -> None:
    with folders(tmp_path / "state", {}) as where:
        assert where.credentials == tmp_path / "state" / "credentials"
        with pytest.raises(Failure, match="another `fairlead up` uses"), folders(tmp_path / "state", {}):
            pass
    assert (tmp_path / "state").exists()


def test_packages_lie_with_the_run_where_the_users_cache_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")  # root may write everywhere else
    environment = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with folders(None, environment) as where:
        assert where.packages.parent == where.credentials.parent
    assert "packages are installed for this run only" in caplog.text
    assert f"{tmp_path}/cache/fairlead/packages cannot be written" in caplog.text


def test_packages_lie_in_the_users_cache() -> None:
    assert package_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/fairlead/packages")
    assert package_cache({"XDG_CACHE_HOME": "relative"}).parts[-3:] == (".cache", "fairlead", "packages")


def test_grants_outlive_a_run_also_without_a_state_folder(tmp_path: Path) -> None:
    assert grants_folder(tmp_path, {"XDG_STATE_HOME": "/s"}) == tmp_path / "grants"
    assert grants_folder(None, {"XDG_STATE_HOME": "/s"}) == Path("/s/fairlead/grants")
    assert grants_folder(None, {}).parts[-4:] == (".local", "state", "fairlead", "grants")
    assert grants_folder(None, {"XDG_STATE_HOME": "relative"}) == grants_folder(None, {})


def test_a_demo_server_whose_port_is_taken_says_so_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("sys.argv", ["demo", "--port", str(port)])
        with pytest.raises(SystemExit, match=f"cannot listen on port {port}: .* Give another --port"):
            run_demo()
