"""Detects changes of a file by polling it twice a second.

Kubernetes replaces a mounted ConfigMap or Secret by changing a symbolic link, so the target of the link is checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

CHECK_SECONDS: Final = 0.5


class FileChanges:
    """Detects changes of one file between checks; the first check reports a change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last_stamp: object = None

    def check(self) -> bool:
        """Check the file; True if it was changed, replaced or deleted since the last check."""
        previous, self._last_stamp = self._last_stamp, self._stamp()
        return self._last_stamp != previous

    async def __aiter__(self) -> AsyncIterator[None]:
        """Yield at each change, until cancelled."""
        while True:
            if await asyncio.to_thread(self.check):
                yield
            await asyncio.sleep(CHECK_SECONDS)

    def _stamp(self) -> object:
        """Attributes of the file that change with every write; the error number if it cannot be read."""
        try:
            status = self._path.stat()
        except OSError as error:
            return error.errno
        return status.st_mtime_ns, status.st_size, status.st_ino
