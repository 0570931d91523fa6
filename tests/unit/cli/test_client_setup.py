"""`fairlead client setup` changes one entry of a client's file, and nothing else."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from fairlead_cli.clients.setup import SetupWishes, found_clients, run_setup
from fairlead_cli.failure import Failure
from fairlead_cli.output import Output
from fairlead_tools.client_files import UnreadableFile, with_entry
from fairlead_tools.known_clients import CLIENTS

URL = "http://127.0.0.1:8080/mcp"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def wishes(**more: object) -> SetupWishes:
    return SetupWishes(**{"url": URL, "name": "fairlead", "key_env": None, "scope": "user", "yes": True} | more)  # type: ignore[arg-type] # of several types


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_without_a_file_gets_one_and_undo_takes_it_away(client: str, home: Path) -> None:
    file = home / CLIENTS[client].user
    run_setup(client, wishes(), Output.table)
    assert URL in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    run_setup(client, wishes(undo=True), Output.table)
    assert not file.exists()


@pytest.mark.parametrize("client", [name for name, known in CLIENTS.items() if not known.is_toml])
def test_what_stands_in_a_json_file_stays(client: str, home: Path) -> None:
    known = CLIENTS[client]
    file = home / known.user
    file.parent.mkdir(parents=True, exist_ok=True)
    before = {"theme": "dark", known.member: {"other": {"command": "x", "args": ["ä"]}}, "z": [1.5]}
    text = json.dumps(before, indent=4, ensure_ascii=False) + "\n"
    file.write_text(text)
    file.chmod(0o644)
    run_setup(client, wishes(), Output.table)
    after = json.loads(file.read_text())
    assert list(after) == list(before)
    assert after[known.member].pop("fairlead") == known.entry(URL, None)
    assert after == before
    assert file.stat().st_mode & 0o777 == 0o644
    run_setup(client, wishes(undo=True), Output.table)
    assert file.read_text() == text


def test_comments_of_a_toml_file_stay(home: Path) -> None:
    file = home / ".codex/config.toml"
    file.parent.mkdir()
    text = '# mine\nmodel = "x" # that one\n\n[mcp_servers.fairlead]\nurl = "http://old"\n\n[tools]\nweb = true # yes\n'
    file.write_text(text)
    run_setup("codex", wishes(key_env="KEY"), Output.table)
    after = file.read_text()
    assert "# mine" in after
    assert "# that one" in after
    assert "# yes" in after
    assert tomllib.loads(after) == {
        "model": "x",
        "tools": {"web": True},
        "mcp_servers": {"fairlead": {"url": URL, "bearer_token_env_var": "KEY"}},
    }


@pytest.mark.parametrize(
    "text", ['{"mcpServers": {}, // mine\n}', '{"mcpServers": {},}', "{", "[]", '{"mcpServers": 1}']
)
def test_a_file_that_would_lose_something_is_left_as_it_is(home: Path, text: str) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(Failure, match=r"is left as it is: .*put in by hand"):
        run_setup("cursor", wishes(), Output.table)
    assert file.read_text() == text


def test_an_inline_table_of_toml_is_not_touched() -> None:
    with pytest.raises(UnreadableFile, match="another form"):
        with_entry('mcp_servers = {fairlead = {url = "x"}}', "mcp_servers", "fairlead", {"url": URL}, toml=True)


def test_a_dry_run_shows_the_change_and_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_setup("cursor", wishes(dry_run=True), Output.table)
    shown = capsys.readouterr()
    assert f'+      "url": "{URL}"' in shown.err
    assert "Nothing is written" in shown.out
    assert not (home / ".cursor").exists()


def test_nothing_is_written_where_nobody_can_be_asked(home: Path) -> None:
    with pytest.raises(Failure, match="--yes writes it"):
        run_setup("cursor", wishes(yes=False), Output.table)
    assert not (home / ".cursor").exists()


def test_a_second_run_changes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_setup("cursor", wishes(), Output.table)
    stamp = (home / ".cursor/mcp.json").stat().st_mtime_ns
    capsys.readouterr()
    run_setup("cursor", wishes(), Output.table)
    assert "nothing is changed" in capsys.readouterr().out
    assert (home / ".cursor/mcp.json").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("client", "header"),
    [
        ("claude-code", "Bearer ${KEY}"),
        ("cursor", "Bearer ${env:KEY}"),
        ("vscode", "Bearer ${env:KEY}"),
        ("windsurf", "Bearer ${env:KEY}"),
        ("gemini-cli", "Bearer $KEY"),
    ],
)
def test_a_key_stands_as_a_variable_in_the_clients_own_words(client: str, header: str) -> None:
    assert CLIENTS[client].entry(URL, "KEY")["headers"] == {"Authorization": header}


def test_a_key_itself_is_refused() -> None:
    with pytest.raises(Failure, match="the name of an environment variable"):
        run_setup("cursor", wishes(key_env="fl-1234.abcd"), Output.table)


def test_a_file_of_the_project_is_that_of_the_folder(home: Path) -> None:
    run_setup("vscode", wishes(scope="project"), Output.table)
    assert json.loads((home / "project/.vscode/mcp.json").read_text())["servers"]["fairlead"]["type"] == "http"
    with pytest.raises(Failure, match="no file of a project"):
        run_setup("windsurf", wishes(scope="project"), Output.table)


def test_the_list_says_which_clients_are_set_up(capsys: pytest.CaptureFixture[str]) -> None:
    run_setup("cursor", wishes(), Output.table)
    capsys.readouterr()
    found_clients(Output.json, "fairlead")
    states = {(row["client"], row["scope"]): row["state"] for row in json.loads(capsys.readouterr().out)}
    assert states["cursor", "user"] == "set up"
    assert states["cursor", "project"] == "no file"


def test_a_link_is_followed(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}")
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(real)
    run_setup("cursor", wishes(), Output.table)
    assert (home / ".cursor/mcp.json").is_symlink()
    assert URL in real.read_text()
