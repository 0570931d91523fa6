"""Messages of `fairlead up` about files and modules that do not exist."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fairlead_cli.up.missing_files import missing_paths


def test_a_missing_file_module_and_configuration_are_told_of_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # a copy, because the code under test adds the working directory
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "mcp.json").write_text("{}")
    messages = [
        *missing_paths(
            [Path("nope.json")], ["nope.py", "./sub/nope", "no_such_module", "no_such.module:x"], Path("r.yaml")
        )
    ]
    assert messages == [
        "nope.json does not exist: give an mcp.json, a manifest, a folder of manifests or an OpenAPI document",
        "--tools: nope.py does not exist: give a Python file or the name of a module",
        "--tools: ./sub/nope does not exist: give a Python file or the name of a module",
        "--tools: there is no module no_such_module: give a Python file or the name of a module",
        "--tools: there is no module no_such.module: give a Python file or the name of a module",
        "--routes: r.yaml does not exist: give a YAML file of routes",
    ]
    assert [*missing_paths([Path("mcp.json"), tmp_path], ["mine.py", "mine", "json:dumps"])] == []


def test_a_python_file_given_as_a_configuration_is_sent_to_tools(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("")
    assert [*missing_paths([file])] == [f"{file} is a Python file: to serve its tools, use --tools {file}"]
