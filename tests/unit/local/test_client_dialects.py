"""Client configurations as users have them: variables, Boolean values, names and files next to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clientfiles import HOME, read_client_file
from fairlead_operator.local.configfile import read_configuration
from fairlead_operator.local.sources import Sources


def only(entry: dict[str, Any], file: str = "/etc/mcp.json", **environ: str) -> tuple[list[str] | None, Any]:
    """Command and credential of the only server of an entry, for which no problems are reported."""
    configuration = read_client_file({"mcpServers": {"a": entry}}, file, **environ)
    assert (configuration.problems, configuration.remarks) == ([], [])
    (declared,) = configuration.servers
    return declared.server.spec.command, declared.credential


@pytest.mark.parametrize(
    ("kind", "transport"),
    [
        ("remote", "streamable-http"),
        ("http-stream", "streamable-http"),
        ("streamable", "streamable-http"),
        ("sse", "sse"),
    ],
)
def test_transports_by_other_names_are_taken(kind: str, transport: str) -> None:
    (declared,) = read_client_file({"mcpServers": {"far": {"type": kind, "url": "http://x/mcp"}}}).servers
    assert declared.server.spec.effective_transport == transport


def test_local_beside_a_command_is_stdio_and_all_tools_are_asked_for_by_a_star() -> None:
    assert only({"type": "local", "command": "x", "tools": ["*"]})[0] == ["x"]


def test_a_transport_that_is_an_object_is_read() -> None:
    (declared,) = read_client_file(
        {"mcpServers": {"a": {"transport": {"type": "http", "url": "http://x/mcp"}}}}
    ).servers
    assert declared.server.spec.url == "http://x/mcp"


def test_arguments_leave_a_variable_of_the_entrys_own_env_to_the_program() -> None:
    entry = {"command": "npx", "args": ["--header", "Authorization:${AUTH}"], "env": {"AUTH": "Bearer ${TOKEN}"}}
    command, credential = only(entry, TOKEN="t0p")
    assert command == ["npx", "--header", "Authorization:${AUTH}"]
    assert credential.env == {"AUTH": "Bearer t0p"}


def test_headers_take_a_variable_of_the_entrys_own_env() -> None:
    entry = {"url": "http://x/mcp", "headers": {"Authorization": "Bearer ${KEY}"}, "env": {"KEY": "k3y"}}
    assert only(entry)[1].headers == {"Authorization": "Bearer k3y"}


def test_null_in_env_and_headers_is_as_if_the_name_were_not_there() -> None:
    assert only({"command": "x", "env": {"A": None, "B": 1}})[1].env == {"B": "1"}
    assert only({"url": "http://x/mcp", "headers": {"A": None}})[1].headers == {}


@pytest.mark.parametrize("entry", [{"disabled": "true"}, {"enabled": 0}, {"enabled": "no"}, {"isActive": False}])
def test_a_server_is_disabled_by_a_text_or_number_too(entry: dict[str, Any]) -> None:
    configuration = read_client_file(
        {"mcpServers": {"a": {"command": "x", **entry}, "b": {"command": "y", "disabled": "false"}}}
    )
    assert [declared.server.metadata.name for declared in configuration.servers] == ["b"]


@pytest.mark.parametrize("folder", [".vscode", ".cursor", ".kiro/settings"])
def test_the_workspace_is_the_folder_above_that_of_the_editor(folder: str) -> None:
    entry = {"command": "x", "args": ["${workspaceFolder}/good.py", "${userHome}${/}y"]}
    command, _ = only(entry, f"/src/boat/{folder}/mcp.json")
    assert command == ["x", "/src/boat/good.py", f"{HOME}/y"]


def test_the_workspace_of_a_relative_path_is_an_absolute_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "boat").mkdir()
    (tmp_path / "boat/.env").write_text("TOKEN=t0p\n")
    entry = {"command": "x", "args": ["${workspaceFolder}/good.py"], "envFile": "${workspaceFolder}/.env"}
    command, credential = only(entry, "boat/.vscode/mcp.json")
    assert command == ["x", f"{tmp_path}/boat/good.py"]
    assert credential.env == {"TOKEN": "t0p"}
    bundle = {"manifest_version": "0.3", "name": "b", "server": {"mcp_config": {"command": "${__dirname}/run"}}}
    (declared,) = read_client_file(bundle, "boat/manifest.json").servers
    assert declared.server.spec.command == [f"{tmp_path}/boat/run"]


def test_the_users_own_file_of_an_editor_has_no_workspace() -> None:
    configuration = read_client_file(
        {"mcpServers": {"a": {"command": "${workspaceFolder}/x"}}}, f"{HOME}/.cursor/mcp.json"
    )
    (problem,) = configuration.problems
    assert "uses workspaceFolder, which only an editor" in problem.message


@pytest.mark.parametrize("text", ["Bearer $TOKEN", "Bearer ${TOKEN}", "Bearer %TOKEN%"])
def test_files_of_gemini_cli_name_variables_without_braces(text: str) -> None:
    entry = {"httpUrl": "http://x/mcp", "headers": {"Authorization": text}}
    assert only(entry, TOKEN="t0p")[1].headers == {"Authorization": "Bearer t0p"}
    stdio = {"command": "x", "env": {"A": text}}
    assert only(stdio, "/src/boat/.gemini/settings.json", TOKEN="t0p")[1].env == {"A": "Bearer t0p"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{env:TOKEN}", "contains {env:TOKEN}, which looks like a variable but is sent as it is"),
        ("%TOKEN%", "contains %TOKEN%, which"),
        ("Bearer $TOKEN", "contains $TOKEN, which"),
        ("{{TOKEN}}", "contains {{TOKEN}}, which"),
        ("${user_config.key}", "contains ${user_config.key}, which"),
        ("<your-token>", "looks like a placeholder"),
        ("YOUR_API_KEY", "looks like a placeholder"),
        ("Bearer your-token", "looks like a placeholder"),
        ("xoxb-your-bot-token", "looks like a placeholder"),
        ("changeme", "looks like a placeholder"),
        ("/path/to/your/gcp-oauth.keys.json", "looks like a placeholder"),
    ],
)
def test_a_value_that_somebody_had_still_to_fill_in_is_remarked_on_and_goes_out(value: str, message: str) -> None:
    configuration = read_client_file({"mcpServers": {"a": {"command": "x", "env": {"A": value}}}})
    assert configuration.servers[0].credential.env == {"A": value}
    (remark,) = configuration.remarks
    assert remark.field == "mcpServers.a.env.A"
    assert message in remark.message


@pytest.mark.parametrize(
    "value", ["s3cr$t", "a%20b%20c", "$${A}", "100%", "ghp_xxYz", "price: $5", "your", '{"a": {"b": 1}}']
)
def test_an_ordinary_value_is_not_remarked_on(value: str) -> None:
    assert read_client_file({"mcpServers": {"a": {"command": "x", "env": {"A": value}}}}).remarks == []


def test_a_server_of_a_project_runs_in_its_folder_where_that_is_still_there(tmp_path: Path) -> None:
    projects = {
        str(folder): {"mcpServers": {folder.name: {"command": "x"}}} for folder in (tmp_path, tmp_path / "gone")
    }
    configuration = read_client_file({"projects": projects}, f"{tmp_path}/.claude.json")
    assert [declared.cwd for declared in configuration.servers] == [str(tmp_path), None]


def test_names_of_other_scripts_stay_apart() -> None:
    configuration = read_client_file({"mcpServers": {"高德地图": {"command": "x"}, "飞书": {"command": "y"}}})
    assert configuration.problems == []
    assert len({declared.server.metadata.name for declared in configuration.servers}) == 2


def test_variables_of_an_env_file_are_read_and_those_of_env_win(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# mine\nexport A='one two'\nB=2\nC\n")
    entry = {"command": "x", "envFile": "${workspaceFolder}/.env", "env": {"B": "3"}}
    assert only(entry, f"{tmp_path}/.vscode/mcp.json")[1].env == {"A": "one two", "B": "3"}


def test_an_env_file_that_is_missing_stops_its_server_and_no_other(tmp_path: Path) -> None:
    servers = {"a": {"command": "x", "envFile": "nowhere.env"}, "b": {"command": "y"}}
    configuration = read_client_file({"mcpServers": servers}, f"{tmp_path}/mcp.json")
    assert [declared.server.metadata.name for declared in configuration.servers] == ["b"]
    (problem,) = configuration.problems
    assert problem.field == "mcpServers.a.envFile"
    assert problem.message == f"{tmp_path}/nowhere.env cannot be read: No such file or directory"


def test_a_list_of_the_only_tools_and_one_of_others_are_heeded_beside_fields_of_fairlead() -> None:
    own = {"tools": [{"name": "b", "minTier": "deep"}]}
    entry = {"command": "x", "includeTools": ["a", "b(path)"], "disabledTools": ["b", "c"], "fairlead": own}
    (declared,) = read_client_file({"mcpServers": {"a": entry}}).servers
    spec = declared.server.spec
    assert spec.discovery.tools == "Named"
    offered = {tool.name: spec.offers(tool) for tool in spec.tools}
    assert offered == {"a": True, "b": False, "c": False}
    assert spec.tools[0].min_tier == "deep"
    assert not spec.offers(None)


def test_entries_that_only_zed_or_goose_can_serve_are_remarked_on_and_cost_no_other() -> None:
    servers = {"ext": {"source": "extension", "settings": {}}, "b": {"command": "y"}}
    configuration = read_client_file({"context_servers": servers})
    assert [declared.server.metadata.name for declared in configuration.servers] == ["b"]
    (remark,) = configuration.remarks
    assert remark.message == (
        "belongs to an extension of Zed, which includes the program; it is ignored, and nothing has to be done"
    )
    assert remark.is_note
    goose = "extensions: {memory: {type: builtin, enabled: true}, b: {type: stdio, cmd: y, enabled: true}}"
    assert [declared.server.spec.command for declared in read_client_file(goose, "/etc/config.yaml").servers] == [["y"]]


def test_many_entries_that_only_goose_can_serve_are_one_note() -> None:
    own = ", ".join(f"own{number}: {{type: {'builtin' if number % 2 else 'platform'}}}" for number in range(12))
    configuration = read_client_file(f"extensions: {{{own}, b: {{type: stdio, cmd: y}}}}", "/etc/config.yaml")
    (note,) = configuration.remarks
    assert note.is_note
    assert note.message == (
        "each of own0, own1, own2, own3, own4, own5, own6, own7 and 4 more is built into goose; they are ignored, "
        "and nothing has to be done"
    )


def test_an_option_of_a_bundle_without_default_is_missed_by_the_name_of_its_variable() -> None:
    manifest = {
        "manifest_version": "0.3",
        "name": "a",
        "user_config": {"api_key": {"type": "string"}},
        "server": {"mcp_config": {"command": "x", "env": {"KEY": "${user_config.api_key}"}}},
    }
    (problem,) = read_client_file(manifest, "/opt/a/manifest.json").problems
    assert "environment variable API_KEY is not set" in problem.message


def test_toml_that_is_broken_is_named_with_its_line() -> None:
    (problem,) = read_client_file("[mcp_servers.a]\ncommand = \n", "/etc/config.toml").problems
    assert (problem.line, problem.message.partition(":")[0]) == (2, "not valid TOML")


def test_a_list_without_a_member_is_one_where_it_was_named_or_is_called_like_one(tmp_path: Path) -> None:
    bare = json.dumps({"one": {"command": "x"}})
    for name in (".mcp.json", "package.json"):
        (tmp_path / name).write_text(bare)
    scan = Sources([tmp_path], {}).scan()
    assert scan is not None
    assert [declared.origin for declared in scan.contents.servers.values()] == [f"{tmp_path / '.mcp.json'}:1"]
    named = Sources([tmp_path / "package.json"], {}).scan()
    assert named is not None
    assert [key.name for key in named.contents.servers] == ["one"]


def test_a_value_that_crush_would_take_from_a_command_is_refused() -> None:
    listed = {"a": {"type": "http", "url": "http://x/mcp", "headers": {"Authorization": "Bearer $(op read x)"}}}
    (problem,) = read_client_file({"mcp": listed}).problems
    assert problem.message == "runs a command: put its output into an environment variable, and write ${NAME}"


@pytest.mark.parametrize("value", ["$: cmd:op read op://vault/token", "Bearer ${cmd: op read op://vault/token}"])
def test_a_value_that_mcphub_would_take_from_a_command_is_refused(value: str) -> None:
    (problem,) = read_client_file({"mcpServers": {"a": {"command": "x", "env": {"TOKEN": value}}}}).problems
    assert problem.field == "mcpServers.a.env.TOKEN"
    assert problem.message == "runs a command: put its output into an environment variable, and write ${NAME}"


@pytest.mark.parametrize("key", ["disabled_tools", "exclude_tools"])
def test_a_list_of_tools_with_an_underscore_in_its_key_is_heeded(key: str) -> None:
    entry = {"command": "x", key: ["rm"], "disabled_resources": [], "initialTimeout": 10}
    configuration = read_client_file({"mcpServers": {"a": entry}})
    (declared,) = configuration.servers
    assert [(tool.name, tool.enabled) for tool in declared.server.spec.tools] == [("rm", False)]
    assert (configuration.problems, configuration.remarks) == ([], [])


@pytest.mark.parametrize(
    ("entry", "tools", "named_alone"),
    [
        ({"options": {"toolFilter": {"mode": "block", "list": ["write"]}}}, [("write", False)], False),
        ({"options": {"toolFilter": {"mode": "Allow", "list": ["read"]}}}, [("read", True)], True),
        ({"toolFilter": {"include": ["read", "list"], "exclude": []}}, [("read", True), ("list", True)], True),
        ({"toolFilter": ["read"]}, [("read", True)], True),
        ({"allowedTools": ["read"]}, [("read", True)], True),
        ({"blockedTools": ["write"]}, [("write", False)], False),
        ({"disallowed_tools": ["write"]}, [("write", False)], False),
    ],
)
def test_a_filter_of_tools_in_a_clients_own_form_is_heeded(
    entry: dict[str, Any], tools: list[tuple[str, bool]], named_alone: bool
) -> None:
    configuration = read_client_file({"mcpServers": {"a": {"command": "x", **entry}}})
    assert (configuration.problems, configuration.remarks) == ([], [])
    spec = configuration.servers[0].server.spec
    assert [(tool.name, tool.enabled) for tool in spec.tools] == tools
    assert (spec.discovery.tools == "Named") is named_alone


@pytest.mark.parametrize(
    "entry", [{"toolFilter": {"enabled": True}}, {"options": {"toolFilter": {"mode": "x"}}}, {"tool_allowlist": ["a"]}]
)
def test_a_filter_of_tools_that_is_not_read_says_so_with_the_way_out(entry: dict[str, Any]) -> None:
    (remark,) = read_client_file({"mcpServers": {"a": {"command": "x", **entry}}}).remarks
    assert "includeTools or excludeTools" in remark.message


def test_a_file_of_variables_is_named_with_an_underscore_too(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=t0p\n")
    assert only({"command": "x", "env_file": ".env"}, f"{tmp_path}/mcp.json")[1].env == {"TOKEN": "t0p"}


def test_a_yaml_file_that_is_neither_a_configuration_nor_a_manifest_says_how_both_begin() -> None:
    (problem,) = read_client_file("version: '2'\nagents: {root: {model: x}}\n", "/etc/agent.yaml").problems
    assert problem.message.startswith('declares no server: a client configuration begins with {"mcpServers"')
    assert problem.message.endswith(", and a manifest has apiVersion and kind")


def test_the_manifest_of_an_extension_of_gemini_cli_names_its_own_folder() -> None:
    command, _ = only({"command": "node", "args": ["${extensionPath}${/}x.js"]}, "/ext/boat/gemini-extension.json")
    assert command == ["node", "/ext/boat/x.js"]


def test_a_server_inside_of_cherry_studio_is_remarked_on_and_costs_no_other() -> None:
    configuration = read_client_file(
        {"mcpServers": {"in": {"type": "inMemory", "isActive": True}, "b": {"command": "y"}}}
    )
    assert [declared.server.metadata.name for declared in configuration.servers] == ["b"]
    (remark,) = configuration.remarks
    assert (remark.is_note, "is built into Cherry Studio" in remark.message) == (True, True)


def test_servers_of_cherry_studio_are_named_by_their_names_and_not_by_their_random_ids() -> None:
    entries = {
        "V1StGXR8_Z5jdHi6B-myT": {"name": "boats", "isActive": True, "command": "x"},
        "3nq0mZ5tOa_Xh2bQyL7Ws": {"name": "boats", "command": "y"},
        "short": {"name": "other", "command": "z"},
    }
    names = [declared.server.metadata.name for declared in read_client_file({"mcpServers": entries}).servers]
    assert (names[0], names[2]) == ("boats", "short")
    assert "boats" not in names[1]


def test_a_toml_file_without_servers_is_not_taken_for_yaml() -> None:
    (problem,) = read_client_file("[core]\nworkspace_base = 'x'\n", "/etc/config.toml").problems
    assert problem.message.startswith("declares no server: a client configuration begins with")


@pytest.mark.parametrize(("auth", "headers"), [("oauth", {}), ("t0k", {"Authorization": "Bearer t0k"})])
def test_the_auth_of_fastmcp_is_a_token_or_asks_for_a_sign_in(auth: str, headers: dict[str, str]) -> None:
    assert only({"url": "http://x/mcp", "auth": auth})[1].headers == headers


def test_tags_of_fastmcp_cost_a_server_nothing_but_a_remark() -> None:
    configuration = read_client_file(
        {"mcpServers": {"a": {"command": "x", "include_tags": ["b"], "keep_alive": False}}}
    )
    (remark,) = configuration.remarks
    assert (len(configuration.servers), remark.field) == (1, "mcpServers.a.include_tags")


@pytest.mark.parametrize(
    ("content", "file"),
    [
        ({"mcpServers": {}, "powers": {"mcpServers": {"a": {"command": "x"}}}}, ".kiro/settings/mcp.json"),
        ({"zencoder.mcpServers": {"a": {"command": "x"}}, "editor.tabSize": 2}, "settings.json"),
        ({"settings": {"mcp": {"servers": {"a": {"command": "x"}}}}}, "boat.code-workspace"),
        ({"title": "t", "extensions": [{"type": "stdio", "name": "a", "cmd": "x"}]}, "recipe.yaml"),
        ({"mcpServers": {"a": {"command": "${CLAUDE_PLUGIN_ROOT}/x"}}}, ".claude-plugin/plugin.json"),
        ({"mcpServers": {"a": {"command": "${workspaceFolder}/x"}}}, ".trae/mcp.json"),
        ({"mcpServers": {"a": {"command": "${workspaceFolder}/x"}}}, ".kilocode/mcp.json"),
        ({"agents": {}, "tools": {"web": {}, "mcpServers": {"a": {"command": "x"}}}}, "config.json"),
        ({"tools": {"mcp": {"enabled": True, "servers": {"a": {"command": "x"}}}}}, "config.json"),
        ({"augment.advanced": {"mcpServers": [{"name": "a", "command": "x"}]}}, "settings.json"),
        ({"nanocoder": {"providers": [], "mcpServers": {"a": {"command": "x"}}}}, "agents.config.json"),
        ({"core": {}, "mcp": {"stdio_servers": [{"name": "a", "command": "x"}]}}, "config.toml.json"),
    ],
    ids=[
        "powers of Kiro",
        "an extension of VS Code",
        "a workspace of VS Code",
        "a recipe of goose",
        "a plugin of Claude",
        "a project of Trae",
        "a project of Kilo Code",
        "tools of nanobot",
        "tools of PicoClaw",
        "Augment",
        "Nanocoder",
        "OpenHands",
    ],
)
def test_servers_that_stand_in_other_files_of_clients_are_read(content: dict[str, Any], file: str) -> None:
    (declared,) = read_client_file(content, f"/repo/{file}").servers
    assert declared.server.metadata.name == "a"
    assert declared.server.spec.command in (["x"], ["/repo/x"])


def test_servers_of_openhands_that_run_elsewhere_are_named_after_their_hosts() -> None:
    remote = {"shttp_servers": ["https://a.example/mcp", {"url": "https://b.example/mcp", "api_key": "k3y"}]}
    configuration = read_client_file({"mcp": {**remote, "sse_servers": ["https://c.example/sse"], "stdio_servers": []}})
    assert (configuration.problems, configuration.remarks) == ([], [])
    assert [
        (each.server.metadata.name, each.server.spec.effective_transport, each.credential.headers)
        for each in configuration.servers
    ] == [
        ("a-example", "streamable-http", {}),
        ("b-example", "streamable-http", {"Authorization": "Bearer k3y"}),
        ("c-example", "sse", {}),
    ]


def test_a_member_mcp_without_servers_that_can_be_read_is_not_called_misspelt() -> None:
    bifrost = {"mcp": {"client_configs": [{"name": "a", "connection_type": "stdio", "stdio_config": {"command": "x"}}]}}
    (problem,) = read_client_file(bifrost).problems
    assert (problem.field, "move them into mcpServers" in problem.message) == ("mcp", True)


def test_a_copy_of_the_settings_of_gemini_cli_names_variables_without_braces_too() -> None:
    listed = {"a": {"command": "x", "env": {"A": "$TOKEN"}}}
    (declared,) = read_client_file(
        {"mcpServers": listed, "mcp": {"allowed": ["a"]}}, "/repo/settings.json", TOKEN="t0p"
    ).servers
    assert declared.credential.env == {"A": "t0p"}


@pytest.mark.parametrize(
    ("settings", "started"),
    [
        ({"allowed": ["a", "b"]}, ["a", "b"]),
        ({"excluded": ["b"]}, ["a", "c"]),
        ({"allowed": ["a", "b"], "excluded": ["b"]}, ["a"]),
        ({"allowed": []}, []),
        ({"allowed": None, "serverCommand": "x"}, ["a", "b", "c"]),
    ],
)
def test_servers_that_gemini_cli_does_not_allow_are_not_started(settings: dict[str, Any], started: list[str]) -> None:
    listed = {name: {"httpUrl": "http://x/mcp"} for name in "abc"}
    servers = read_client_file({"mcpServers": listed, "mcp": settings}, "/repo/.gemini/settings.json").servers
    assert [declared.server.metadata.name for declared in servers] == started


@pytest.mark.parametrize(
    ("settings", "remarks"),
    [
        ({"allowed": ["weather", "mising"]}, [("mcp.allowed[1]", "mising is not a server in mcpServers of this file")]),
        ({"excluded": ["wether"]}, [("mcp.excluded[0]", "did you mean weather?")]),
        (
            {"allowed": ["zzz"]},
            [("mcp.allowed[0]", "correct or remove the name"), ("mcp", "none of the servers in mcpServers is chosen")],
        ),
        ({"allowed": []}, [("mcp", "add the name of one to mcp.allowed")]),
        ({"excluded": ["weather", "docs"]}, [("mcp", "remove one from mcp.excluded")]),
        ({"allowed": ["weather"], "excluded": ["docs"]}, []),
    ],
)
def test_a_name_that_gemini_cli_chooses_and_the_file_lacks_is_told(
    settings: dict[str, Any], remarks: list[tuple[str, str]]
) -> None:
    listed = {name: {"httpUrl": "http://x/mcp"} for name in ("weather", "docs")}
    told = read_client_file({"mcpServers": listed, "mcp": settings}, "/repo/.gemini/settings.json").remarks
    assert [remark.field for remark in told] == [field for field, _ in remarks]
    for remark, (_, words) in zip(told, remarks, strict=True):
        assert words in remark.message


def test_settings_that_zed_writes_into_custom_entries_give_no_remark() -> None:
    servers = {
        "a": {"source": "custom", "command": {"path": "x", "args": ["-y"], "env": {}}, "settings": {}},
        "b": {"command": "y", "args": [], "settings": {}},
        "c": {"url": "http://x/mcp", "settings": {}},
    }
    configuration = read_client_file({"context_servers": servers}, "/home/me/.config/zed/settings.json")
    assert (configuration.problems, configuration.remarks) == ([], [])
    assert [declared.server.metadata.name for declared in configuration.servers] == ["a", "b", "c"]


def test_a_server_of_an_object_with_an_empty_name_is_told_as_that() -> None:
    (problem,) = read_client_file('{"mcpServers": {"": {"command": "x"}}}', "/home/me/.cursor/mcp.json").problems
    assert (problem.field, problem.message) == ('mcpServers.""', "has an empty name: give the server a name")


def test_a_name_with_letters_of_another_script_is_noted_with_the_name_that_the_server_gets() -> None:
    (note,) = read_client_file({"mcpServers": {"日本": {"command": "x"}, "My Tools": {"command": "x"}}}).remarks
    assert (note.field, note.is_note) == ("mcpServers.日本", True)
    assert note.message.startswith("is called server-cf2abf0c5b, because")


def test_an_entry_of_opencode_that_is_only_turned_on_or_off_leaves_the_others_served() -> None:
    local = {"type": "local", "command": ["x", "y"]}
    configuration = read_client_file({"mcp": {"mine": local, "jira": {"enabled": False}, "wiki": {"enabled": True}}})
    assert [declared.server.metadata.name for declared in configuration.servers] == ["mine"]
    assert configuration.problems == []
    (note,) = configuration.remarks
    assert "mcp.wiki: has no command or url in this file" in str(note)


def test_settings_of_gemini_are_not_a_list_of_servers() -> None:
    configuration = read_client_file(
        {"mcp": {"allowed": ["a"]}, "mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}
    )
    assert [declared.server.metadata.name for declared in configuration.servers] == ["a"]


def test_jan_turns_a_server_off_by_active() -> None:
    content = {"a": {"command": "x", "active": True, "official": True}, "b": {"command": "y", "active": False}}
    configuration = read_client_file({"mcpServers": content})
    assert [declared.server.metadata.name for declared in configuration.servers] == ["a"]
    assert (configuration.problems, configuration.remarks) == ([], [])


def test_the_working_directory_of_warp_is_that_of_the_server() -> None:
    configuration = read_client_file({"a": {"command": "x", "working_directory": "/srv", "start_on_launch": True}})
    assert (configuration.problems, configuration.remarks) == ([], [])
    (declared,) = configuration.servers
    assert declared.cwd == "/srv"


def test_the_approvals_of_codex_are_not_a_list_of_tools() -> None:
    entry = {"command": "x", "tools": {"search": {"approval_mode": "approve"}}}
    configuration = read_client_file({"mcp_servers": {"a": entry}})
    assert (configuration.problems, configuration.remarks) == ([], [])


def test_a_value_from_a_file_is_refused_with_what_to_write() -> None:
    entry = {"url": "http://x/mcp", "headers": {"Authorization": "Bearer ${file:/run/key}"}}
    (problem,) = read_client_file({"mcpServers": {"a": entry}}).problems
    assert "headers.Authorization: refers to a file: put its content into an environment variable" in str(problem)


def test_a_program_that_makes_headers_is_remarked_on() -> None:
    configuration = read_client_file({"mcpServers": {"a": {"url": "http://x/mcp", "headersHelper": "/opt/headers"}}})
    assert len(configuration.servers) == 1
    (remark,) = configuration.remarks
    assert "headersHelper: is a program that makes headers, which Fairlead does not run" in str(remark)


def test_an_input_of_vs_code_is_refused_with_what_vs_code_reads_too() -> None:
    content = {"inputs": [{"id": "key"}], "servers": {"a": {"command": "x", "env": {"KEY": "${input:key}"}}}}
    (problem,) = read_client_file(content).problems
    assert str(problem).endswith("use an environment variable instead, ${env:NAME}")


@pytest.mark.parametrize("shell", ["cmd", "cmd.exe"])
def test_the_shell_that_files_for_windows_put_in_front_of_a_program_is_left_out(shell: str) -> None:
    assert only({"command": shell, "args": ["/c", "npx", "-y", "a-server"]})[0] == ["npx", "-y", "a-server"]


def test_servers_that_are_built_into_octomind_are_named_and_left_out() -> None:
    text = '[mcp]\n[[mcp.servers]]\nname = "core"\ntype = "builtin"\n[[mcp.servers]]\nname = "a"\ncommand = "x"\n'
    configuration = read_client_file(text, "/etc/config.toml")
    assert [declared.server.metadata.name for declared in configuration.servers] == ["a"]
    (note,) = configuration.remarks
    assert note.is_note
    assert str(note).startswith("/etc/config.toml:2: mcp.servers.core: is built into Octomind; it is ignored")


def test_faults_in_a_list_of_toml_tables_are_told_with_the_line_of_their_own_table() -> None:
    text = """
[[mcp.servers]]
name = "a"
command = "x"
[mcp.servers.env]
A = "1"
[[mcp.servers]]
name = "b"
comand = "y"
[mcp.servers.env]
B = "${NOT_SET}"
[[mcp.servers]]
command = "z"
env = { C = '''
[é]''' }
"""
    configuration = read_client_file(text, "/etc/config.toml")
    assert [str(problem).partition(": ")[0] for problem in configuration.problems] == [
        "/etc/config.toml:9",
        "/etc/config.toml:12",
    ]
    assert str(configuration.problems[1]).endswith(
        "mcp.servers[2].name: is missing: each server of a list has a name, or an id"
    )


def test_an_openapi_document_with_servers_is_not_a_list_of_servers_of_mcp() -> None:
    text = "openapi: 3.1.0\ninfo: {title: x}\nservers:\n  - url: https://a.example.com\n"
    configuration = read_configuration(text, Path("/etc/api.yaml"), {}, lambda url: False)
    assert configuration is None or configuration.servers == []
