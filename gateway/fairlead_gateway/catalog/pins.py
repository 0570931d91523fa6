"""Reads the approved and held-back definitions of servers with `pin: true`, to show them to administrators."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from fairlead_api.documents.codec import UnreadableDocument, decode, pins_name
from fairlead_api.documents.pins import Pins
from fairlead_api.meta import ServerKey
from fairlead_gateway.catalog.directory import SUFFIX


class PinsUnreadable(Exception):
    """Failure to read a document of pins. The message says why."""


class PinReader(Protocol):
    """Reader of the operator's documents of pins."""

    async def read(self, key: ServerKey) -> Pins | None:
        """Approved and held-back definitions of a server; None if the server is not pinned. Raises PinsUnreadable."""
        ...


class NoPins:
    """`PinReader` of a gateway without documents of pins."""

    async def read(self, key: ServerKey) -> Pins | None:
        """Implements PinReader."""
        return None


class DirectoryPins:
    """`PinReader` of a directory of documents."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, key: ServerKey) -> Pins | None:
        """Implements PinReader."""
        file = self._path / f"{pins_name(key)}{SUFFIX}"
        try:
            data = await asyncio.to_thread(file.read_bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PinsUnreadable(f"{file}: {error.strerror}") from error
        return pins_in(data, key)


def pins_in(data: bytes, key: ServerKey) -> Pins | None:
    """Decode the pins of a server; None if the document is about something else. Raises PinsUnreadable."""
    try:
        document = decode(data)
    except UnreadableDocument as error:
        raise PinsUnreadable(f"the pins of server {key} cannot be read: {error}") from error
    return document if isinstance(document, Pins) and document.key == key else None
