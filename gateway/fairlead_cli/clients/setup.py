"""`fairlead client setup`: shows what changes in a client's configuration, asks, and writes it."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fairlead_cli.connecting import check_url, no_path
from fairlead_cli.failure import USED_WRONGLY, Failure
from fairlead_cli.output import Output
from fairlead_tools.client_files import UnreadableFile, entry_of, with_entry
from fairlead_tools.known_clients import CLIENTS, KnownClient, Scope

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True)
class SetupWishes:
    """Options of the command."""

    url: str
    name: str
    key_env: str | None
    scope: Scope
    undo: bool = False
    yes: bool = False
    dry_run: bool = False


def run_setup(client: str, wishes: SetupWishes, output: Output) -> None:
    """Change one client's file. Raises Failure."""
    known = CLIENTS.get(client)
    if known is None:
        raise Failure(f"there is no client {client!r}; known are {', '.join(CLIENTS)}", code=USED_WRONGLY)
    _check(wishes)
    file = place_of(known, wishes.scope)
    before = _text(file)
    entry = None if wishes.undo else known.entry(wishes.url, wishes.key_env)
    try:
        there = entry_of(before, known.member, wishes.name, toml=known.is_toml)
        after = with_entry(before, known.member, wishes.name, entry, toml=known.is_toml) if there != entry else before
    except UnreadableFile as error:
        advice = "take out by hand" if entry is None else "put in by hand"
        shown = f"{known.member}.{wishes.name}" if entry is None else _shown(known, wishes.name, entry)
        raise Failure(f"{file} is left as it is: {error}; {advice}: {shown}") from error
    change = "unchanged" if after == before else "removed" if wishes.undo else "added" if there is None else "replaced"
    if change != "unchanged":
        _show(file, before, after)
        if not wishes.dry_run:
            _confirm(file, yes=wishes.yes)
            _write(file, after)
    _report(known, file, change, wishes, output)


def found_clients(output: Output, name: str) -> None:
    """Print the files of all clients, and which of them have an entry of that name."""
    rows: list[dict[str, Any]] = []
    for key, known in CLIENTS.items():
        for scope in ("user", "project"):
            if scope == "project" and known.project is None:
                continue
            file = place_of(known, scope)
            try:
                entry = entry_of(_text(file), known.member, name, toml=known.is_toml)
                state = "no file" if not file.exists() else "not set up" if entry is None else "set up"
            except (UnreadableFile, Failure) as error:
                state = f"cannot be read: {error}"
            rows.append({"client": key, "scope": scope, "file": str(file), "state": state})
    if output is Output.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['client']:<12} {row['scope']:<8} {row['state']:<11} {row['file']}")


def place_of(known: KnownClient, scope: Scope, platform: str = sys.platform) -> Path:
    """File of a client. Raises Failure where it has none in that scope."""
    if scope == "project":
        if not known.project:
            raise Failure(f"{known.title} has no file of a project; use --scope user", code=USED_WRONGLY)
        return Path.cwd() / known.project
    own = known.user_macos if platform == "darwin" and known.user_macos is not None else known.user
    return Path.home() / own


def _check(wishes: SetupWishes) -> None:
    check_url(wishes.url)
    if not urlsplit(wishes.url).path.strip("/"):
        raise no_path(wishes.url)
    if _NAME.fullmatch(wishes.name) is None:
        raise Failure(f"--name {wishes.name!r} must be letters, digits, - and _", code=USED_WRONGLY)
    if wishes.key_env is not None and _VARIABLE.fullmatch(wishes.key_env) is None:
        raise Failure(
            "--key-env takes the name of an environment variable, not the key itself: the file holds no secret",
            code=USED_WRONGLY,
        )


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read: {error}") from error


def _shown(known: KnownClient, name: str, entry: dict[str, Any]) -> str:
    text = with_entry("", known.member, name, entry, toml=known.is_toml)
    return text.strip() if known.is_toml else json.dumps(json.loads(text))


def _show(file: Path, before: str, after: str) -> None:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), str(file), str(file), "now", "then", lineterm=""
    )
    print("\n".join(lines), file=sys.stderr)


def _confirm(file: Path, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"{file} is not changed: nobody can be asked here; --yes writes it, --dry-run shows it alone")
    print(f"Write {file}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure(f"{file} is left as it was")


def _write(file: Path, text: str) -> None:
    """Write beside the file and rename, so that a full disk leaves the old one whole. An empty file goes."""
    target = file.resolve()
    beside = target.with_name(f".{target.name}.fairlead")
    try:
        if not text:
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as out:
            out.write(text)
        beside.chmod(mode)
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Failure(f"{file} cannot be written: {error}") from error


def _report(known: KnownClient, file: Path, change: str, wishes: SetupWishes, output: Output) -> None:
    if output is Output.json:
        print(json.dumps({"client": known.title, "file": str(file), "change": change, "written": not wishes.dry_run}))
    elif change == "unchanged":
        print(f"{file} says so already: nothing is changed." if not wishes.undo else f"{file} has no {wishes.name}.")
    elif wishes.dry_run:
        print("Nothing is written (--dry-run).")
    else:
        print(f"{known.title}: {wishes.name} {change} in {file}. Now {known.restart}.")
        if wishes.key_env is not None and not wishes.undo and wishes.key_env not in os.environ:
            print(f"{wishes.key_env} is not set here: set it to the key where {known.title} starts.")
