"""`fairlead client setup` changes one entry of a client's file, and nothing else."""

from __future__ import annotations

import json
import re
import socket
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from fairlead_api.client_files.edits import UnreadableFile, edit_of, entry_of, with_entry
from fairlead_api.client_files.known_clients import CLIENTS
from fairlead_api.client_files.own_program import own_program
from fairlead_cli.clients.options import ConfigScope, SetupOptions
from fairlead_cli.clients.setup import print_clients, run_setup
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import Output

URL = "http://127.0.0.1:8080/mcp"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def wishes(**more: object) -> SetupOptions:
    return SetupOptions(**{"url": URL, "name": "fairlead", "yes": True} | more)  # type: ignore[arg-type] # of several types


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_without_a_file_gets_one_and_undo_takes_it_away(client: str, home: Path) -> None:
    file = home / CLIENTS[client].user
    run_setup(client, wishes(), Output.table)
    assert URL in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    run_setup(client, wishes(undo=True), Output.table)
    assert not file.exists()


def test_a_gateway_of_this_machine_that_does_not_run_is_remarked_on(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        run_setup("cursor", wishes(url=url), Output.table)
    assert "no gateway listens" not in capsys.readouterr().err
    run_setup("cursor", wishes(url=url, name="again"), Output.table)
    assert (
        f"no gateway listens at {url} yet: start one with `fairlead up --port {urlsplit(url).port}`"
        in capsys.readouterr().err
    )
    run_setup("cursor", wishes(url="https://tools.example.com/mcp", name="far"), Output.table)
    assert "no gateway listens" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("chosen", "advice"),
    [
        ({"allowed": ["other"]}, "add it to mcp.allowed in the file"),
        ({"excluded": ["fairlead"]}, "remove it from mcp.excluded in the file"),
        ({"allowed": ["fairlead"], "excluded": []}, None),
    ],
)
def test_a_choice_of_gemini_that_leaves_the_gateway_out_is_remarked_on(
    chosen: dict[str, list[str]], advice: str | None, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / CLIENTS["gemini-cli"].user
    file.parent.mkdir()
    file.write_text(json.dumps({"mcp": chosen, "mcpServers": {}}))
    run_setup("gemini-cli", wishes(), Output.table)
    told = "Gemini CLI will not start fairlead yet: "
    printed = capsys.readouterr()
    error = printed.err
    assert (told in error) is (advice is not None)
    assert ("Now restart it" in printed.out) is (advice is None)
    assert advice is None or told + advice in error


@pytest.mark.parametrize("client", [name for name, editor in CLIENTS.items() if editor.form == "json"])
def test_other_content_of_a_json_file_stays(client: str, home: Path) -> None:
    editor = CLIENTS[client]
    file = home / editor.user
    file.parent.mkdir(parents=True, exist_ok=True)
    before = {"theme": "dark", editor.member: {"other": {"command": "x", "args": ["ä"]}}, "z": [1.5]}
    text = json.dumps(before, indent=4, ensure_ascii=False) + "\n"
    file.write_text(text)
    file.chmod(0o644)
    run_setup(client, wishes(), Output.table)
    after = json.loads(file.read_text())
    assert list(after) == list(before)
    assert after[editor.member].pop("fairlead") == editor.entry_for(URL, fairlead=own_program())
    assert after == before
    assert file.stat().st_mode & 0o777 == 0o644
    run_setup(client, wishes(undo=True), Output.table)
    assert file.read_text() == text


@pytest.mark.parametrize("linked", [False, True])
def test_a_read_only_file_is_neither_changed_nor_restored(linked: bool, home: Path) -> None:
    file = home / CLIENTS["cursor"].user
    file.parent.mkdir(parents=True)
    managed = home / "managed.json" if linked else file
    managed.write_text("{}")
    managed.chmod(0o444)
    if linked:
        file.symlink_to(managed)
    with pytest.raises(Failure, match=rf"is read-only and is not changed: run `chmod u\+w {managed}`"):
        run_setup("cursor", wishes(), Output.table)
    assert managed.read_text() == "{}"
    run_setup("cursor", wishes(dry_run=True), Output.table)
    managed.chmod(0o644)
    run_setup("cursor", wishes(), Output.table)
    managed.chmod(0o444)
    with pytest.raises(Failure, match="read-only"):
        run_setup("cursor", wishes(undo=True), Output.table)
    assert URL in managed.read_text()


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
    ("text", "action"),
    [
        ("[]", "replace the content of the file by hand with this"),
        ('{"mcpServers": 1}', "replace the member mcpServers by hand with this"),
    ],
)
def test_a_file_that_would_lose_something_is_left_as_it_is(home: Path, text: str, action: str) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(Failure, match=rf"is not changed: .*{action}: "):
        run_setup("cursor", wishes(), Output.table)
    assert file.read_text() == text


