"""Folders, programs and environments for making a release, and functions that run commands in them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from releasing.faults import Fault

ROOT: Final = Path(__file__).resolve().parents[2]
MODULES: Final = ROOT / "hack" / "releasing" / "go"
GO_PROGRAMS: Final = {
    "registry": ("tools", "github.com/distribution/distribution/v3/cmd/registry"),
    "crane": ("tools", "github.com/google/go-containerregistry/cmd/crane"),
    "actionlint": ("tools", "github.com/rhysd/actionlint/cmd/actionlint"),
    "cosign": ("cosign", "github.com/sigstore/cosign/v3/cmd/cosign"),
}
"""Folder below MODULES whose go.mod pins a program, and its package."""
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
LOCKED: Final = ("--require-hashes", "--no-deps", "--only-binary", ":all:")
"""Options of pip for the lists of requirements/: only wheels with the locked hashes."""
COMMAND_SECONDS: Final = 3600
ASKED_EVERY: Final = 0.2
"""Seconds between two requests to a process that starts."""
Answer = TypeVar("Answer")
QUIET: Final = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Workplace:
    """Folders of one release."""

    out: Path
    """Artefacts in `dist/` (for PyPI), `images/`, `chart/` and `sbom/`. They remain between steps."""
    log: Path
    """File with the output of every command."""

    def folder(self, name: str, *, empty: bool = False) -> Path:
        """A folder of artefacts, which is created if it is missing."""
        path = self.out / name
        if empty:
            shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def run(self, *words: str | Path, cwd: Path = ROOT, **environment: str) -> str:
        """Run a command and return its standard output; all output is also logged. Raises Fault if it fails."""
        done = self.attempt(*words, cwd=cwd, **environment)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()[-12:]
            raise Fault(f"`{' '.join(map(str, words))}` exited with {done.returncode}:\n  " + "\n  ".join(lines))
        return done.stdout

    def attempt(self, *words: str | Path, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command that may fail. Raises Fault if its program is missing."""
        variables = {**os.environ, **QUIET, **environment}
        try:
            done = subprocess.run(
                [str(word) for word in words],
                cwd=cwd,
                env=variables,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except FileNotFoundError as error:
            raise Fault(f"{words[0]} is not installed, which this step needs") from error
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
        return done

    def artefact(self, folder: str, pattern: str) -> Path:
        """The only file in a folder, which an earlier step left there. Raises Fault."""
        paths = sorted((self.out / folder).glob(pattern))
        if len(paths) != 1:
            raise Fault(f"{self.out / folder} has {len(paths)} files {pattern}, not one: run the earlier steps first")
        return paths[0]


def environment(workplace: Workplace, *lists: str) -> Path:
    """Python of an environment with the requirements of some lists of requirements/, which remains between runs. Raises
    Fault.
    """
    files = [ROOT / "requirements" / f"{name}.txt" for name in lists]
    folder = cached("-".join(lists), sys.version.encode(), *(file.read_bytes() for file in files))
    python = folder / "bin" / "python"
    if not (folder / "whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        workplace.run(sys.executable, "-m", "venv", folder)
        for file in files:
            install(workplace, python, "-r", file)
        (folder / "whole").touch()
    return python


def install(workplace: Workplace, python: Path, *words: str | Path) -> None:
    """Install from a list with hashes, from wheels alone. Raises Fault."""
    workplace.run(python, "-m", "pip", "install", "-q", "--no-compile", *LOCKED, *words)


def cached(name: str, *made_of: bytes) -> Path:
    """Cache folder for a result that depends only on these inputs."""
    digest = hashlib.sha256(b"\0".join(made_of)).hexdigest()
    return CACHE / "fairlead" / f"release-{name}-{digest[:12]}"


def go_program(workplace: Workplace, name: str) -> Path:
    """Path of a program, compiled once from its pinned Go module. Raises Fault without Go."""
    module, package = GO_PROGRAMS[name]
    folder = cached(module, (MODULES / module / "go.mod").read_bytes(), (MODULES / module / "go.sum").read_bytes())
    program = folder / name
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise Fault(f"no Go to compile {name} with: install Go 1.26 or newer")
    print(f"    compiling {name}, once; cosign takes up to ten minutes", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"{name}.{os.getpid()}"
    words = [
        "go",
        "build",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        "-s -w",
        "-o",
        str(new),
        package,
    ]
    workplace.run(*words, cwd=MODULES / module, CGO_ENABLED="0")
    new.rename(program)
    return program


def helm(workplace: Workplace, name: str = "helm") -> Path:
    """Path of Helm or Kubeconform: from PATH, else the one that `hack/kubernetes/assets` has compiled. Raises Fault."""
    if program := shutil.which(name):
        return Path(program)
    return Path(workplace.run(ROOT / "hack/kubernetes/assets", "--tools").strip()) / name


@contextmanager
def running(words: Sequence[str | Path], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process within the context, and end it by its id."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(word) for word in words],
            stdout=output,
            stderr=output,
            env={**os.environ, **environment},
            cwd=log.parent,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def first_answer(process: subprocess.Popen[bytes], ask: Callable[[], Answer], seconds: float) -> Answer | None:
    """First answer of a process that starts. None if the process ends or does not answer in time. `ask` is called
    repeatedly; it raises OSError while there is no answer.
    """
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        try:
            return ask()
        except OSError:
            time.sleep(ASKED_EVERY)
    return None


def elapsed(since: float) -> str:
    """Seconds since a time of the monotonic clock, as text."""
    return f"{time.monotonic() - since:.0f} s"
