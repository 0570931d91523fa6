"""docs/connect/clients.md shows the files and entries that `fairlead client setup` writes."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead_api.client_files.edits import with_entry
from fairlead_api.client_files.known_clients import CLIENTS

PAGE = (Path(__file__).parents[2] / "docs/connect/clients.md").read_text("utf-8")
URL = "http://127.0.0.1:8080/mcp"


@pytest.mark.parametrize("name", CLIENTS)
def test_the_page_shows_the_entry_and_the_files_of_each_client(name: str) -> None:
    client = CLIENTS[name]
    shown = re.search(rf"^{re.escape(client.title)}:\n\n```(json|toml|yaml)\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    assert shown is not None
    readers: dict[str, Callable[[str], Any]] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
    read = readers[client.form]
    key = ("FAIRLEAD_KEY", None) if client.reads_variables else (None, "/home/me/me.key")
    written = with_entry("", client.member, "fairlead", client.entry_for(URL, *key), client.form)
    assert read(shown[2]) == read(written)
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {client.title} |"))
    for file in (f"~/{client.user}", client.project, client.user_macos and f"~/{client.user_macos}"):
        assert file is None or f"`{file}`" in row
    assert f"`{name}`" in PAGE
