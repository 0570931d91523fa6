"""Space on a disk that is kept for one file, so that it can be written when the disk is full."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

LEAST_BYTES: Final = 8_192
"""Two blocks of most file systems: the file that space is kept for has one, and is replaced by another."""
MOST_BYTES: Final = 65_536
SHARE: Final = 8
"""The reserve takes one part in `SHARE` of the free space, within `MOST_BYTES`."""
_BLOCK: Final = bytes(4096)
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class SpaceReserve:
    """A file of zeros that is deleted to make room for another file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0

    def __repr__(self) -> str:
        return f"<SpaceReserve {self._path} bytes={self._size}>"

    def claim(self) -> None:
        """Take up the least space. Raises OSError if there is less."""
        self._fill(LEAST_BYTES)

    def grow(self) -> None:
        """Take up more space if there is more now. Never raises."""
        if self._size < MOST_BYTES:
            with suppress(OSError):
                self._fill(self._wanted)

    def use(self, write: Callable[[], None]) -> None:
        """Call `write`; where the disk is full, call it again with the space of the reserve. Raises OSError."""
        try:
            write()
        except OSError as error:
            if error.errno not in _FULL or not self._size:
                raise
            size, self._size = self._size, 0
            self._path.unlink(missing_ok=True)
            try:
                write()
            finally:
                with suppress(OSError):
                    self._fill(size)

    @property
    def _wanted(self) -> int:
        """Size for the present free space."""
        disk = os.statvfs(self._path.parent)
        return max(LEAST_BYTES, min(MOST_BYTES, disk.f_bavail * disk.f_frsize // SHARE))

    def _fill(self, size: int) -> None:
        """Write blocks until the file has `size` bytes. Raises OSError."""
        with self._path.open("ab", buffering=0) as file:
            self._size = file.tell()
            while self._size < size:
                self._size += file.write(_BLOCK) or 0
