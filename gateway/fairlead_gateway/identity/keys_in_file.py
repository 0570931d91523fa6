"""A file of API keys, looked at twice a second. A `KeyPlace`."""

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
    """API keys in a file. A file that is gone holds no keys; one that cannot be read changes nothing until it can."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)
        self._was_there = False

    def load(self) -> KeyDocument:
        """The keys now. Raises BadKeys and OSError, whose messages quote none."""
        with self._path.open("rb") as file:
            self._was_there = True
            return read(file.read(MAX_BYTES))

    async def run(self, tell: Callable[[KeyDocument], None]) -> None:
        async for _ in FileChanges(self._path):
            await self._tell(tell)

    async def _tell(self, tell: Callable[[KeyDocument], None]) -> None:
        try:
            tell(await asyncio.to_thread(self.load))
        except FileNotFoundError:
            if self._was_there:  # that of keys that people make is not, before the first of them
                log.warning("%s is gone: its API keys are revoked", self._path)
            self._was_there = False
            tell(KeyDocument())
        except (BadKeys, OSError) as error:
            log.error("The API keys in %s cannot be read, and stay as they were: %s", self._path, error)
