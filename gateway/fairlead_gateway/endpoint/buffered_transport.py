"""A transport that hands on a piece at a time, for TLS: its own would encrypt all that is written at once and keep it
where nobody counts it, so that a client that does not read is never noticed.

Put by `lane` in front of transports with TLS. What waits here is part of `get_write_buffer_size`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

PIECE: Final = 64 << 10
"""Bytes that are encrypted at once."""
Buffer: TypeAlias = bytes | bytearray | memoryview


class BufferedTransport(asyncio.Transport):
    """Transport that counts the bytes which wait in it. `pause` and `resume` are called as those of a protocol are,
    when more than `high` bytes wait and when none do; `clogged` and `cleared` are to be called when the transport
    `below` says so.
    """

    def __init__(
        self, below: asyncio.Transport, pause: Callable[[], None], resume: Callable[[], None], high: int
    ) -> None:
        super().__init__()
        self._below = below
        self._pause = pause
        self._resume = resume
        self._high = high
        self._waiting: deque[memoryview] = deque()
        self._size = 0
        self._clogged = False
        self._paused = False
        self._closing = False
        self._ended = False

    def write(self, data: Buffer) -> None:
        self._add(data)
        self._go_on()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        for data in list_of_data:
            self._add(data)
        self._go_on()

    def get_write_buffer_size(self) -> int:
        return self._size + self._below.get_write_buffer_size()

    def clogged(self) -> None:
        """The transport below takes no more."""
        self._clogged = True

    def cleared(self) -> None:
        """It takes more."""
        self._clogged = False
        self._go_on()

    def close(self) -> None:
        self._closing = True
        self._go_on()

    def is_closing(self) -> bool:
        return self._closing or self._below.is_closing()

    def abort(self) -> None:
        self._closing = True
        self._waiting.clear()
        self._size = 0
        self._below.abort()

    def can_write_eof(self) -> bool:
        return self._below.can_write_eof()

    def write_eof(self) -> None:
        self._ended = True
        self._go_on()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    # Inside

    def _add(self, data: Buffer) -> None:
        if data and not self._closing:
            self._waiting.append(memoryview(data))
            self._size += len(data)

    def _go_on(self) -> None:
        while self._waiting and not self._clogged:
            first = self._waiting.popleft()
            if len(first) > PIECE:
                self._waiting.appendleft(first[PIECE:])
                first = first[:PIECE]
            self._size -= len(first)
            self._below.write(first)
        if not self._waiting:
            if self._ended and not self._closing:
                self._ended = False
                self._below.write_eof()
            if self._closing and not self._below.is_closing():
                self._below.close()
        self._tell()

    def _tell(self) -> None:
        if not self._paused and (self._clogged or self._size > self._high):
            self._paused = True
            self._pause()
        elif self._paused and not self._clogged and not self._size:
            self._paused = False
            self._resume()
