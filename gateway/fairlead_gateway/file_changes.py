"""Tells when a file was replaced or written, by looking at it twice a second.

A mounted ConfigMap or Secret is swapped by a symbolic link: what the link leads to is looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

LOOK_SECONDS: Final = 0.5


class FileChanges:
    """Changes of one file since the last look, the first of which finds one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: object = None

    def look(self) -> bool:
        """Whether the file is not as it was at the last look, or is gone."""
        before, self._seen = self._seen, self._stamp()
        return self._seen != before

    async def __aiter__(self) -> AsyncIterator[None]:
        """One element for each change, until cancelled."""
        while True:
            if await asyncio.to_thread(self.look):
                yield
            await asyncio.sleep(LOOK_SECONDS)

    def _stamp(self) -> object:
        """Attributes of the file that change with every write."""
        try:
            seen = self._path.stat()
        except OSError as error:
            return error.errno
        return seen.st_mtime_ns, seen.st_size, seen.st_ino
