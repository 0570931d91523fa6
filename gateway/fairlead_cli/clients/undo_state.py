"""State that `fairlead client setup --undo` restores, in a file that only its user can read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from fairlead_api.client_files.edits import Reversal
from fairlead_cli.failure import Failure
from fairlead_mcp.misread_values import explain_misreading


@dataclass(frozen=True)
class UndoState:
    """State of a client's entry before the first change by `client setup`."""

    entry: str | None
    """The previous entry in the file's syntax; None if there was none."""
    blank: str | None
    """Text of the file if it had no content, such as `{}`; None if there was no file, or it had content."""
    existed: bool = False
    """Whether the file existed."""
    reversal: Reversal | None = None
    """Reverses the changes by `client setup`, as long as the inserted text has not been edited since."""

    @classmethod
    def of(cls, file: Path, name: str) -> UndoState | None:
        """The stored state of an entry; None if there is none. Raises Failure."""
        stored_state = _entries().get(_key(file, name))
        if not isinstance(stored_state, dict):
            return None
        try:
            return msgspec.convert(stored_state, cls)
        except msgspec.ValidationError as error:
            reason = explain_misreading(error, "it")
            raise Failure(f"the state for --undo, {state_file()}, cannot be read: {reason}") from error

    def store(self, file: Path, name: str) -> None:
        """Store the state. Raises Failure."""
        _write({**_entries(), _key(file, name): asdict(self)})

    @staticmethod
    def delete(file: Path, name: str) -> None:
        """Delete the stored state. Raises Failure."""
        entries = _entries()
        key = _key(file, name)
        if key in entries:
            _write({each: value for each, value in entries.items() if each != key})


def replace_file(target: Path, text: str) -> None:
    """Replace a file by a rename; a new file is accessible only to its owner. Raises OSError."""
    temporary = target.with_name(f".{target.name}.fairlead")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as out:
            out.write(text.encode())
        temporary.chmod(mode)
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def state_file() -> Path:
    """File of the stored states, according to the XDG base directory specification."""
    base = os.environ.get("XDG_STATE_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".local/state") / "fairlead" / "clients.json"


def _key(file: Path, name: str) -> str:
    return f"{file.resolve()}#{name}"


def _entries() -> dict[str, Any]:
    try:
        document = json.loads(state_file().read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Failure(f"the state for --undo, {state_file()}, cannot be read: {error}") from error
    return document if isinstance(document, dict) else {}


def _write(entries: dict[str, Any]) -> None:
    file = state_file()
    try:
        if entries:
            replace_file(file, json.dumps(entries, indent=2) + "\n")
        else:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise Failure(f"the state for --undo, {file}, cannot be written: {error.strerror or error}") from error
