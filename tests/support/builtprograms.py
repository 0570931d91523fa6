"""Programs in other languages that tests run: built once from their sources, in ~/.cache.

Builds need the network: a failed build fails the test in CI, and skips it elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead-tests"
_BUILD_SECONDS: Final = 600


def build_program(source: Path, name: str, build: Callable[[Path, Path], None]) -> Path:
    """Folder with the program that `build` makes from a folder of sources; `build` gets both folders. `name` is the
    prefix of the folder's name.
    """
    digest = hashlib.sha256()
    for file in sorted(source.iterdir()):
        digest.update(file.read_bytes())
    folder = _CACHE / f"{name}-{digest.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".built").exists():
            try:
                build(source, folder)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                problem = f"{name} cannot be built: {error}\n{(error.stderr or b'')[-2000:]!r}"
                if os.environ.get("CI"):
                    pytest.fail(problem)
                pytest.skip(problem)
            (folder / ".built").touch()
    return folder


def build_go(source: Path, folder: Path) -> None:
    """Build a Go program as the executable `reader`."""
    command = ["go", "build", "-mod=readonly", "-trimpath", "-o", str(folder / "reader"), "."]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True, timeout=_BUILD_SECONDS)


def build_java(source: Path, folder: Path) -> None:
    """Compile the classes of a folder, with what its pom.xml names in `lib`."""
    fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}/lib"]
    subprocess.run(fetch, cwd=source, check=True, capture_output=True, timeout=_BUILD_SECONDS)
    compile_ = ["javac", "-cp", f"{folder}/lib/*", "-d", str(folder), *map(str, source.glob("*.java"))]
    subprocess.run(compile_, cwd=source, check=True, capture_output=True, timeout=_BUILD_SECONDS)


def java(folder: Path, main: str) -> list[str]:
    """Command that runs a class that `build_java` has compiled."""
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{folder}/lib/*", main]


def build_node(source: Path, folder: Path) -> None:
    """Copy a Node program, and install the packages of its package.json next to it."""
    _copy(source, folder)
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=_BUILD_SECONDS)


def build_python(source: Path, folder: Path) -> None:
    """Copy a Python program, and install the packages of its requirements.txt in `venv`."""
    _copy(source, folder)
    for command in (
        [sys.executable, "-m", "venv", "--without-pip", "venv"],
        [sys.executable, "-m", "uv", "pip", "install", "--python", "venv/bin/python", "-r", "requirements.txt"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_BUILD_SECONDS)


def _copy(source: Path, folder: Path) -> None:
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
