"""Program of the runner image: installs one package into a volume, and leaves a program there that starts its server.

`python -m fairlead_operator.local.runner [--allow-build] REGISTRY NAME VERSION [EXECUTABLE]` runs as an init container
of a `package` server. What it could not do goes to the container's termination message, in one sentence, and into its
exit code, from which the operator makes a condition. Needs the standard library alone, so that the image needs no more.
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
    launch,
    steps,
    usable,
)

UNREACHABLE: Final = 75
"""Exit code where the registry could not be reached (EX_TEMPFAIL); 1 where trying again will hardly help."""
STEP_SECONDS: Final = 600.0
TERMINATION_LOG: Final = Path("/dev/termination-log")
BUILD: Final = "--allow-build"
PROGRAM: Final = "server"
_MARKER: Final = ".fairlead-installed"


def install(package: PackageVersion, volume: Path, tools: Tools) -> Launch:
    """Install into a folder of the volume, unless that was done before. Raises InstallFailed."""
    target = volume / package.registry / package.folder
    if not ((target / _MARKER).exists() and usable(package, target)):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for step in steps(package, target, tools, volume):
            _run(package, step)
        (target / _MARKER).touch()
    return launch(package, target, tools)


def _run(package: PackageVersion, step: Step) -> None:
    """One command, its output passed on. Raises InstallFailed."""
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


def leave(started: Launch, volume: Path) -> None:
    """Write the program that starts the server; whole or not at all, for another container may be reading it."""
    words = shlex.join([started.command, *started.args])
    draft = volume / f".{PROGRAM}.{os.getpid()}"
    told = (
        f"echo {shlex.quote(started.left_out)} >&2\n" if started.left_out else ""
    )  # into its log, where it says why it ended
    draft.write_text(f'#!/bin/sh\n{told}exec {words} "$@"\n')
    draft.chmod(0o755)
    draft.replace(volume / PROGRAM)


def main(arguments: Sequence[str], *, volume: Path = Path("/cache"), log: Path = TERMINATION_LOG) -> int:
    """The exit code."""
    build = arguments[0] == BUILD
    named, name, version, *executable = arguments[build:]
    registry: Registry = "npm" if named == "npm" else "pypi"
    package = PackageVersion(registry, name, version, executable[0] if executable else None, build)
    tools = Tools(shutil.which("uv"), shutil.which("npm"), shutil.which("node"))
    try:
        leave(install(package, volume, tools), volume)
    except InstallFailed as error:
        log.write_text(str(error))
        sys.stderr.write(f"{error}\n")
        return UNREACHABLE if error.network else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
