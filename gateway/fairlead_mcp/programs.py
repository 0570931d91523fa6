"""Where the program of a server's command is looked for, on the machine that runs it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path


def search_path(environ: Mapping[str, str]) -> str:
    """`PATH`, and after it the folder of the interpreter: what is installed beside Fairlead is found."""
    return os.pathsep.join([environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


def find_program(program: str, environ: Mapping[str, str], cwd: str | None = None) -> str | None:
    """Absolute path of a command's program; None where there is none that may be run. A path with folders in it is
    relative to `cwd`, as for every program that starts in that folder.
    """
    if os.sep in program:
        program = str(Path(cwd or "", program).absolute())
    path = shutil.which(program, path=search_path(environ))
    return None if path is None else str(Path(path).absolute())


def folder_problem(cwd: str | None) -> str | None:
    """Why no program can be started in the folder `cwd`; None where that is not the reason that it cannot."""
    if cwd is None or Path(cwd).is_dir():
        return None
    return f"its working directory (cwd) {cwd} {'is not a directory' if Path(cwd).exists() else 'does not exist'}"
