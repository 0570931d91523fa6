"""Programs that a test needs and a machine may lack: the test is skipped, and says which one is missing."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

_PLACES = (str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath), "/usr/sbin")
"""Folders that are not in a user's PATH: programs of packages next to the interpreter, and servers of Debian."""


def needs(program: str) -> pytest.MarkDecorator:
    """Mark of tests that need a program."""
    return pytest.mark.skipif(_path(program) is None, reason=f"{program} is not installed")


def require_program(program: str, advice: str = "") -> str:
    """Path of a program. Skips the requesting test if it is not installed. `advice` says how to install it."""
    path = _path(program)
    if path is None:
        pytest.skip(f"{program} is not installed{advice and f': {advice}'}")
    return path


def _path(program: str) -> str | None:
    return shutil.which(program, path=os.pathsep.join(_PLACES))
