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
        self._descriptor = -1
        """File descriptor; -1 while the file is closed."""
        self._torn = False
        """Whether the last line may be incomplete, so that the next write has to begin with a line feed."""

    def write(self, lines: bytes) -> None:
        if self._descriptor >= 0 and self._rotate(len(lines)):
            self.close()
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, MODE)
        view = memoryview(b"\n" + lines if self._torn else lines)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
                self._torn = True
        except OSError:
            self.close()
            raise
        self._torn = False

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _rotate(self, size: int) -> bool:
        """Rename the file if it is full. Returns whether the file has to be reopened before `size` more bytes are
        written."""
        open_file = os.fstat(self._descriptor)
        try:
            named_file = self._path.stat()
        except FileNotFoundError:
            return True
        if (named_file.st_dev, named_file.st_ino) != (open_file.st_dev, open_file.st_ino):
            return True
        if self._max_bytes and open_file.st_size and open_file.st_size + size > self._max_bytes:
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            return True
        return False
