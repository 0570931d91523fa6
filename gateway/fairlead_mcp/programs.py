"""Search for the program of a server's command on this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path


def search_path(environ: Mapping[str, str]) -> str:
    """Return `PATH` followed by the interpreter's folder, so that programs installed beside Fairlead are found."""
    return os.pathsep.join([environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


def find_program(program: str, environ: Mapping[str, str], cwd: str | None = None) -> str | None:
    """Return the absolute path of a command's program; None if no executable is found.

    A path with a folder in it is relative to `cwd`, the working directory of the process.
    """
    if os.sep in program:
        program = str(Path(cwd or "", program).absolute())
    path = shutil.which(program, path=search_path(environ))
    return None if path is None else str(Path(path).absolute())


def folder_problem(cwd: str | None) -> str | None:
    """Explain why no program can be started in the folder `cwd`; None if the folder exists."""
    if cwd is None or Path(cwd).is_dir():
        return None
    return f"its working directory (cwd) {cwd} {'is not a directory' if Path(cwd).exists() else 'does not exist'}"


def program_problem(program: str, cwd: str | None) -> str | None:
    """Explain why a path that exists is not a program; None for a name without a folder, and if nothing is there."""
    path = Path(cwd or "", program).absolute()
    if os.sep not in program or not path.exists():
        return None
    if path.is_dir():
        return "it is a folder, not a program"
    return None if os.access(path, os.X_OK) else f"it is not executable; make it so: chmod +x {shlex.quote(str(path))}"


def missing_program(program: str, cwd: str | None) -> str:
    """Say where a program was looked for that is not there."""
    location = f"in {cwd or Path.cwd()}" if os.sep in program and not Path(program).is_absolute() else "on this machine"
    return f"there is no program {program} {location}"
