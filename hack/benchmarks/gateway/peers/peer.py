"""Another proxy as the benchmark sees it: how it is installed, started, and called.

Each has a separate virtual environment (or folder) below the user's cache, which is created at the first use. None of
it is a dependency of Fairlead.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rig.harness import Unmeasurable
from rig.processes import Stage

HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead" / "bench" / "peers"
INSTALLED = "installed"
"""The file that says that an environment is whole."""


@dataclass(frozen=True)
class Door:
    """Where calls come in, and one more line of every head, without its end."""

    path: str = "/mcp"
    header: str = ""


def no_account(port: int, upstream: str) -> Door:
    """That of a proxy that needs neither registration nor key."""
    return Door()


@dataclass(frozen=True)
class Peer:
    """One product in one form."""

    name: str
    command: Callable[[Stage, int, str], Sequence[str | Path]]
    """`command(stage, port, upstream URL)` is what starts it."""
    tool: str
    at_least: float | None = None
    """How many times its calls a second ours have to be."""
    every_row: bool = False
    """Whether it is measured with other kinds of clients too."""
    slow: bool = False
    """Whether a call takes so long that a short window would see none of them end."""
    variables: dict[str, str] = field(default_factory=dict)
    """Its environment, beside ours."""
    enter: Callable[[int, str], Door] = no_account
    """`enter(port, upstream URL)`, once it listens, registers the upstream where that is done by its API. Raises
    Unmeasurable.
    """


def environment() -> dict[str, str]:
    """Ours without what leads Python to our packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def venv(name: str, *packages: str) -> Path:
    """The programs of a virtual environment with those packages of PyPI. Raises Unmeasurable."""
    folder = HOME / name
    programs = folder / "bin"
    if (folder / INSTALLED).exists():
        return programs
    for words in ([sys.executable, "-m", "venv", str(folder)], [str(programs / "pip"), "install", "-q", *packages]):
        complaint = run(words, 900)
        if complaint is not None:
            raise Unmeasurable(f"it does not install: {complaint}")
    (folder / INSTALLED).touch()
    return programs


def run(words: Sequence[str], seconds: float, **more: str) -> str | None:
    """The end of what it complains of; None where all went well."""
    HOME.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=seconds, env={**environment(), **more}, cwd=HOME
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[-300:]
    return None if done.returncode == 0 else " ".join(done.stderr.split())[-300:]
