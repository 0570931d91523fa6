"""docs/connect/clients.md shows what `fairlead client setup` writes, and where."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead_tools.client_files import with_entry
from fairlead_tools.known_clients import CLIENTS

PAGE = (Path(__file__).parents[2] / "docs/connect/clients.md").read_text("utf-8")
URL = "http://127.0.0.1:8080/mcp"


@pytest.mark.parametrize("name", CLIENTS)
def test_the_page_shows_the_entry_and_the_files_of_each_client(name: str) -> None:
    known = CLIENTS[name]
    shown = re.search(rf"^{re.escape(known.title)}:\n\n```(json|toml|yaml)\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    assert shown is not None
    readers: dict[str, Callable[[str], Any]] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
    read = readers[known.form]
    key = ("FAIRLEAD_KEY", None) if known.reads_variables else (None, "/home/me/me.key")
    written = with_entry("", known.member, "fairlead", known.entry_for(URL, *key), known.form)
    assert read(shown[2]) == read(written)
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {known.title} |"))
    for file in (f"~/{known.user}", known.project, known.user_macos and f"~/{known.user_macos}"):
        assert file is None or f"`{file}`" in row
    assert f"`{name}`" in PAGE