@pytest.mark.parametrize("text", ["{", '{"mcpServers": {},, }', '{"mcpServers": {"x": /* }'])
def test_a_malformed_file_is_to_be_corrected_before_anything_is_added(home: Path, text: str) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(
        Failure, match=r"is not changed: it is not valid JSON: .*; correct the file, then run the"
    ) as refusal:
        run_setup("cursor", wishes(), Output.table)
    assert "by hand" not in str(refusal.value)
    assert file.read_text() == text


def test_an_entry_that_cannot_be_edited_is_to_be_replaced_by_hand_and_not_added_twice(home: Path) -> None:
    file = home / ".codex/config.toml"
    file.parent.mkdir()
    file.write_text('[mcp_servers]\nfairlead = {command = "x"}\n')
    with pytest.raises(Failure, match=r"replace mcp_servers\.fairlead by hand with this: \[mcp_servers\.fairlead\]"):
        run_setup("codex", wishes(), Output.table)


def test_an_inline_table_of_toml_is_not_touched() -> None:
    with pytest.raises(UnreadableFile, match="does not define mcp_servers"):
        with_entry('mcp_servers = {fairlead = {url = "x"}}', "mcp_servers", "fairlead", {"url": URL}, "toml")


def test_a_server_cannot_be_added_to_an_inline_table_of_toml_whose_file_is_called_valid() -> None:
    with pytest.raises(
        UnreadableFile, match=r"mcp_servers cannot be edited .*; write its servers as tables, such as \["
    ):
        with_entry('mcp_servers = {a = {command = "x"}}', "mcp_servers", "fairlead", {"url": URL}, "toml")


def test_a_comment_stays_in_a_file_that_has_nothing_else() -> None:
    after = with_entry("// mine\n", "context_servers", "fairlead", {"url": URL}, "json")
    assert after.startswith('// mine\n{\n  "context_servers"')


def test_a_byte_order_mark_does_not_change_how_an_entry_is_indented() -> None:
    text = '{\n    "mcpServers": {\n        "a": {}\n    }\n}\n'
    plain = with_entry(text, "mcpServers", "fairlead", {"url": URL}, "json")
    assert '\n        "fairlead": {' in plain
    assert with_entry(f"\ufeff{text}", "mcpServers", "fairlead", {"url": URL}, "json") == f"\ufeff{plain}"


def test_a_dry_run_shows_the_change_and_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_setup("cursor", wishes(dry_run=True), Output.table)
    shown = capsys.readouterr()
    assert f'+      "url": "{URL}"' in shown.err
    assert "Nothing is written" in shown.out
    assert not (home / ".cursor").exists()


def test_client_setup_writes_nothing_where_nobody_can_be_asked(home: Path) -> None:
    with pytest.raises(Failure, match="pass --yes to write it"):
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
        ("opencode", "Bearer {env:KEY}"),
        ("goose", "Bearer ${KEY}"),
        ("claude-code", "Bearer ${KEY}"),
        ("cursor", "Bearer ${env:KEY}"),
        ("vscode", "Bearer ${env:KEY}"),
        ("windsurf", "Bearer ${env:KEY}"),
        ("gemini-cli", "Bearer $KEY"),
    ],
)
def test_a_key_stands_as_a_variable_in_the_clients_own_words(client: str, header: str) -> None:
    assert CLIENTS[client].entry_for(URL, "KEY")["headers"] == {"Authorization": header}


def test_a_key_itself_is_refused() -> None:
    with pytest.raises(Failure, match="the name of an environment variable"):
        run_setup("cursor", wishes(key_env="fl-1234.abcd"), Output.table)


def test_a_file_of_the_project_is_that_of_the_folder(home: Path) -> None:
    run_setup("vscode", wishes(scope=ConfigScope.project), Output.table)
    assert json.loads((home / "project/.vscode/mcp.json").read_text())["servers"]["fairlead"]["type"] == "http"
    with pytest.raises(Failure, match="no project file"):
        run_setup("windsurf", wishes(scope=ConfigScope.project), Output.table)


