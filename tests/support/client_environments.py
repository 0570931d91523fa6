"""Environments of clients that conflict with each other, made of the pins in `framework_clients/versions.toml`.

    python -m client_environments [NAME …]

creates all environments, or the named ones, and prints its progress. Each environment is stored in
~/.cache/fairlead/clients under a hash of its pins.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PROGRAMS: Final = Path(__file__).parent / "framework_clients"
VERSIONS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = tomllib.loads((PROGRAMS / "versions.toml").read_text())
"""Pinned packages by name of the environment: `packages` from PyPI, or `npm`."""
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead/clients"
_SECONDS: Final = 900


class NotInstalled(Exception):
    """The packages of an environment cannot be installed on this machine."""


def environment(name: str) -> Path:
    """Folder of an environment, which is created at the first use. Raises `NotInstalled`."""
    pins = VERSIONS[name]
    digest = hashlib.sha256(repr((sorted(pins.items()), sys.version_info[:2])).encode()).hexdigest()[:12]
    folder = _CACHE / f"{name}-{digest}"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").exists():  # missing, or left by a run that was interrupted
            shutil.rmtree(folder, ignore_errors=True)
            try:
                _install(folder, pins)
            except (OSError, subprocess.SubprocessError) as error:
                output = getattr(error, "stderr", None) or b""
                raise NotInstalled(f"{name}: {error}: {output.decode(errors='replace')[-500:]}") from error
            (folder / "whole").touch()
    return folder


def _install(folder: Path, pins: Mapping[str, Sequence[str]]) -> None:
    if "npm" in pins:
        folder.mkdir()
        (folder / "package.json").write_text('{"private": true}')
        _run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *pins["npm"], cwd=folder)
        return
    python, uv = folder / "bin" / "python", Path(sys.executable).parent / "uv"
    if uv.exists():
        _run(uv, "venv", "-q", "--python", sys.executable, folder)
        _run(uv, "pip", "install", "-q", "--python", python, *pins["packages"])
    else:
        _run(sys.executable, "-m", "venv", folder)
        _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *pins["packages"])


def _run(*words: str | Path, cwd: Path | None = None) -> None:
    subprocess.run([*map(str, words)], cwd=cwd, check=True, capture_output=True, timeout=_SECONDS)


def main(names: Sequence[str]) -> int:
    """Create the environments with these names. Returns the number of those that failed."""
    failed = 0
    for number, name in enumerate(names, 1):
        sys.stderr.write(f"environments of clients: {number} of {len(names)}, {name}\n")
        try:
            environment(name)
        except NotInstalled as error:
            failed += 1
            sys.stderr.write(f"the client cannot be installed, its tests are skipped: {error}\n")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [*VERSIONS]) and 1)
