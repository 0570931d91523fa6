"""Program of the runner image: installs one package into a volume, and writes a program there that starts its
server.

`python -m fairlead_operator.local.runner [--allow-build] REGISTRY NAME VERSION [EXECUTABLE]` runs as an init container
of a `package` server. On failure it writes one sentence as the container's termination message; the operator makes a
condition of the message and the exit code. The program only needs the standard library, to keep the image small.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fairlead_operator.local.installers import (
    InstallFailed,
    Launch,
    PackageVersion,
    Registry,
    Step,
    Tools,
    explain,
    is_usable,
    launch,
    steps,
)

UNREACHABLE: Final = 75
"""Exit code if the registry cannot be reached (EX_TEMPFAIL); 1 for failures that retries hardly cure."""
STEP_SECONDS: Final = 600.0
TERMINATION_LOG: Final = Path("/dev/termination-log")
BUILD: Final = "--allow-build"
PROGRAM: Final = "server"
_MARKER: Final = ".fairlead-installed"


def install(package: PackageVersion, volume: Path, tools: Tools) -> Launch:
    """Install the package into a folder of the volume, if it is not installed yet. Raises InstallFailed."""
    target = volume / package.registry / package.folder
    if not ((target / _MARKER).exists() and is_usable(package, target)):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for step in steps(package, target, tools, volume):
            _run(package, step)
        (target / _MARKER).touch()
    return launch(package, target, tools)


def _run(package: PackageVersion, step: Step) -> None:
    """Run one step and pass on its output. Raises InstallFailed."""
    try:
        done = subprocess.run(
            step.argv,
            env=step.environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=STEP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        message = f"{package} was not installed within {STEP_SECONDS:.0f} s"
        raise InstallFailed(message, network=True) from error
    sys.stdout.write(done.stdout)
    if done.returncode:
        raise explain(package, done.stdout.splitlines())


def write_program(started: Launch, volume: Path) -> None:
    """Write the program that starts the server, atomically, because another container may be reading it."""
    words = shlex.join([started.command, *started.args])
    draft = volume / f".{PROGRAM}.{os.getpid()}"
    # skipped installation steps go to the server's log, because they may explain why the server ends
    warning = f"echo {shlex.quote(started.left_out)} >&2\n" if started.left_out else ""
    draft.write_text(f'#!/bin/sh\n{warning}exec {words} "$@"\n')
    draft.chmod(0o755)
    draft.replace(volume / PROGRAM)


def main(arguments: Sequence[str], *, volume: Path = Path("/cache"), log: Path = TERMINATION_LOG) -> int:
    """Install the package that the arguments name; return the exit code."""
    build = arguments[0] == BUILD
    named, name, version, *executable = arguments[build:]
    registry: Registry = "npm" if named == "npm" else "pypi"
    package = PackageVersion(registry, name, version, executable[0] if executable else None, build)
    tools = Tools(shutil.which("uv"), shutil.which("npm"), shutil.which("node"))
    try:
        write_program(install(package, volume, tools), volume)
    except InstallFailed as error:
        log.write_text(str(error))
        sys.stderr.write(f"{error}\n")
        return UNREACHABLE if error.network else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