def test_the_list_says_which_clients_are_set_up(capsys: pytest.CaptureFixture[str]) -> None:
    run_setup("cursor", wishes(), Output.table)
    capsys.readouterr()
    print_clients(Output.json, "fairlead")
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


JSONC = """// my settings
{
  "theme": "dark", // at night
  "MEMBER": {
    /* the first */
    "other": {
      "command": "x", // a program
      "env": {"API_KEY": "s3cr3t"},
    },
  },
  // the end
}
"""


@pytest.mark.parametrize("comment", [" // mine", "  /* mine */", " /* mine */ // and mine"])
@pytest.mark.parametrize("comma", ["", ","])
def test_a_comment_behind_the_last_entry_stays_with_it_when_another_is_added(comment: str, comma: str) -> None:
    line = f'    "a": {{"command": "x"}}{comma}{comment}'
    text = f'{{\n  "mcpServers": {{\n{line}\n  }}\n}}\n'
    edit = edit_of(text, "mcpServers", "b", {"url": URL}, "json")
    after = edit.apply(text)
    assert after.splitlines()[2] == f'    "a": {{"command": "x"}},{comment}'
    assert after.splitlines()[3].startswith('    "b": {')


def test_a_comment_over_several_lines_is_not_entered() -> None:
    text = '{"mcpServers": {\n"a": {"command": "x"}, /* one\ntwo */\n}}\n'
    after = with_entry(text, "mcpServers", "b", {"url": URL}, "json")
    assert "/* one\ntwo */" in after
    assert entry_of(after, "mcpServers", "b", "json") == {"url": URL}


@pytest.mark.parametrize("client", [name for name, editor in CLIENTS.items() if editor.form == "json"])
@pytest.mark.parametrize("text", [JSONC, JSONC.replace("},\n  // the", "}\n  // the"), JSONC.replace("\n", "\r\n")])
def test_comments_stay_and_undo_gives_the_file_as_it_was(
    client: str, text: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    editor = CLIENTS[client]
    file = home / editor.user
    file.parent.mkdir(parents=True, exist_ok=True)
    text = text.replace("MEMBER", editor.member)
    file.write_bytes(text.encode())
    run_setup(client, wishes(), Output.table)
    after = file.read_bytes().decode()
    assert entry_of(after, editor.member, "fairlead", "json") == editor.entry_for(URL, fairlead=own_program())
    assert entry_of(after, editor.member, "other", "json") == {"command": "x", "env": {"API_KEY": "s3cr3t"}}
    for comment in ("// my settings", "// at night", "/* the first */", "// a program", "// the end"):
        assert comment in after
    assert "s3cr3t" not in capsys.readouterr().err
    print_clients(Output.json, "fairlead")
    rows = json.loads(capsys.readouterr().out)
    assert ("user", "set up") in [(row["scope"], row["state"]) for row in rows if row["client"] == client]
    run_setup(client, wishes(undo=True), Output.table)
    assert file.read_bytes().decode() == text


EMPTY = {"json": ["", "\n", "{}", "{ }\n"]}
"""Text of an empty configuration, by file format."""


@pytest.mark.parametrize(
    ("client", "text"),
    [(name, text) for name, each in CLIENTS.items() for text in EMPTY.get(each.form, ["", "\n", "# nothing yet\n"])],
)
def test_undo_keeps_a_file_that_was_empty(client: str, text: str, home: Path) -> None:
    file = home / CLIENTS[client].user
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    run_setup(client, wishes(), Output.table)
    run_setup(client, wishes(undo=True), Output.table)
    assert file.read_text() == text
    assert not (home / ".local/state/fairlead/clients.json").exists()


AS_IS = {
    "json": [
        '{"mcpServers": {}}',
        '\ufeff{ "mcpServers": { } }',
        '{\n  "mcpServers": {\n    // "a": {"api_key": ""}\n  },\n}',
        '{"mcpServers":{}}\r\n',
        '{"other": 1, "mcpServers": {}, "last": [1,2]}',
    ],
    "toml": ['model = "x"\n\n[mcpServers.a]\ncommand = "x"', "[mcpServers]\n", "a = 1\n\n\n"],
    "yaml": ["mcpServers:\n  a:\n    x: 1", "mcpServers:\n", "mcpServers:", "mcpServers: # none yet\nb: 1", "b: 1"],
}
"""Files with settings but an empty list of servers, or without a newline at the end."""


@pytest.mark.parametrize(
    ("client", "text"), [(name, text) for name, client in CLIENTS.items() for text in AS_IS[client.form]]
)
def test_undo_gives_a_file_back_character_for_character(client: str, text: str, home: Path) -> None:
    file = home / CLIENTS[client].user
    file.parent.mkdir(parents=True, exist_ok=True)
    before = text.replace("mcpServers", CLIENTS[client].member).encode()
    file.write_bytes(before)
    run_setup(client, wishes(), Output.table)
    run_setup(client, wishes(url=URL + "/fast"), Output.table)
    assert file.read_bytes() != before
    run_setup(client, wishes(undo=True), Output.table)
    assert file.read_bytes() == before


def test_undo_takes_the_entry_out_of_a_file_that_its_client_has_rewritten(home: Path) -> None:
    file = home / CLIENTS["cursor"].user
    file.parent.mkdir(parents=True)
    file.write_text('{"mcpServers": {}}')
    run_setup("cursor", wishes(), Output.table)
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document))
    run_setup("cursor", wishes(undo=True), Output.table)
    assert json.loads(file.read_text()).get("mcpServers", {}) == {}


