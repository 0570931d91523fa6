"""`fairlead client setup`: shows the change of a client's configuration, asks for confirmation, and writes it."""

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
    MalformedFile,
    Reversal,
    UnreadableFile,
    edit_of,
    entry_of,
    raw_entry,
    reversal_of,
    with_entry,
)
from fairlead_api.client_files.known_clients import CLIENTS, KnownClient, Scope
from fairlead_api.client_files.own_program import own_program
from fairlead_cli.clients.entry_mask import EntryMask, hide_secret
from fairlead_cli.clients.options import SetupOptions
from fairlead_cli.clients.undo_state import UndoState, replace_file
from fairlead_cli.connecting import check_url, no_path_failure
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import Output, remark
from fairlead_cli.proxies import is_this_machine
from fairlead_cli.read_only import refuse_read_only
from fairlead_cli.wording import up_command

CONNECT_SECONDS: Final = 1.0
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def run_setup(client: str, options: SetupOptions, output: Output) -> None:
    """Add the gateway to a client's file, or remove it. Raises Failure."""
    known_client = _client(client)
    _check(known_client, options)
    setup = _Setup(known_client, options)
    change = setup.change()
    if change is None:
        _report(known_client, setup.file, "unchanged", options, output)
        return
    setup.show(change)
    if not options.dry_run:
        refuse_read_only(setup.file)
        _confirm(setup.file, yes=options.yes)
        setup.make(change)
    reason = None if options.undo else _reason_not_started(known_client, setup.old_text, options.name)
    _report(known_client, setup.file, change.word, options, output, will_start=reason is None)
    if reason is not None:
        remark("client setup", f"{known_client.title} will not start {options.name} yet: {reason}")
    if not options.undo and _lacks_local_listener(options.url):
        text = f"no gateway listens at {options.url} yet: start one with {up_command(options.url)}, or correct --url"
        remark("client setup", text)


class _Change(NamedTuple):
    """Change of a client's file."""

    word: str
    """added, replaced, removed or restored."""
    edit: Edit
    new_text: str | None
    """The whole new text of the file; None deletes the file."""
    old_entry: str | None
    """The previous entry, in the file's syntax; None if there was none."""


class _Setup:
    """A client's file, and the requested entry of the gateway in it."""

    def __init__(self, client: KnownClient, options: SetupOptions) -> None:
        self.file = configuration_file(client, options.scope.value)
        self.old_text = _text(self.file)
        self._client = client
        self._options = options
        self._file_existed = self.file.exists()
        self._stored_state = UndoState.of(self.file, options.name)
        self._entry = None if options.undo else _entry(client, options)

    def change(self) -> _Change | None:
        """The change to make; None if the file needs no change. Raises Failure if the file cannot be edited."""
        client, name = self._client, self._options.name
        stored_state = self._stored_state if self._options.undo else None
        target = self._entry if stored_state is None else stored_state.entry
        try:
            current_entry = entry_of(self.old_text, client.member, name, client.form)
            if current_entry == self._entry or (self._options.undo and current_entry is None):
                return None
            edit = self._reverse(stored_state) or edit_of(self.old_text, client.member, name, target, client.form)
            old_entry = raw_entry(self.old_text, client.member, name, client.form)
        except UnreadableFile as error:
            raise self._refuse(error) from error
        new_text: str | None = edit.apply(self.old_text)
        if self._options.undo:
            if stored_state is not None and target is None and not _has_content(new_text or "", client.form):
                new_text = (
                    stored_state.blank if stored_state.blank is not None or not stored_state.existed else new_text
                )
            return _Change("removed" if target is None else "restored", edit, new_text, old_entry)
        return _Change("added" if current_entry is None else "replaced", edit, new_text, old_entry)

    def show(self, change: _Change) -> None:
        """Print the removed and added lines, without the secrets of an entry that is replaced, removed or restored."""
        client, name = self._client, self._options.name
        entries = [entry_of(self.old_text, client.member, name, client.form)]
        if self._options.undo and change.new_text is not None:
            entries.append(entry_of(change.new_text, client.member, name, client.form))
        _show(self.file, self.old_text, change.edit, EntryMask(entries), restores=self._options.undo)

    def make(self, change: _Change) -> None:
        """Write the file, and store what `--undo` needs. Raises Failure."""
        if not self._options.undo:
            self._undo_state(change).store(self.file, self._options.name)
        _write(self.file, change.new_text)
        if self._options.undo:
            UndoState.delete(self.file, self._options.name)

    def _reverse(self, stored_state: UndoState | None) -> Edit | None:
        """The edit that restores the original text; None if somebody has changed the text that `setup` had inserted."""
        if stored_state is None or stored_state.reversal is None:
            return None
        return reversal_of(
            self.old_text, self._client.member, self._options.name, stored_state.reversal, self._client.form
        )

    def _undo_state(self, change: _Change) -> UndoState:
        """State from which `--undo` reverses this change and all earlier changes."""
        stored_state = self._stored_state
        if stored_state is None:
            blank = self.old_text if self._file_existed and not _has_content(self.old_text, self._client.form) else None
            return UndoState(change.old_entry, blank, self._file_existed, Reversal.of(self.old_text, change.edit))
        reversal = None if stored_state.reversal is None else stored_state.reversal.extend(self.old_text, change.edit)
        return replace(stored_state, reversal=reversal)

    def _has_entry(self) -> bool:
        try:
            return entry_of(self.old_text, self._client.member, self._options.name, self._client.form) is not None
        except UnreadableFile:
            return False

    def _refuse(self, error: UnreadableFile) -> Failure:
        if isinstance(error, MalformedFile):
            message = f"{self.file} is not changed: {error}; correct the file, then run the command again"
            return Failure(message, code=USAGE_ERROR)
        name = self._options.name
        path = f"{self._client.member}.{name}"
        action = "remove this by hand" if self._entry is None else "add this by hand"
        if self._entry is not None and self._has_entry():
            action = f"replace {path} by hand with this"  # a name twice would make the whole file unreadable
        elif self._entry is not None and error.replaced:
            action = f"replace {error.replaced} by hand with this"
        instruction = path if self._entry is None else _entry_text(self._client, name, self._entry)
        return Failure(f"{self.file} is not changed: {error}; {action}: {instruction}", code=USAGE_ERROR)


