"""`fairlead client setup`: shows what changes in a client's configuration, asks, and writes it."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from fairlead_api.client_files.edits import (
    Edit,
    Form,
    Reversal,
    UnreadableFile,
    edit_of,
    entry_of,
    raw_entry,
    reversal_of,
    with_entry,
)
from fairlead_api.client_files.known_clients import CLIENTS, KnownClient, Scope
from fairlead_cli.clients.options import SetupWishes
from fairlead_cli.clients.undo_state import Earlier, replace_file
from fairlead_cli.connecting import check_url, no_path
from fairlead_cli.failure import USED_WRONGLY, Failure
from fairlead_cli.output import Output, remark
from fairlead_cli.proxies import is_here

CONNECT_SECONDS: Final = 1.0
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SECRET: Final = re.compile(
    r"""((?:authorization|[\w-]*(?:key|token|secret|password))["']?\s*[:=]\s*).+""", re.IGNORECASE
)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def run_setup(client: str, wishes: SetupWishes, output: Output) -> None:
    """Change one client's file. Raises Failure."""
    known_client = _client(client)
    _check(known_client, wishes)
    setup = _Setup(known_client, wishes)
    change = setup.change()
    if change is None:
        _report(known_client, setup.file, "unchanged", wishes, output)
        return
    _show(setup.file, setup.before, change.edit, secret=wishes.undo)
    if not wishes.dry_run:
        _confirm(setup.file, yes=wishes.yes)
        setup.make(change)
    _report(known_client, setup.file, change.word, wishes, output)
    if not wishes.undo and _is_silent_here(wishes.url):
        text = f"nothing answers at {wishes.url} now: start a gateway with `fairlead up`, or correct --url"
        remark("client setup", text)


class _Change(NamedTuple):
    """Change of a client's file."""

    word: str
    """added, replaced, removed or restored."""
    edit: Edit
    after: str | None
    """The whole file; None: there is none any more."""
    replaced: str | None
    """The entry that was there before, as it is written."""


class _Setup:
    """The file of a client, and what is wished for the entry of the gateway in it."""

    def __init__(self, client: KnownClient, wishes: SetupWishes) -> None:
        self.file = place_of(client, wishes.scope.value)
        self.before = _text(self.file)
        self._client = client
        self._wishes = wishes
        self._existed = self.file.exists()
        self._earlier = Earlier.of(self.file, wishes.name)
        self._entry = None if wishes.undo else _entry(client, wishes)

    def change(self) -> _Change | None:
        """The change that is needed; None: the file says so already. Raises Failure for a file that is left alone."""
        client, name = self._client, self._wishes.name
        earlier = self._earlier if self._wishes.undo else None
        wanted = self._entry if earlier is None else earlier.entry
        try:
            there = entry_of(self.before, client.member, name, client.form)
            if there == self._entry or (self._wishes.undo and there is None):
                return None
            edit = self._reversing(earlier) or edit_of(self.before, client.member, name, wanted, client.form)
            replaced = raw_entry(self.before, client.member, name, client.form)
        except UnreadableFile as error:
            raise self._left_alone(error) from error
        after: str | None = edit.apply(self.before)
        if self._wishes.undo:
            if earlier is not None and wanted is None and not _has_content(after or "", client.form):
                after = earlier.blank if earlier.blank is not None or not earlier.existed else after
            return _Change("removed" if wanted is None else "restored", edit, after, replaced)
        return _Change("added" if there is None else "replaced", edit, after, replaced)

    def make(self, change: _Change) -> None:
        """Write the file, and keep what undoes it. Raises Failure."""
        if not self._wishes.undo:
            self._undo_state(change).keep(self.file, self._wishes.name)
        _write(self.file, change.after)
        if self._wishes.undo:
            Earlier.forget(self.file, self._wishes.name)

    def _reversing(self, earlier: Earlier | None) -> Edit | None:
        """The edit that gives the file as it was, where what was put in still stands there."""
        if earlier is None or earlier.reversal is None:
            return None
        return reversal_of(self.before, self._client.member, self._wishes.name, earlier.reversal, self._client.form)

    def _undo_state(self, change: _Change) -> Earlier:
        """State that undoes this change, and those before it."""
        earlier = self._earlier
        if earlier is None:
            blank = self.before if self._existed and not _has_content(self.before, self._client.form) else None
            return Earlier(change.replaced, blank, self._existed, Reversal.of(self.before, change.edit))
        reversal = None if earlier.reversal is None else earlier.reversal.behind(self.before, change.edit)
        return replace(earlier, reversal=reversal)

    def _left_alone(self, error: UnreadableFile) -> Failure:
        name = self._wishes.name
        advice = "take out by hand" if self._entry is None else "put in by hand"
        shown = f"{self._client.member}.{name}" if self._entry is None else _entry_text(self._client, name, self._entry)
        return Failure(f"{self.file} is left as it is: {error}; {advice}: {shown}", code=USED_WRONGLY)


def _is_silent_here(url: str) -> bool:
    """Whether a URL leads to this machine, and nobody takes connections there."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not is_here(host):
        return False
    try:
        with socket.create_connection((host, parts.port or (443 if parts.scheme == "https" else 80)), CONNECT_SECONDS):
            return False
    except OSError:
        return True


def _client(name: str) -> KnownClient:
    """The client of a name, in capitals or not. Raises Failure, which names those that were probably meant."""
    known_client = CLIENTS.get(name.lower())
    if known_client is None:
        near = [each for each in CLIENTS if name.lower() in each] or get_close_matches(name.lower(), CLIENTS, n=1)
        meant = f" Did you mean {' or '.join(near)}?" if name and near else ""
        raise Failure(f"there is no client {name!r}.{meant} There are {', '.join(CLIENTS)}", code=USED_WRONGLY)
    return known_client


def _entry(client: KnownClient, wishes: SetupWishes) -> dict[str, Any]:
    key_file = None if wishes.key_file is None else str(wishes.key_file.expanduser().absolute())
    return client.entry_for(wishes.url, wishes.key_env, key_file, own_program())


def own_program() -> tuple[str, ...]:
    """The command line of this `fairlead`, for a client that has another PATH than a terminal."""
    beside = Path(sys.executable).with_name("fairlead")
    return (str(beside),) if beside.exists() else (sys.executable, "-m", "fairlead_cli")


def _has_content(text: str, form: Form) -> bool:
    """Whether a configuration says anything, in comments too."""
    return bool(text.strip()) and not (form == "json" and re.fullmatch(r"\s*\{\s*\}\s*", text))


def found_clients(output: Output, name: str) -> None:
    """Print the files of all clients, and which of them have an entry of that name."""
    rows: list[dict[str, Any]] = []
    for key, client in CLIENTS.items():
        for scope in ("user", "project"):
            if scope == "project" and client.project is None:
                continue
            file = place_of(client, scope)
            try:
                entry = entry_of(_text(file), client.member, name, client.form)
                state = "no file" if not file.exists() else "not set up" if entry is None else "set up"
            except (UnreadableFile, Failure) as error:
                state = f"cannot be read: {error}"
            rows.append({"client": key, "scope": scope, "file": str(file), "state": state})
    if output is Output.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['client']:<14} {row['scope']:<8} {row['state']:<11} {row['file']}")


def place_of(client: KnownClient, scope: Scope, platform: str = sys.platform) -> Path:
    """File of a client. Raises Failure where it has none in that scope."""
    if scope == "project":
        if not client.project:
            raise Failure(f"{client.title} has no file of a project; use --scope user", code=USED_WRONGLY)
        return _with_comments(Path.cwd() / client.project)
    own = client.user_macos if platform == "darwin" and client.user_macos is not None else client.user
    return _with_comments(Path.home() / own)


def _with_comments(file: Path) -> Path:
    """The file, or the one beside it with comments where there is only that, as opencode reads either."""
    other = file.with_suffix(".jsonc")
    return other if file.suffix == ".json" and other.exists() and not file.exists() else file


def _check(client: KnownClient, wishes: SetupWishes) -> None:
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
    if wishes.key_env is not None and wishes.key_file is not None:
        raise Failure("give either --key-env or --key-file", code=USED_WRONGLY)
    if wishes.key_env is not None and not client.reads_variables:
        message = (
            f"{client.title} hands on no environment variable: write the key to a file, and name it with --key-file"
        )
        raise Failure(message, code=USED_WRONGLY)
    if wishes.key_file is not None and not wishes.undo and not wishes.key_file.expanduser().is_file():
        raise Failure(f"--key-file: there is no file {wishes.key_file}", code=USED_WRONGLY)


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")  # with its own ends of lines
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read: {error}", code=USED_WRONGLY) from error


def _entry_text(client: KnownClient, name: str, entry: dict[str, Any]) -> str:
    text = with_entry("", client.member, name, entry, client.form)
    return json.dumps(json.loads(text)) if client.form == "json" else text.strip()


def _show(file: Path, before: str, edit: Edit, *, secret: bool) -> None:
    """Print what is taken out and what is put in, and nothing around it: other entries may hold secrets. `secret`: so
    may what is put in.
    """
    line = before.count("\n", 0, edit.start) + 1
    lines = [f"--- {file}", f"+++ {file}", f"@@ line {line} @@"]
    lines += [f"-{hide_secret(text)}" for text in before[edit.start : edit.end].splitlines() if text.strip(" ,")]
    lines += [f"+{hide_secret(text) if secret else text}" for text in edit.text.splitlines() if text.strip(" ,")]
    print("\n".join(lines), file=sys.stderr)


def hide_secret(line: str) -> str:
    """A line of somebody's entry without the value of what may be a secret."""
    return _SECRET.sub(lambda match: f"{match[1]}…", line)


def _confirm(file: Path, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"{file} is not changed: nobody can be asked here; --yes writes it, --dry-run shows it alone")
    print(f"Write {file}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure(f"{file} is left as it was")


def _write(file: Path, text: str | None) -> None:
    """Write beside the file and rename, so that a full disk leaves the old one whole. With None the file goes."""
    target = file.resolve()
    try:
        if text is None:
            target.unlink(missing_ok=True)
        else:
            replace_file(target, text)
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror or error}") from error


def _report(client: KnownClient, file: Path, change: str, wishes: SetupWishes, output: Output) -> None:
    if output is Output.json:
        print(json.dumps({"client": client.title, "file": str(file), "change": change, "written": not wishes.dry_run}))
    elif change == "unchanged":
        print(f"{file} says so already: nothing is changed." if not wishes.undo else f"{file} has no {wishes.name}.")
    elif wishes.dry_run:
        print("Nothing is written (--dry-run).")
    else:
        now = f"If {client.title} runs, restart it" if wishes.undo else f"Now {client.restart}"
        print(f"{client.title}: {wishes.name} {change} in {file}. {now}.")
        if wishes.key_env is not None and not wishes.undo and wishes.key_env not in os.environ:
            print(f"{wishes.key_env} is not set here: set it to the key where {client.title} starts.")
