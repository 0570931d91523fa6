"""Outputs of the audit log: standard output, or a file that may be moved away at any time.

All functions may block; they run in the audit log's thread.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

MODE: Final = 0o640
"""Permissions of a new file."""


class Sink(Protocol):
    """Output of whole lines."""

    def write(self, lines: bytes) -> None:
        """Write lines. Raises OSError, after which a part of the lines may have been written."""
        ...

    def close(self) -> None: ...


class LogOutput:
    """Standard output."""

    def write(self, lines: bytes) -> None:
        view = memoryview(lines)
        while view:
            view = view[os.write(1, view) :]

    def close(self) -> None:
        """Leave standard output open."""


class File:
    """A file that is opened at the first write, and opened again when its name refers to another file, so that programs
    that rotate logs need not send a signal.

    With `max_bytes` above 0, a file that would exceed `max_bytes` bytes is renamed to `….1`, replacing the previous
    file of that name.
    """

    def __init__(self, path: Path, max_bytes: int = 0) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._number = -1
        """File descriptor; -1 while the file is closed."""
        self._torn = False
        """Whether the last line may be incomplete, so that the next write has to begin with a line feed."""

    def write(self, lines: bytes) -> None:
        if self._number >= 0 and self._rotate(len(lines)):
            self.close()
        if self._number < 0:
            self._number = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, MODE)
        view = memoryview(b"\n" + lines if self._torn else lines)
        try:
            while view:
                view = view[os.write(self._number, view) :]
                self._torn = True
        except OSError:
            self.close()
            raise
        self._torn = False

    def close(self) -> None:
        if self._number >= 0:
            number, self._number = self._number, -1
            os.close(number)

    def _rotate(self, coming: int) -> bool:
        """Rename the file if it is full. Returns whether the file has to be reopened before `coming` more bytes are
        written."""
        opened = os.fstat(self._number)
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return True
        if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
            return True
        if self._max_bytes and opened.st_size and opened.st_size + coming > self._max_bytes:
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            return True
        return False