def _reason_not_started(client: KnownClient, text: str, name: str) -> str | None:
    """Reason in the client's file why the client does not start a server, with the remedy; None if it starts it."""
    if client.chosen_by is None:
        return None
    allowed_names, excluded_names = (
        entry_of(text, client.chosen_by, key, client.form) for key in ("allowed", "excluded")
    )
    if isinstance(allowed_names, list) and name not in allowed_names:
        return f"add it to {client.chosen_by}.allowed in the file"
    if isinstance(excluded_names, list) and name in excluded_names:
        return f"remove it from {client.chosen_by}.excluded in the file"
    return None


def _lacks_local_listener(url: str) -> bool:
    """Whether a URL points to this machine and no process accepts connections there."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not is_this_machine(host):
        return False
    try:
        with socket.create_connection((host, parts.port or (443 if parts.scheme == "https" else 80)), CONNECT_SECONDS):
            return False
    except OSError:
        return True


def _client(name: str) -> KnownClient:
    """The client of that name, in any case. Raises Failure that suggests similar names."""
    known_client = CLIENTS.get(name.lower())
    if known_client is None:
        similar_names = [each for each in CLIENTS if name.lower() in each] or get_close_matches(
            name.lower(), CLIENTS, n=1
        )
        suggestion = f" Did you mean {' or '.join(similar_names)}?" if name and similar_names else ""
        raise Failure(
            f"{name!r} is not a supported client.{suggestion} Clients: {', '.join(CLIENTS)}", code=USAGE_ERROR
        )
    return known_client


def _entry(client: KnownClient, options: SetupOptions) -> dict[str, Any]:
    key_file = None if options.key_file is None else str(options.key_file.expanduser().absolute())
    return client.entry_for(options.url, options.key_env, key_file, own_program())


def _has_content(text: str, form: Form) -> bool:
    """Whether a configuration has any content; comments count."""
    return bool(text.strip()) and not (form == "json" and re.fullmatch(r"\s*\{\s*\}\s*", text))


def print_clients(output: Output, name: str) -> None:
    """Print the files of all supported clients, and whether each has an entry of that name."""
    rows: list[dict[str, Any]] = []
    for key, client in CLIENTS.items():
        for scope in ("user", "project"):
            if scope == "project" and client.project is None:
                continue
            file = configuration_file(client, scope)
            try:
                entry = entry_of(_text(file), client.member, name, client.form)
                state = "no file" if not file.exists() else "not set up" if entry is None else "set up"
            except (UnreadableFile, Failure) as error:
                state = f"cannot be read: {str(error).removeprefix(f'{file} cannot be read: ')}"
            rows.append({"client": key, "scope": scope, "file": str(file), "state": state})
    if output is Output.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['client']:<14} {row['scope']:<8} {row['state']:<11} {row['file']}")


def configuration_file(client: KnownClient, scope: Scope, platform: str = sys.platform) -> Path:
    """The client's file in a scope. Raises Failure if the client has no file in that scope."""
    if scope == "project":
        if not client.project:
            raise Failure(f"{client.title} has no project file; use --scope user", code=USAGE_ERROR)
        return _with_comments(Path.cwd() / client.project)
    relative = client.user_macos if platform == "darwin" and client.user_macos is not None else client.user
    return _with_comments(Path.home() / relative)


