"""The command behind `hack/lock`: resolves each list of requirements to exact releases with hashes."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = "requirements"
OLDEST_PYTHON: Final = "3.11"
_REQUIREMENT: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*==")


class LockFault(Exception):
    """The lists cannot be resolved; the message is one sentence."""


@dataclass(frozen=True)
class Lock:
    """One committed list, and the extras of the project or the file of further requirements that it resolves."""

    name: str
    extras: tuple[str, ...] = ()
    source: str = "pyproject.toml"
    over: str = ""
    """Name of the list that this one extends: releases of both agree, and only additional ones are written."""


LOCKS: Final = (
    Lock("image", extras=("operator", "gateway", "otel", "bedrock")),
    Lock("search", extras=("operator", "gateway", "otel", "bedrock", "search"), over="image"),
    Lock("up", extras=("up",)),
    Lock("servers", extras=("servers",)),
    Lock("build", source="-"),
    *(Lock(name, source=f"{FOLDER}/{name}.in") for name in ("demo", "runner", "release")),
)


def build_requirements(project: dict[str, Any]) -> list[str]:
    """Requirements of the build backend and of the hook that compiles, from a parsed pyproject.toml."""
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    return sorted({*project["build-system"]["requires"], *hook["dependencies"]})


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Requirements of a list: the line that names a release without its hashes, and the whole block."""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        if _REQUIREMENT.match(line) and lines:
            yield _head(lines[0]), "".join(lines)
            lines = []
        lines.append(line)
    if lines:
        yield _head(lines[0]), "".join(lines)


def _head(line: str) -> str:
    return line.rstrip().removesuffix("\\").rstrip()


def without(text: str, below: str) -> str:
    """Blocks of a list that another list does not contain."""
    heads = {head for head, _ in blocks(below)}
    return "".join(block for head, block in blocks(text) if head not in heads)


def addresses(text: str) -> list[str]:
    """Lines that contain a network address, which is forbidden in lists."""
    return [line for line in text.splitlines() if "://" in line or line.startswith(("--index", "--extra-index", "-i "))]


def resolve(lock: Lock, folder: Path, *, upgrade: bool) -> str:
    """Text of one list. `folder` contains the lists that were resolved before it. Raises LockFault."""
    out = folder / f"{lock.name}.txt.new"
    locked_file = folder / f"{lock.name}.txt"
    words = ["uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--python-version", OLDEST_PYTHON]
    words += ["--no-header", "--no-emit-index-url", "--no-annotate", "-o", str(out)]
    for extra in lock.extras:
        words += ["--extra", extra]
    if lock.over:
        words += ["-c", str(folder / f"{lock.over}.txt")]
    if upgrade:
        words.append("--upgrade")
    elif locked_file.exists():
        below = (folder / f"{lock.over}.txt").read_text() if lock.over else ""
        out.write_text(below + locked_file.read_text())
    given = None
    if lock.source == "-":
        given = "\n".join(build_requirements(tomllib.loads((ROOT / "pyproject.toml").read_text())))
    if subprocess.run([*words, lock.source], cwd=ROOT, input=given, text=True, check=False).returncode:
        raise LockFault(f"requirements/{lock.name}.txt cannot be resolved: the reason is above")
    text = out.read_text()
    out.unlink()
    if lock.over:
        text = without(text, (folder / f"{lock.over}.txt").read_text())
    if named := addresses(text):
        raise LockFault(f"requirements/{lock.name}.txt would contain the address of a package index: {named[0]}")
    return text


def resolved(into: Path, *, upgrade: bool) -> dict[str, str]:
    """Resolve all lists by name, starting from the committed ones. Each is written to `into` as soon as it is
    resolved.
    """
    texts = {}
    for lock in LOCKS:
        committed = ROOT / FOLDER / f"{lock.name}.txt"
        if committed.exists():
            (into / committed.name).write_bytes(committed.read_bytes())
        texts[lock.name] = resolve(lock, into, upgrade=upgrade)
        (into / committed.name).write_text(texts[lock.name])
    return texts


def main(words: Sequence[str]) -> int:
    """Return exit code 0 if all lists are written or up to date, else 1."""
    parser = argparse.ArgumentParser(prog="hack/lock")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="write nothing; exit 1 when a list is out of step")
    choice.add_argument("--upgrade", action="store_true", help="the newest releases that fit")
    options = parser.parse_args(words)
    try:
        with tempfile.TemporaryDirectory() as name:
            texts = resolved(Path(name), upgrade=options.upgrade)
    except LockFault as error:
        print(f"hack/lock: {error}", file=sys.stderr)
        return 1
    failed = False
    for name, text in texts.items():
        committed = ROOT / FOLDER / f"{name}.txt"
        if options.check and (not committed.exists() or committed.read_text() != text):
            print(f"hack/lock: requirements/{name}.txt does not fit pyproject.toml: run hack/lock", file=sys.stderr)
            failed = True
        elif not options.check:
            committed.write_text(text)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
