"""Client configurations become McpServers: golden files for valid configurations, a table for invalid ones.

`FAIRLEAD_GOLDEN=write` renews the golden files.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.client_files.servers import resource_name
from fairlead_operator.local.configfile import Configuration, read_configuration

GOLDEN = Path(__file__).parent / "golden"
ENVIRONMENT = {"GH_TOKEN": "t0p", "DOCS_KEY": "k3y", "REMOTE_TOOLS_API_KEY": "s3cret", "EMPTY": ""}


def read(text: str, name: str = "mcp.json") -> Configuration:
    configuration = read_configuration(text, Path("/etc") / name, ENVIRONMENT, lambda url: False)
    assert configuration is not None
    return configuration


@pytest.mark.parametrize("source", sorted(GOLDEN.glob("*.in.*")), ids=lambda path: path.name)
def test_a_configuration_becomes_these_servers(source: Path) -> None:
    configuration = read_configuration(source.read_text(), Path("/etc") / source.name, ENVIRONMENT, lambda url: False)
    assert configuration is not None
    actual: list[Any] = [
        {
            "name": declared.server.metadata.name,
            "namespace": declared.server.metadata.namespace,
            "spec": declared.server.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True),
            "headers": declared.credential.headers,
            "env": declared.credential.env,
            "cwd": declared.cwd,
            "origin": declared.origin,
        }
        for declared in configuration.servers
    ]
    golden = GOLDEN / f"{source.name.split('.')[0]}.out.json"
    if os.environ.get("FAIRLEAD_GOLDEN") == "write":
        golden.write_text(json.dumps(actual, indent=2, ensure_ascii=False) + "\n")
    assert actual == json.loads(golden.read_text())
    assert (configuration.problems, configuration.remarks) == ([], [])


def test_no_credential_ends_up_in_a_resource() -> None:
    for source in GOLDEN.glob("*.in.*"):
        configuration = read_configuration(source.read_text(), source, ENVIRONMENT, lambda url: False)
        assert configuration is not None
        for declared in configuration.servers:
            text = declared.server.model_dump_json()
            assert not any(value in text for value in ("t0p", "k3y", "s3cret"))


@pytest.mark.parametrize(
    ("entry", "line", "field", "message"),
    [
        (
            '{"args": ["x"]}',
            3,
            "mcpServers.a",
            "needs either command, for a local server, or url, for a remote server",
        ),
        ('{"command": "x", "url": "http://y/mcp"}', 3, "mcpServers.a", "has both command, for a local server, and url"),
        ('{"command": "x", "httpUrl": "http://y/mcp"}', 3, "mcpServers.a", "and httpUrl, for a remote server: remove"),
        ('{"command": " "}', 3, "mcpServers.a.command", "is empty; it must name the server's program"),
        ('"npx"', 3, "mcpServers.a", "must be an object with command or url"),
        ('{"command": "x", "args": "y"}', 3, "mcpServers.a.args", "must be a list of strings"),
        ('{"command": "x", "args": [["y"]]}', 3, "mcpServers.a.args[0]", "must be a string"),
        ('{"command": "x",\n"env": {"A": "1",\n"B": "${NOPE}"}}', 5, "mcpServers.a.env.B", "variable NOPE is not set"),
        ('{"command": "x", "env": {"A": "${input:key}"}}', 3, "mcpServers.a.env.A", "requires an input of the editor"),
        ('{"command": "x", "transport": "http"}', 3, "mcpServers.a.transport", "'http' needs url"),
        (
            '{"url": "http://y", "transport": "carrier pigeon"}',
            3,
            "mcpServers.a.transport",
            "is not a transport; use stdio",
        ),
        ('{"command": "x",\n"fairlead": {\n"session": "Own"}}', 5, "mcpServers.a.fairlead.session", "PerClient"),
        ('{"command": "x", "fairlead": {"tools": [{}]}}', 3, "mcpServers.a.fairlead.tools[0].name", "Required"),
        (
            '{"command": "x",\n"fairlead": {"url": "y"}}',
            4,
            "mcpServers.a.fairlead.url",
            "is not a field of fairlead; its fields are auth, caBundle,",
        ),
        ('{"command": "x", "fairlead": "fast"}', 3, "mcpServers.a.fairlead", "must be an object of fields"),
        ('{"url": "ftp://y"}', 3, "mcpServers.a.url", "must start with http:// or https://"),
        (
            '{"url": "http://y", "apiKey": "k", "headers": {"authorization": "z"}}',
            3,
            "mcpServers.a.apiKey",
            "is sent as the header Authorization, which headers sets too",
        ),
    ],
)
def test_a_bad_entry_is_named_with_its_line_and_costs_no_other(entry: str, line: int, field: str, message: str) -> None:
    configuration = read(f'{{\n"mcpServers": {{\n"a": {entry},\n"good": {{"command": "x"}}}}}}')
    assert [declared.server.metadata.name for declared in configuration.servers] == ["good"]
    (problem,) = configuration.problems
    assert (problem.file, problem.line, problem.field) == ("/etc/mcp.json", line, field)
    assert message in problem.message


def test_a_tilde_is_the_home_folder_where_a_path_is_expected() -> None:
    text = '{"mcpServers": {"a": {"command": "~/bin/x", "args": ["~/data"], "cwd": "~"}}}'
    configuration = read_configuration(text, Path("/etc/mcp.json"), {"HOME": "/home/ada"}, lambda url: False)
    assert configuration is not None
    (declared,) = configuration.servers
    assert declared.server.spec.command == ["/home/ada/bin/x", "~/data"]
    assert declared.cwd == "/home/ada"


def test_the_second_of_two_entries_with_one_name_gets_a_hash() -> None:
    configuration = read('{"mcpServers": {"GitHub": {"command": "x"},\n"github": {"command": "y"}}}')
    first, second = (declared.server.metadata.name for declared in configuration.servers)
    assert first == "github"
    assert re.fullmatch(r"github-[0-9a-f]{10}", second)
    assert configuration.problems == []
    (remark,) = configuration.remarks
    assert (remark.line, remark.field) == (2, "mcpServers.github")
    assert remark.message.startswith(f"gets the name {second}, because another server has the name github: rename")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"mcpServers": {\n  "a": {"command": "x"\n', "3:1: not valid JSON: the text ends before the { of line 2 is"),
        (
            '{"mcpServers": {\n  "a": {"command": "x"}\n  "b": {}}}',
            '3:3: not valid JSON: a comma or } is missing before "b"',
        ),
        (
            '{"mcpServers": {"a": {command: "x"}}}',
            "1:23: not valid JSON: a name in double quotes is missing before command",
        ),
    ],
)
def test_broken_json_is_named_with_line_and_column(text: str, message: str) -> None:
    configuration = read(text)
    assert configuration.servers == []
    assert str(configuration.problems[0]).startswith(f"/etc/mcp.json:{message}")


def test_manifests_in_a_file_called_json_are_none_of_its_business() -> None:
    assert read_configuration('---\n{"kind": "McpServer"}\n', Path("a.json"), {}, lambda url: False) is None
    assert read_configuration("kind: McpServer\n---\nkind: Secret\n", Path("a.json"), {}, lambda url: False) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name": "left-pad"}', ': declares no server: a client configuration begins with {"mcpServers"'),
        ("[1]", ": declares no server"),
        ("{}", ": declares no server"),
        ("", ': is empty: write {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}} into it'),
        ('{"mcpServers": 5}', ":1: mcpServers: must be an object of names and servers, such as"),
        ('{"mcpServers": null}', ":1: mcpServers: is empty: add a server"),
        ('{"servers": [{"url": "x"}]}', ":1: servers: must be an object of names and servers"),
        ('[{"command": "x"}]', ": declares no server"),
        ('{"experimental": {"modelContextProtocolServers": [{"transport": {}}]}}', ":1: experimental.modelContext"),
        ('{\n"mcpServer": {"a": {"command": "x"}}}', ":2: mcpServer: unknown key: did you mean mcpServers?"),
        ('{\n"mcp_servers": {"a": {"cmd": "x"}}}', ":2: mcp_servers: unknown key: did you mean mcpServers?"),
    ],
)
def test_json_that_is_not_a_server_list_says_what_is_missing(text: str, message: str) -> None:
    configuration = read(text)
    assert configuration.servers == []
    assert str(configuration.problems[0]).startswith(f"/etc/mcp.json{message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("// nothing yet\n", ": is empty: write"),
        ('{"mcpServers": {}}', ':1: mcpServers: is empty: add a server, such as "time": {"command": "uvx"'),
        ('{\n"servers": {}}', ":2: servers: is empty"),
        ('{"mcpServers": []}', ":1: mcpServers: is empty"),
        (
            '{"mcpServers": {"a": {"command": "x", "disabled": true}}}',
            ":1: mcpServers: its only server is disabled: remove",
        ),
        ('{"context_servers": {}}', ":1: context_servers: is empty: add a server"),
        (
            '{"mcpServers": {"a": {"enabled": false}, "b": {"disabled": true}}}',
            ":1: mcpServers: all of its 2 servers are",
        ),
    ],
)
def test_an_empty_configuration_says_so_and_what_to_do(text: str, message: str) -> None:
    configuration = read(text)
    assert (configuration.servers, configuration.problems) == ([], [])
    assert str(configuration.remarks[0]).startswith(f"/etc/mcp.json{message}")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "mcpServers: {}\n", "mcpServers:\n"])
def test_empty_yaml_says_so_as_json_does(text: str) -> None:
    configuration = read(text, "servers.yaml")
    assert "is empty: " in str([*configuration.problems, *configuration.remarks][0])


@pytest.mark.parametrize(
    ("entry", "key", "meant"),
    [
        ('{"comand": "npx"}', "comand", "command"),
        ('{"Command": "npx"}', "Command", "command"),
        ('{"cmd": "npx"}', "cmd", "command"),
        ('{"command": "npx", "arg": ["x"]}', "arg", "args"),
        ('{"command": "npx", "arguments": ["x"]}', "arguments", "args"),
        ('{"command": "npx", "evn": {"A": "1"}}', "evn", "env"),
        ('{"command": "npx", "environment": {"A": "1"}}', "environment", "env"),
        ('{"command": "npx", "disabeld": true}', "disabeld", "disabled"),
        ('{"url": "http://x/mcp", "header": {}}', "header", "headers"),
        ('{"url": "http://x/mcp", "transprot": "sse"}', "transprot", "transport"),
        ('{"uri": "http://x/mcp"}', "uri", "url"),
        ('{"command": "npx", "workingDirectory": "/"}', "workingDirectory", "cwd"),
    ],
)
def test_a_misspelt_key_stops_its_server_and_names_the_one_that_was_meant(entry: str, key: str, meant: str) -> None:
    configuration = read(f'{{"mcpServers": {{\n"time": {entry},\n"good": {{"command": "x"}}}}}}')
    assert [declared.server.metadata.name for declared in configuration.servers] == ["good"]
    message = f"/etc/mcp.json:2: mcpServers.time.{key}: unknown key: did you mean {meant}?"
    assert [str(problem) for problem in configuration.problems] == [message]


def test_keys_that_concern_a_client_alone_are_passed_over() -> None:
    entry = {
        "type": "stdio",
        "command": "x",
        "args": [],
        "env": {},
        "cwd": ".",
        "disabled": False,
        "alwaysAllow": ["a"],
        "autoApprove": ["a"],
        "timeout": 60,
        "dev": {},
        "gallery": True,
        "trust": True,
        "description": "d",
        "oauth": {},
        "tools": ["*"],
        "disabledTools": [],
        "_comment": "why",
        "$schema": "x",
        "transportType": "stdio",
    }
    configuration = read(json.dumps({"inputs": [], "mcpServers": {"a": entry}, "numStartupTools": 3}))
    assert len(configuration.servers) == 1
    assert (configuration.problems, configuration.remarks) == ([], [])


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("colour", '"red"', "is not a known key of a server, and is ignored"),
        ("disabledTools", '["rm_*"]', "has the pattern rm_*, which is ignored: the tools that it matches are offered"),
        ("includeTools", '["rm_*"]', "has the pattern rm_*, which is ignored: all tools are offered"),
        ("tools", '{"rm": {}}', "is ignored, because it is not a list of names of tools"),
        ("prefix", '"y"', 'only has an effect within fairlead: write "fairlead": {"prefix": …}'),
        ("alwaysAlow", '["rm"]', "unknown key: did you mean alwaysAllow?"),
    ],
)
def test_a_key_that_is_not_heeded_is_named_and_its_server_runs(key: str, value: str, message: str) -> None:
    configuration = read(f'{{"mcpServers": {{"time": {{"command": "x",\n"{key}": {value}}}}}}}')
    assert len(configuration.servers) == 1
    (remark,) = configuration.remarks
    assert str(remark).startswith(f"/etc/mcp.json:2: mcpServers.time.{key}: {message}")


def test_comments_and_last_commas_are_read_as_editors_read_them() -> None:
    configuration = read(
        '{ // mine\n"mcpServers": {\n/* the time */ "time": {"command": "uvx", "args": ["a", ], }, }, }'
    )
    assert [declared.origin for declared in configuration.servers] == ["/etc/mcp.json:3"]
    assert (configuration.problems, configuration.remarks) == ([], [])


def test_a_name_that_stands_twice_is_told_of_with_both_lines_and_costs_no_other() -> None:
    configuration = read(
        '{"mcpServers": {\n"time": {"command": "a"},\n"git": {"command": "b"},\n"time": {"command": "c"}}}'
    )
    assert [(declared.server.metadata.name, declared.server.spec.command) for declared in configuration.servers] == [
        ("time", ["a"]),
        ("git", ["b"]),
    ]
    message = "mcpServers.time: is a duplicate of line 2, so it is ignored: rename or remove one of them"
    assert [str(remark) for remark in configuration.remarks] == [f"/etc/mcp.json:4: {message}"]


@pytest.mark.parametrize(
    ("entry", "field", "message"),
    [
        ('{"serverUrl": "https://u:p@x/mcp"}', "serverUrl", "a credential goes into headers"),
        ('{"url": "https://x/mcp?key=<YOUR_TOKEN>"}', "url", "contains a placeholder in <> or {}: replace it by"),
        ('{"url": "ws://x/mcp"}', "url", "must start with http:// or https://"),
        ('{"url": "localhost:4000/mcp"}', "url", "must start with http:// or https://"),
        ('{"httpUrl": "https://{host}/mcp"}', "httpUrl", "contains a placeholder"),
        ('{"url": "https://x/a b"}', "url", "blanks and characters such as < and { percent-encoded"),
        ('{"url": "http://x/mcp", "type": "stdio"}', "type", "'stdio' needs command"),
        (
            '{"url": "http://x/mcp", "type": "ws"}',
            "type",
            "is not a transport; use stdio, sse or streamable-http",
        ),
        ('{"command": ["npx", "-y"], "args": ["x"]}', "command", "its arguments go into args"),
        ('{"command": "x", "disabled": "perhaps"}', "disabled", "must be true or false, not 'perhaps'"),
        ('{"command": "x", "disabledTools": [""]}', "disabledTools", ""),
        ('{"command": "x", "env": {"A": "${config:a.b}"}}', "env.A", "requires a setting of the editor"),
        ('{"command": "${workspaceFolder}/x"}', "command", "which only an editor can resolve"),
        ('{"command": " "}', "command", "must name the server's program"),
        ('{"command": "x", "args": ["%s"]}' % ("y" * 5000), "args[0]", "at most 4096 characters"),
        ('{"command": "%s"}' % ("y" * 5000), "command", "at most 4096 characters"),
        ('{"command": "x", "args": ["y"' + ', "y"' * 200 + "]}", "args", "at most 129 items"),
    ],
)
def test_faults_of_an_entry_are_told_by_the_keys_of_the_file(entry: str, field: str, message: str) -> None:
    (problem,) = read(f'{{"mcpServers": {{"a": {entry}}}}}').problems
    assert problem.field == f"mcpServers.a.{field}"
    assert message in problem.message
    assert "spec" not in str(problem)


def test_the_gateway_itself_is_left_out_of_its_own_servers() -> None:
    text = '{"mcpServers": {"fairlead": {"url": "http://127.0.0.1:8080/mcp"}, "b": {"url": "http://b/mcp"}}}'
    configuration = read_configuration(text, Path("mcp.json"), {}, lambda url: ":8080" in url)
    assert configuration is not None
    assert [declared.server.metadata.name for declared in configuration.servers] == ["b"]
    assert (configuration.problems, configuration.remarks) == ([], [])
    alone = read_configuration(
        text.replace("http://b", "http://x:8080"), Path("mcp.json"), {}, lambda url: ":8080" in url
    )
    assert alone is not None
    assert [remark.message for remark in alone.remarks] == ["the only server is this gateway itself: add another"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("time", "time"),
        ("My Server!", "my-server"),
        ("@scope/server_x", "scope-server-x"),
        ("7zip", "server-7zip"),
        ("日本", "server-cf2abf0c5b"),
        ("Café 1", "caf-1-f7010290b5"),
        ("--a--", "a"),
    ],
)
def test_a_name_becomes_a_label(name: str, expected: str) -> None:
    assert resource_name(name) == expected


def test_a_long_name_is_cut_and_stays_itself() -> None:
    first = resource_name("a" * 80)
    other = resource_name("a" * 79 + "b")
    assert first != other
    assert len(first) <= 50
