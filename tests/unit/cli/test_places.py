"""Messages of `fairlead up` about files and modules that do not exist."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fairlead_cli.up.missing_files import missing


def test_a_missing_file_module_and_configuration_are_told_of_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the working directory is added to it
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "mcp.json").write_text("{}")
    messages = [
        *missing([Path("nope.json")], ["nope.py", "./sub/nope", "no_such_module", "no_such.module:x"], Path("r.yaml"))
    ]
    assert messages == [
        "there is no file or folder nope.json: an mcp.json, a manifest or a folder of them goes here",
        "there is no file nope.py: a Python file or the name of a module goes after --tools",
        "there is no file ./sub/nope: a Python file or the name of a module goes after --tools",
        "there is no module no_such_module: a Python file or the name of a module goes after --tools",
        "there is no module no_such.module: a Python file or the name of a module goes after --tools",
        "there is no file r.yaml: a YAML file of routes goes after --routes",
    ]
    assert [*missing([Path("mcp.json"), tmp_path], ["mine.py", "mine", "json:dumps"])] == []


def test_a_python_file_given_as_a_configuration_is_sent_to_tools(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("")
    assert [*missing([file])] == [f"{file} is a Python file: --tools {file} serves the tools in it"]
