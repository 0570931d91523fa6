"""The page about the screen of `fairlead up` agrees with the screen and with messages about files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fairlead_api.client_files.keys import remarks
from fairlead_api.client_files.tools import add_tools
from fairlead_cli.up.missing_files import missing_paths

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/try/screen.md").read_text()


def keys(row: str) -> list[str]:
    """The words in code style in the first cell of the row that begins with a text."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {row}")]
    return re.findall(r"`([^`]+)`", line.split(" | ")[0])


def test_the_picture_on_the_page_is_the_one_that_is_drawn() -> None:
    assert (ROOT / "tests/unit/cli/golden/screen-fourteen-80x23.txt").read_text() in PAGE


@pytest.mark.parametrize("key", keys("a misspelt key"))
def test_a_key_that_the_page_calls_misspelt_stops_its_server(key: str) -> None:
    assert [remark.stops for remark in remarks({key: {}})] == [True]


@pytest.mark.parametrize("key", [key for key in keys("a key that concerns") if key != "inputs"])
def test_a_key_that_the_page_gives_to_clients_is_passed_over(key: str) -> None:
    assert [*remarks({key: True})] == []


@pytest.mark.parametrize("key", keys("a pattern")[1:])
def test_a_list_of_tools_whose_pattern_the_page_says_is_not_heeded_is_named(key: str) -> None:
    told = add_tools({}, {key: keys("a pattern")[:1]})
    assert [(remark.key, remark.stops) for remark in told] == [(key, False)]


def test_the_sentences_about_what_is_not_there_are_those_on_the_page() -> None:
    for sentence in missing_paths([Path("mcp.jsn")], ["tols.py"]):
        assert f"fairlead up: {sentence}\n" in PAGE


def test_a_server_with_keys_of_many_clients_is_passed_over() -> None:
    """The entries are those of Claude Desktop, VS Code, Cline, Windsurf and Gemini CLI."""
    entry = (
        '{"type": "stdio", "command": "x", "dev": {"watch": "src"}, "autoApprove": [], "trust": false, "timeout": 9}'
    )
    assert [*remarks(json.loads(entry))] == []
