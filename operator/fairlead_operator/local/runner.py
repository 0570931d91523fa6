"""Program of the runner image: installs one package into a volume, and writes a script there that starts its server.

`python -m fairlead_operator.local.runner [--allow-build] REGISTRY NAME VERSION [EXECUTABLE]` runs as an init container
of a `package` server. On failure it writes one sentence as the container's termination message; the operator turns
message and exit code into a condition. The program needs only the standard library, so that the image is small.
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
    find_launch,
    is_usable,
    plan_steps,
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
        for step in plan_steps(package, target, tools, volume):
            _run(package, step)
        (target / _MARKER).touch()
    return find_launch(package, target, tools)


def _run(package: PackageVersion, step: Step) -> None:
    """Run one step and pass on its output. Raises InstallFailed."""
    try:
        process = subprocess.run(
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
    sys.stdout.write(process.stdout)
    if process.returncode:
        raise explain(package, process.stdout.splitlines())


def write_program(launch: Launch, volume: Path) -> None:
    """Write the script that starts the server, atomically, because another container may be reading it."""
    command = shlex.join([launch.command, *launch.args])
    draft = volume / f".{PROGRAM}.{os.getpid()}"
    # skipped installation steps go to the server's log, because they may explain why the server ends
    warning = f"echo {shlex.quote(launch.skipped_steps)} >&2\n" if launch.skipped_steps else ""
    draft.write_text(f'#!/bin/sh\n{warning}exec {command} "$@"\n')
    draft.chmod(0o755)
    draft.replace(volume / PROGRAM)


def main(arguments: Sequence[str], *, volume: Path = Path("/cache"), log: Path = TERMINATION_LOG) -> int:
    """Install the package that the arguments describe; return the exit code."""
    build = arguments[0] == BUILD
    registry_argument, name, version, *executable = arguments[build:]
    registry: Registry = "npm" if registry_argument == "npm" else "pypi"
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
