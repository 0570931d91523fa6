"""Reads API keys from a file, which is checked for changes twice a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fairlead_gateway.file_changes import FileChanges
from fairlead_gateway.identity.key_format import BadKeys, KeyDocument, read

log = logging.getLogger(__name__)

MAX_BYTES: Final = 16 << 20


class KeyFile:
    """`KeySource` of a file. A missing file has no keys; while the file is unreadable, the last keys stay in use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)
        self._was_there = False

    def load(self) -> KeyDocument:
        """Read the keys. Raises BadKeys and OSError, whose messages quote no keys."""
        with self._path.open("rb") as file:
            self._was_there = True
            return read(file.read(MAX_BYTES))

    async def run(self, deliver: Callable[[KeyDocument], None]) -> None:
        async for _ in FileChanges(self._path):
            await self._deliver(deliver)

    async def _deliver(self, deliver: Callable[[KeyDocument], None]) -> None:
        try:
            deliver(await asyncio.to_thread(self.load))
        except FileNotFoundError:
            if self._was_there:  # the file for keys that principals create does not exist before the first key
                log.warning("File %s was deleted: its API keys are revoked", self._path)
            self._was_there = False
            deliver(KeyDocument())
        except (BadKeys, OSError) as error:
            log.error("The API keys in %s cannot be read, and the last ones stay in use: %s", self._path, error)
