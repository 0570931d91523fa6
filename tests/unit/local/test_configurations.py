"""Client configurations become McpServers: golden files for what is good, a table for what is not.

`FAIRLEAD_GOLDEN=write` renews the golden files.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.clientconfig import resource_name
from fairlead_operator.local.configfile import Configuration, read_configuration

GOLDEN = Path(__file__).parent / "golden"
ENVIRONMENT = {"GH_TOKEN": "t0p", "DOCS_KEY": "k3y", "REMOTE_TOOLS_API_KEY": "s3cret", "EMPTY": ""}


def read(text: str, name: str = "mcp.json") -> Configuration:
    found = read_configuration(text, Path("/etc") / name, ENVIRONMENT, lambda url: False)
    assert found is not None
    return found


@pytest.mark.parametrize("source", sorted(GOLDEN.glob("*.in.*")), ids=lambda path: path.name)
def test_a_configuration_becomes_these_servers(source: Path) -> None:
    found = read_configuration(source.read_text(), Path("/etc") / source.name, ENVIRONMENT, lambda url: False)
    assert found is not None
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
        for declared in found.servers
    ]
    golden = GOLDEN / f"{source.name.split('.')[0]}.out.json"
    if os.environ.get("FAIRLEAD_GOLDEN") == "write":
        golden.write_text(json.dumps(actual, indent=2, ensure_ascii=False) + "\n")
    assert actual == json.loads(golden.read_text())
    assert found.problems == []


def test_no_credential_ends_up_in_a_resource() -> None:
    for source in GOLDEN.glob("*.in.*"):
        found = read_configuration(source.read_text(), source, ENVIRONMENT, lambda url: False)
        assert found is not None
        for declared in found.servers:
            text = declared.server.model_dump_json()
            assert not any(value in text for value in ("t0p", "k3y", "s3cret"))


@pytest.mark.parametrize(
    ("entry", "line", "field", "message"),
    [
        (
            '{"args": ["x"]}',
            3,
            "mcpServers.a",
            "needs command, for a local server, or url, for a remote one, and not both",
        ),
        ('{"command": "x", "url": "http://y/mcp"}', 3, "mcpServers.a", "and not both"),
        ('"npx"', 3, "mcpServers.a", "must be an object with command, or with url"),
        ('{"command": "x", "args": "y"}', 3, "mcpServers.a.args", "must be a list of texts"),
        ('{"command": "x", "args": [["y"]]}', 3, "mcpServers.a.args[0]", "must be a text"),
        ('{"command": "x",\n"env": {"A": "1",\n"B": "${NOPE}"}}', 5, "mcpServers.a.env.B", "variable NOPE is not set"),
        ('{"command": "x", "env": {"A": "${input:key}"}}', 3, "mcpServers.a.env.A", "asks for an input of the editor"),
        ('{"command": "x", "transport": "http"}', 3, "mcpServers.a.transport", "'http' goes with url"),
        ('{"url": "http://y", "transport": "carrier pigeon"}', 3, "mcpServers.a.transport", "is none of stdio, sse"),
        ('{"url": "ftp://y"}', 3, "mcpServers.a.url", "must be an http or https URL"),
        (
            '{"url": "http://y", "apiKey": "k", "headers": {"authorization": "z"}}',
            3,
            "mcpServers.a.apiKey",
            "is sent as Authorization, which headers sets too",
        ),
    ],
)
def test_a_bad_entry_is_named_with_its_line_and_costs_no_other(entry: str, line: int, field: str, message: str) -> None:
    found = read(f'{{\n"mcpServers": {{\n"a": {entry},\n"good": {{"command": "x"}}}}}}')
    assert [declared.server.metadata.name for declared in found.servers] == ["good"]
    (problem,) = found.problems
    assert (problem.file, problem.line, problem.field) == ("/etc/mcp.json", line, field)
    assert message in problem.message


def test_two_names_that_come_to_one_are_told_apart() -> None:
    found = read('{"mcpServers": {"My Time": {"command": "x"},\n"my-time": {"command": "y"}}}')
    assert [declared.server.spec.command for declared in found.servers] == [["x"]]
    assert str(found.problems[0]).startswith("/etc/mcp.json:2: mcpServers.my-time: its name comes to my-time")


def test_json_that_breaks_off_is_named_with_its_line() -> None:
    found = read('{"mcpServers": {\n  "a": {"command": "x"\n')
    assert found.servers == []
    assert found.problems[0].line == 3
    assert found.problems[0].message.startswith("not valid JSON")


@pytest.mark.parametrize(
    "text", ['{"name": "left-pad"}', "[1]", "{}", '{"mcpServers": 5}', '{"servers": [{"url": "x"}]}']
)
def test_other_json_is_no_configuration(text: str) -> None:
    assert read_configuration(text, Path("package.json"), {}, lambda url: False) is None


def test_the_gateway_itself_is_left_out_of_its_own_servers() -> None:
    text = '{"mcpServers": {"fairlead": {"url": "http://127.0.0.1:8080/mcp"}, "b": {"url": "http://b/mcp"}}}'
    found = read_configuration(text, Path("mcp.json"), {}, lambda url: ":8080" in url)
    assert found is not None
    assert [declared.server.metadata.name for declared in found.servers] == ["b"]
    assert found.problems == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("time", "time"),
        ("My Server!", "my-server"),
        ("@scope/server_x", "scope-server-x"),
        ("7zip", "server-7zip"),
        ("日本", "server"),
        ("--a--", "a"),
    ],
)
def test_a_name_becomes_a_label(name: str, expected: str) -> None:
    assert resource_name(name) == expected


def test_a_long_name_is_cut_and_stays_itself() -> None:
    one, other = resource_name("a" * 80), resource_name("a" * 79 + "b")
    assert one != other
    assert len(one) <= 50
