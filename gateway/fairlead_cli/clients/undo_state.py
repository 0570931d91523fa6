"""State of a client's configuration from before `fairlead client setup`, kept for `--undo` and for its user alone."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from fairlead_api.client_files.edits import Reversal
from fairlead_cli.failure import Failure


@dataclass(frozen=True)
class Earlier:
    """State of an entry before the first change."""

    entry: str | None
    """The entry as it was written; None where there was none."""
    blank: str | None
    """Text of a file that had nothing in it; None where there was no file, or one with content."""
    existed: bool = False
    """Whether there was a file."""
    reversal: Reversal | None = None
    """Takes the changes back as long as what they put in stands as it was written."""

    @classmethod
    def of(cls, file: Path, name: str) -> Earlier | None:
        """State that was kept of an entry; None where none was. Raises Failure."""
        earlier = _entries().get(_key(file, name))
        if not isinstance(earlier, dict):
            return None
        try:
            return msgspec.convert(earlier, cls)
        except msgspec.ValidationError as error:
            raise Failure(f"{state_file()}, which says what --undo restores, cannot be read: {error}") from error

    def keep(self, file: Path, name: str) -> None:
        """Raises Failure."""
        _write({**_entries(), _key(file, name): asdict(self)})

    @staticmethod
    def forget(file: Path, name: str) -> None:
        """Raises Failure."""
        entries = _entries()
        key = _key(file, name)
        if key in entries:
            _write({each: value for each, value in entries.items() if each != key})


def replace_file(target: Path, text: str) -> None:
    """Write beside the file and rename. A new one is its owner's alone. Raises OSError."""
    beside = target.with_name(f".{target.name}.fairlead")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as out:
            out.write(text.encode())
        beside.chmod(mode)
        beside.replace(target)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def state_file() -> Path:
    """By the XDG base directory specification."""
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
        raise Failure(f"{state_file()}, which says what --undo restores, cannot be read: {error}") from error
    return document if isinstance(document, dict) else {}


def _write(entries: dict[str, Any]) -> None:
    file = state_file()
    try:
        if entries:
            replace_file(file, json.dumps(entries, indent=2) + "\n")
        else:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise Failure(
            f"{file}, which says what --undo restores, cannot be written: {error.strerror or error}"
        ) from error
