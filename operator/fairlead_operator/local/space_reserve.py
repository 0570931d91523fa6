"""Reserves disk space for one file, so that it can be written when the disk is full."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

MIN_BYTES: Final = 8_192
"""Minimum size of the reserve: two blocks of most file systems, one for the file and one for its replacement."""
MAX_BYTES: Final = 65_536
"""Maximum size of the reserve."""
FREE_SPACE_DIVISOR: Final = 8
"""The reserve takes this fraction (1/8) of the free space, within its minimum and maximum."""
_BLOCK: Final = bytes(4096)
_DISK_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class SpaceReserve:
    """A file of zeros, which is deleted to make room for another file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0

    def __repr__(self) -> str:
        return f"<SpaceReserve {self._path} bytes={self._size}>"

    def allocate(self) -> None:
        """Allocate the minimum size. Raises OSError if the disk has less space."""
        self._fill(MIN_BYTES)

    def grow(self) -> None:
        """Allocate more space if the disk has more now. Never raises."""
        if self._size < MAX_BYTES:
            with suppress(OSError):
                self._fill(self._target_size)

    def use(self, write: Callable[[], None]) -> None:
        """Call `write`; if the disk is full, release the reserve and call it again. Raises OSError."""
        try:
            write()
        except OSError as error:
            if error.errno not in _DISK_FULL_ERRNOS or not self._size:
                raise
            size, self._size = self._size, 0
            self._path.unlink(missing_ok=True)
            try:
                write()
            finally:
                with suppress(OSError):
                    self._fill(size)

    @property
    def _target_size(self) -> int:
        """Size in bytes that suits the present free space."""
        disk = os.statvfs(self._path.parent)
        return max(MIN_BYTES, min(MAX_BYTES, disk.f_bavail * disk.f_frsize // FREE_SPACE_DIVISOR))

    def _fill(self, size: int) -> None:
        """Write blocks until the file has `size` bytes. Raises OSError."""
        with self._path.open("ab", buffering=0) as file:
            self._size = file.tell()
            while self._size < size:
                self._size += file.write(_BLOCK) or 0
