"""The page on `fairlead up` and mcp.json documents exactly what the parser does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import page_reader
from fairlead_api.client_files.entry import EntryProblem
from fairlead_api.client_files.keys import OF_URLS, OWN_FIELDS, READ
from fairlead_api.client_files.servers import ConfiguredServer, Translated, entries, translate
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerSpec
from fairlead_client.servers import read_declarations
from fairlead_mcp.surroundings import INHERITED, NETWORK, SETTINGS
from fairlead_operator.local.configfile import read_configuration

PAGE = (Path(__file__).parents[3] / "docs" / "try" / "up.md").read_text()
ENVIRON = {"HOME": "/home/ada", "TOOLS_TOKEN": "t", "GITHUB_TOKEN": "g", "NAME": "value", "EMPTY": ""}


def section(title: str) -> str:
    match = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None, title
    return match[1]


def rows(title: str, number: int = 0) -> Iterator[list[str]]:
    """The cells of one table of a section, without the table's head."""
    table = re.findall(r"(?:^\|.*\n)+", section(title), re.MULTILINE)[number].splitlines()
    for line in table[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def blocks() -> list[Any]:
    return [json.loads(block) for block in page_reader.blocks(PAGE, "json")]


class Watched(dict[str, Any]):
    """A mapping that records which keys were read."""

    keys_read: set[str]

    def __init__(self, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self.keys_read = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.keys_read.add(key)
        return super().get(key, default)


def test_every_key_that_is_read_is_on_the_page_and_no_other() -> None:
    read_keys: set[str] = set()
    for content in ({"command": "x"}, {"url": "http://x"}):
        watched = Watched(content)
        for entry in entries({"mcpServers": [watched]}):
            translate(ConfiguredServer("a", entry.content, entry.path), ENVIRON)
        read_keys |= watched.keys_read
    assert {key for cells in rows("The file", 0) for key in code(cells[0])} == read_keys == READ


GOLDEN = Path(__file__).parent / "golden"
FILES = {
    "Claude Desktop": "clients",
    "Claude Code": "clients",
    "of the user": "claude-code-user",
    "Cursor": "clients",
    "Cline": "cline",
    "Windsurf": "windsurf",
    "Gemini CLI": "gemini-cli",
    "Copilot CLI": "copilot-cli",
    "LM Studio": "clients",
    "VS Code": "vscode-settings",
    "opencode": "opencode",
    "Crush": "crush",
    "Cherry Studio": "cherry-studio",
    "devcontainer.json": "devcontainer",
    "Hermes": "hermes",
    "Mistral Vibe": "vibe",
    "OpenHands": "openhands",
    "gptme": "gptme",
    "Octomind": "octomind",
    "MaiBot": "maibot",
    "Theia": "theia",
    "Zed": "zed",
    "goose": "goose",
    "Codex": "codex",
    "LibreChat": "librechat",
    "Continue": "continue",
    "an unpacked MCPB bundle": "mcpb",
}
"""A file of each client. `test_configurations` compares its servers with the resulting McpServers."""


def test_each_client_of_the_page_has_a_file_that_is_read() -> None:
    clients = {name for cells in rows("Files of other clients") for name in cells[0].split(", ")}
    assert clients == FILES.keys()
    assert all(list(GOLDEN.glob(f"{name}.in.*")) for name in FILES.values())


@pytest.mark.parametrize("block", blocks())
def test_each_example_is_taken_by_up_and_by_a_tool_registry(block: dict[str, Any]) -> None:
    configuration = read_configuration(json.dumps(block), Path("/etc/mcp.json"), ENVIRON, lambda url: False)
    assert configuration is not None
    assert configuration.problems == []
    assert not getattr(configuration, "remarks", [])
    named = [entry.name for entry in entries(block)]
    assert [declared.server.metadata.name for declared in configuration.servers] == named
    assert [server.name for server in read_declarations(block, ENVIRON)] == named


def test_a_server_inherits_the_variables_that_the_page_names() -> None:
    inherited, proxies, certificates, *settings = rows("What a server inherits")
    assert tuple(code(inherited[0])) == INHERITED
    assert {name.lower() for name in code(proxies[0] + certificates[0])} == NETWORK
    of_programs: dict[str, set[str]] = {}
    for cells in settings:
        shared = [name.removesuffix("*") for name in code(cells[0])]
        for words in re.split(r"\), |(?<=`), (?=`\w+` \()", cells[1]):
            named, _, own = words.partition(" (with ")
            for program in code(named):
                of_programs[program] = {*shared, *(name.removesuffix("*") for name in code(own))}
    assert of_programs == {program: set(names) for program, names in SETTINGS.items()}


def test_the_fields_that_only_fairlead_has_are_on_the_page_and_all_others_have_keys_of_clients() -> None:
    title = "Session, prefix, probes and limits per server"
    assert sorted(name for cells in rows(title) for name in code(cells[0])) == sorted(OWN_FIELDS)
    elsewhere = {"command", "env", "openapi", "remote", "url"}
    of_a_cluster = {
        "approval",
        "envFrom",
        "image",
        "network",
        "package",
        "podTemplate",
        "replicas",
        "resources",
        "runtimeClassName",
        "unrestrictedPodTemplate",
    }
    fields = {field.alias or name for name, field in McpServerSpec.model_fields.items()}
    assert fields == {*OWN_FIELDS} - {*OF_URLS} | {*elsewhere, *of_a_cluster}


def test_an_entry_sets_fields_that_only_fairlead_has() -> None:
    spec = McpServer.model_validate(of(blocks()[-1]["mcpServers"]["browser"]).manifest).spec
    assert (spec.session, spec.prefix, spec.limits.concurrency) == ("PerClient", "web", 4)
    assert [(setting.name, setting.enabled) for setting in spec.tools] == [
        ("browser_close", False),
        ("browser_snapshot", True),
    ]


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("${NAME}", "value"),
        ("${env:NAME}", "value"),
        ("${OTHER:-text}", "text"),
        ("${EMPTY:-text}", "text"),
        ("$${NAME}", "${NAME}"),
    ],
)
def test_references_become_what_the_page_says(text: str, becomes: str) -> None:
    forms = [form for cells in rows("Values from the environment") for form in code(cells[0])]
    assert re.sub("OTHER|EMPTY", "NAME", text) in forms
    assert of({"command": text}).manifest["spec"]["command"] == [becomes]


@pytest.mark.parametrize("text", ["${OTHER}", "${input:key}", "${command:pick}"])
def test_references_that_lead_nowhere_are_refused(text: str) -> None:
    with pytest.raises(EntryProblem):
        of({"command": "x", "args": [text]})


def of(content: dict[str, Any]) -> Translated:
    return translate(ConfiguredServer("a", content, ("mcpServers", "a")), ENVIRON)
