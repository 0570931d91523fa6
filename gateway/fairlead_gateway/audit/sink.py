"""Outputs of the audit log: standard output, or a file that may be moved away at any time.

Runs in the log's thread: everything here may block.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

MODE: Final = 0o640


class Sink(Protocol):
    """Takes whole lines."""

    def write(self, lines: bytes) -> None:
        """Raises OSError; what part of the lines is there then, nobody knows."""
        ...

    def close(self) -> None: ...


class LogOutput:
    """Standard output."""

    def write(self, lines: bytes) -> None:
        view = memoryview(lines)
        while view:
            view = view[os.write(1, view) :]

    def close(self) -> None:
        """It is the process's own."""


class File:
    """A file, opened when first written to, and again when it is not there any more under its name: that is how it is
    rotated from outside, without a signal. With `most` bytes it is renamed to `….1` when it is full, in place of the
    one before.
    """

    def __init__(self, path: Path, most: int = 0) -> None:
        self._path = path
        self._most = most
        self._number = -1
        self._torn = False
        """Whether a line may be cut off, that the next one shall not go on in."""

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
        ours = os.fstat(self._number)
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return True
        if (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino):
            return True
        if self._most and ours.st_size and ours.st_size + coming > self._most:
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            return True
        return False
