"""Reads what is held back of servers with `pin: true`, for administrators who ask. Nothing is served from it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from fairlead_api.documents.codec import UnreadableDocument, decode, pins_name
from fairlead_api.documents.pins import Pins
from fairlead_api.meta import ServerKey
from fairlead_gateway.catalog.directory import SUFFIX


class PinsUnreadable(Exception):
    """The document cannot be read now; the message says why."""


class PinReader(Protocol):
    """Where the operator's documents of pins are."""

    async def read(self, key: ServerKey) -> Pins | None:
        """Approved and held-back definitions of a server; None where nothing is pinned. Raises PinsUnreadable."""
        ...


class NoPins:
    """For a gateway whose documents have none."""

    async def read(self, key: ServerKey) -> Pins | None:
        """Implements PinReader."""
        return None


class DirectoryPins:
    """Documents in a directory, beside those that are served."""

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
    """The pins of a server in a document. Raises PinsUnreadable."""
    try:
        document = decode(data)
    except UnreadableDocument as error:
        raise PinsUnreadable(f"what is pinned of {key} cannot be read: {error}") from error
    return document if isinstance(document, Pins) and document.key == key else None
