"""Programs are found in PATH, next to the interpreter, and relative to the server's working directory."""

from __future__ import annotations

import sys
from pathlib import Path

from fairlead_mcp.programs import find_program, program_problem


def program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_name_is_looked_for_in_path_and_then_beside_the_interpreter(tmp_path: Path) -> None:
    mine = program(tmp_path / "bin" / "server")
    environ = {"PATH": str(tmp_path / "bin")}
    assert find_program("server", environ) == mine
    assert find_program(Path(sys.executable).name, environ) == sys.executable
    assert find_program("nonesuch", environ) is None


def test_a_path_is_relative_to_the_folder_that_the_server_runs_in(tmp_path: Path) -> None:
    mine = program(tmp_path / "work" / "bin" / "server")
    environ = {"PATH": "/nowhere"}
    for path in ("./bin/server", "bin/server", mine):
        assert find_program(path, environ, str(tmp_path / "work")) == mine
    assert find_program("bin/server", environ, str(tmp_path)) is None
    assert find_program("server", environ, str(tmp_path / "work" / "bin")) is None


def test_a_folder_and_a_file_that_is_not_executable_are_explained_and_a_missing_program_is_not(tmp_path: Path) -> None:
    script = tmp_path / "my server.py"
    script.write_text("#!/usr/bin/env python3\n")
    script.chmod(0o644)
    assert program_problem("./my server.py", str(tmp_path)) == (
        f"it is not executable; make it so: chmod +x '{script}'"
    )
    assert program_problem(str(tmp_path), None) == "it is a folder, not a program"
    assert program_problem("./nothere", str(tmp_path)) is None
    assert program_problem("my server.py", str(tmp_path)) is None
    assert program_problem(program(tmp_path / "bin" / "server"), None) is None