def _with_comments(file: Path) -> Path:
    """The file, or its `.jsonc` variant if only that exists: opencode reads both."""
    other = file.with_suffix(".jsonc")
    return other if file.suffix == ".json" and other.exists() and not file.exists() else file


def _check(client: KnownClient, options: SetupOptions) -> None:
    check_url(options.url)
    if not urlsplit(options.url).path.strip("/"):
        raise no_path_failure(options.url)
    if _NAME.fullmatch(options.name) is None:
        raise Failure(f"--name {options.name!r} must be 1 to 64 letters, digits, - and _", code=USAGE_ERROR)
    if options.key_env is not None and _VARIABLE.fullmatch(options.key_env) is None:
        raise Failure(
            "--key-env takes the name of an environment variable, not the key: the file must not contain secrets",
            code=USAGE_ERROR,
        )
    if options.key_env is not None and options.key_file is not None:
        raise Failure("give either --key-env or --key-file, not both", code=USAGE_ERROR)
    if options.key_env is not None and not client.reads_variables:
        message = f"{client.title} does not expand environment variables: write the key to a file and pass --key-file"
        raise Failure(message, code=USAGE_ERROR)
    if options.key_file is not None and not options.undo and not options.key_file.expanduser().is_file():
        raise Failure(f"--key-file: {options.key_file} is not a file", code=USAGE_ERROR)


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")  # keeps CRLF
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else f"it is not UTF-8 text: {error}"
        raise Failure(f"{file} cannot be read: {reason}", code=USAGE_ERROR) from error


def _entry_text(client: KnownClient, name: str, entry: dict[str, Any]) -> str:
    text = with_entry("", client.member, name, entry, client.form)
    return json.dumps(json.loads(text)) if client.form == "json" else text.strip()


def _show(file: Path, old_text: str, edit: Edit, mask: EntryMask, *, restores: bool) -> None:
    """Print the removed and added lines, without context: other entries may hold secrets. `restores` also masks the
    added lines.
    """
    line = old_text.count("\n", 0, edit.start) + 1
    lines = [f"--- {file}", f"+++ {file}", f"@@ line {line} @@"]
    removed_text = mask.text(old_text[edit.start : edit.end])
    lines += [f"-{hide_secret(text)}" for text in removed_text.splitlines() if text.strip(" ,")]
    added_text = mask.text(edit.text) if restores else edit.text
    lines += [f"+{hide_secret(text) if restores else text}" for text in added_text.splitlines() if text.strip(" ,")]
    print("\n".join(lines), file=sys.stderr)


def _confirm(file: Path, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"{file} is not changed: standard input is not a terminal; pass --yes to write it, or --dry-run")
    print(f"Write {file}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure(f"{file} is not changed, as you did not confirm")


def _write(file: Path, text: str | None) -> None:
    """Replace the file by a rename, so that a full disk leaves the old text. None deletes the file."""
    target = file.resolve()
    try:
        if text is None:
            target.unlink(missing_ok=True)
        else:
            replace_file(target, text)
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror or error}") from error


def _report(
    client: KnownClient, file: Path, change: str, options: SetupOptions, output: Output, *, will_start: bool = True
) -> None:
    if output is Output.json:
        print(json.dumps({"client": client.title, "file": str(file), "change": change, "written": not options.dry_run}))
    elif change == "unchanged":
        print(
            f"{file} already has this entry; nothing is changed."
            if not options.undo
            else f"{file} has no entry {options.name}."
        )
    elif options.dry_run:
        print("Nothing is written (--dry-run).")
    else:
        now = (
            f" If {client.title} runs, restart it." if options.undo else f" Now {client.restart}." if will_start else ""
        )
        print(f"{client.title}: {options.name} {change} in {file}.{now}")
        if options.key_env is not None and not options.undo and options.key_env not in os.environ:
            print(
                f"{options.key_env} is not set in this shell: set it to the key in the environment in which "
                f"{client.title} starts."
            )