def test_a_setup_shows_no_comment_that_stays(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / CLIENTS["zed"].user
    file.parent.mkdir(parents=True)
    file.write_text('{\n  "context_servers": {\n    // "a": {"api_key": "s3cr3t"}\n  }\n}')
    run_setup("zed", wishes(), Output.table)
    assert "api_key" not in capsys.readouterr().err


OLD = {
    "json": '{"MEMBER": {"a": {"x": 1}, "fairlead": {"url": "http://old", /* mine */ "headers": '
    '{"Authorization": "Bearer s3cr3t"}}, "b": {}}}\n',
    "toml": '[MEMBER.fairlead]\nurl = "http://old" # mine\ntoken = "s3cr3t"\n\n# of tools\n[tools]\nweb = true\n',
    "yaml": "MEMBER:\n  a:\n    x: 1\n"
    "  fairlead:\n    uri: http://old # mine\n    token: s3cr3t\n  b:\n    y: 1\nlast: 1\n",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_undo_puts_back_the_entry_that_was_replaced(
    client: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    editor = CLIENTS[client]
    file = home / editor.user
    text = OLD[editor.form].replace("MEMBER", editor.member)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    run_setup(client, wishes(), Output.table)
    run_setup(client, wishes(url=URL + "/fast"), Output.table)
    assert entry_of(file.read_text(), editor.member, "fairlead", editor.form) == editor.entry_for(
        URL + "/fast", fairlead=own_program()
    )
    assert "s3cr3t" not in capsys.readouterr().err
    run_setup(client, wishes(undo=True), Output.table)
    assert file.read_text() == text


def test_a_yaml_file_keeps_its_comments_and_other_blocks(home: Path) -> None:
    file = home / ".config/goose/config.yaml"
    file.parent.mkdir(parents=True)
    text = (
        "GOOSE_MODEL: m # mine\nextensions:\n  developer:\n    enabled: true\n    type: builtin\n\n  # kept\n"
        "  memory:\n    enabled: false\nactive_provider: x\n"
    )
    file.write_text(text)
    run_setup("goose", wishes(key_env="KEY"), Output.table)
    after = file.read_text()
    document = yaml.safe_load(after)
    assert document["extensions"]["fairlead"]["uri"] == URL
    assert document["extensions"]["fairlead"]["env_keys"] == ["KEY"]
    assert document["active_provider"] == "x"
    assert "# mine" in after
    assert "# kept" in after
    run_setup("goose", wishes(undo=True), Output.table)
    assert file.read_text() == text
    file.write_text("extensions: {developer: {enabled: true}}\n")
    with pytest.raises(Failure, match="is not changed"):
        run_setup("goose", wishes(), Output.table)


def test_a_yaml_file_gets_no_second_member_and_no_entry_that_cannot_be_read() -> None:
    assert with_entry("extensions:\n", "extensions", "f", {"a": 1}, "yaml") == "extensions:\n  f:\n    a: 1\n"
    with pytest.raises(UnreadableFile, match="does not have extensions as a block"):
        with_entry("extensions: {}\n", "extensions", "f", {"a": 1}, "yaml")
    with pytest.raises(UnreadableFile, match="extensions cannot be edited automatically"):
        with_entry("extensions:\n    a:\n        x: 1\n", "extensions", "f", "  f:\n    y: 1\n", "yaml")


@pytest.mark.parametrize("client", [name for name, editor in CLIENTS.items() if not editor.reads_variables])
def test_a_client_that_reads_no_variable_starts_a_bridge_that_reads_a_file(client: str, home: Path) -> None:
    with pytest.raises(Failure, match="--key-file"):
        run_setup(client, wishes(key_env="KEY"), Output.table)
    with pytest.raises(Failure, match="is not a file"):
        run_setup(client, wishes(key_file=home / "me.key"), Output.table)
    (home / "me.key").write_text("flk_1")
    run_setup(client, wishes(key_file=home / "me.key"), Output.table)
    editor = CLIENTS[client]
    entry = json.loads((home / editor.user).read_text())[editor.member]["fairlead"]
    assert [entry["command"], *entry["args"]] == [*own_program(), "bridge", URL, "--token", f"@{home / 'me.key'}"]
    assert "flk_1" not in (home / editor.user).read_text()


def test_opencode_is_set_up_in_the_file_with_comments_where_there_is_that_alone(home: Path) -> None:
    file = home / ".config/opencode/opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text('{\n  // mine\n  "model": "x"\n}\n')
    run_setup("opencode", wishes(), Output.table)
    assert "// mine" in file.read_text()
    assert entry_of(file.read_text(), "mcp", "fairlead", "json") == {"type": "remote", "url": URL, "enabled": True}
    assert not file.with_suffix(".json").exists()


@pytest.mark.parametrize(
    ("name", "meant"),
    [("curser", "Did you mean cursor?"), ("claude", "Did you mean claude-code or claude-desktop?"), ("", "Clients: ")],
)
def test_near_names_are_suggested_for_a_wrong_client(name: str, meant: str) -> None:
    with pytest.raises(Failure, match=re.escape(meant)) as caught:
        run_setup(name, wishes(), Output.table)
    assert caught.value.code == USAGE_ERROR


def test_a_client_is_found_in_capitals_too(home: Path) -> None:
    run_setup("Cursor", wishes(), Output.table)
    assert (home / ".cursor/mcp.json").exists()


def test_an_undone_setup_shows_no_secret_and_does_not_promise_the_server(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"fairlead": {"command": "x", "env": {"TOKEN": "hush"}}}}')
    run_setup("cursor", wishes(), Output.table)
    run_setup("cursor", wishes(undo=True), Output.table)
    printed = capsys.readouterr()
    assert "hush" not in printed.out + printed.err
    assert "hush" in file.read_text()
    last = printed.out.splitlines()[-1]
    assert last == f"Cursor: fairlead restored in {file}. If Cursor runs, restart it."


def test_a_replaced_entry_is_shown_without_values_of_variables_and_headers_and_secret_arguments(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    args = ["--token", "hush-a", "--header", "Authorization: Bearer hush-b", "--verbose"]
    entry = {"command": "x", "args": args, "env": {"TEAM": "hush-c"}, "headers": {"X-Team": 'hush-"d'}}
    file.write_text(json.dumps({"mcpServers": {"fairlead": entry}}, indent=2))
    run_setup("cursor", wishes(), Output.table)
    run_setup("cursor", wishes(undo=True), Output.table)
    printed = capsys.readouterr()
    assert "hush" not in printed.out + printed.err
    assert "--verbose" in printed.err


def test_a_file_that_cannot_be_used_is_wrong_use(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text("{")
    with pytest.raises(Failure) as caught:
        run_setup("cursor", wishes(), Output.table)
    assert caught.value.code == USAGE_ERROR


def test_entries_written_again_are_indented_as_before() -> None:
    """In a file of one line, the entry's own lines are the first that are indented."""
    client = CLIENTS["claude-desktop"]
    one_line = '{"mcpServers": {"a": {"command": "b"}}}'
    first = with_entry(one_line, client.member, "fairlead", client.entry_for(URL), "json")
    again = with_entry(first, client.member, "fairlead", client.entry_for(URL + "/fast"), "json")
    assert again == first.replace(URL, URL + "/fast")


def test_a_file_that_cannot_be_read_is_named_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / ".cursor/mcp.json"
    file.mkdir(parents=True)
    with pytest.raises(Failure) as failure:
        run_setup("cursor", wishes(), Output.table)
    assert str(failure.value) == f"{file} cannot be read: Is a directory"
    print_clients(Output.table, "fairlead")
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.split()[:2] == ["cursor", "user"])
    assert line.split("user", 1)[1].strip() == f"cannot be read: Is a directory {file}"
