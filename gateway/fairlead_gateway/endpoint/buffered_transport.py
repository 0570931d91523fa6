"""Write buffer in front of asyncio's TLS transport, to notice when a client does not read.

The TLS transport encrypts all data at once, and does not count the encrypted data in `get_write_buffer_size`, so
writing would never pause. This buffer passes data on in pieces while the TLS transport can send, and counts the
remaining data.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

PIECE: Final = 64 << 10
"""Maximum number of bytes that are passed to the TLS transport, and encrypted, at once."""
Buffer: TypeAlias = bytes | bytearray | memoryview


class BufferedTransport(asyncio.Transport):
    """Transport with a write buffer on top of the transport `below`.

    `pause` is called when more than `high` bytes are buffered and `resume` when the buffer is empty, like
    `pause_writing` and `resume_writing` of an asyncio protocol. The protocol of `below` has to call `on_below_paused`
    and `on_below_resumed` in its own `pause_writing` and `resume_writing`.
    """

    def __init__(
        self, below: asyncio.Transport, pause: Callable[[], None], resume: Callable[[], None], high: int
    ) -> None:
        super().__init__()
        self._below = below
        self._pause = pause
        self._resume = resume
        self._high = high
        self._buffer: deque[memoryview] = deque()
        self._size = 0
        """Bytes in the buffer."""
        self._below_paused = False
        """Whether the transport below takes no data at present."""
        self._paused = False
        """Whether the last call was `pause`, not `resume`."""
        self._closing = False
        """Whether the transport below is closed as soon as the buffer is empty."""
        self._eof_pending = False
        """Whether `write_eof` of the transport below follows as soon as the buffer is empty."""

    def write(self, data: Buffer) -> None:
        if self._buffer or self._below_paused or self._closing or not 0 < len(data) <= PIECE:
            self._add(data)
            self._flush()
        else:
            self._below.write(data)
            self._notify()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        # each write to the transport below is a TLS record, which costs more than a copy
        chunks: list[Buffer] = []
        size = 0
        for data in list_of_data:
            if size + len(data) > PIECE:
                self.write(b"".join(chunks))
                chunks, size = [], 0
            chunks.append(data)
            size += len(data)
        self.write(b"".join(chunks) if len(chunks) > 1 else chunks[0] if chunks else b"")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is not None:
            self._high = high

    def get_write_buffer_size(self) -> int:
        return self._size + self._below.get_write_buffer_size()

    def on_below_paused(self) -> None:
        """Stop writing to the transport below, whose buffer is full."""
        self._below_paused = True

    def on_below_resumed(self) -> None:
        """Resume writing to the transport below."""
        self._below_paused = False
        self._flush()

    def close(self) -> None:
        self._closing = True
        self._flush()

    def is_closing(self) -> bool:
        return self._closing or self._below.is_closing()

    def abort(self) -> None:
        self._closing = True
        self._buffer.clear()
        self._size = 0
        self._below.abort()

    def can_write_eof(self) -> bool:
        return self._below.can_write_eof()

    def write_eof(self) -> None:
        self._eof_pending = True
        self._flush()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    # Internals

    def _add(self, data: Buffer) -> None:
        if data and not self._closing:
            self._buffer.append(memoryview(data))
            self._size += len(data)

    def _flush(self) -> None:
        while self._buffer and not self._below_paused:
            chunk = self._buffer.popleft()
            if len(chunk) > PIECE:
                self._buffer.appendleft(chunk[PIECE:])
                chunk = chunk[:PIECE]
            self._size -= len(chunk)
            self._below.write(chunk)
        if not self._buffer:
            if self._eof_pending and not self._closing:
                self._eof_pending = False
                self._below.write_eof()
            if self._closing and not self._below.is_closing():
                self._below.close()
        self._notify()

    def _notify(self) -> None:
        if not self._paused and (self._below_paused or self._size > self._high):
            self._paused = True
            self._pause()
        elif self._paused and not self._below_paused and not self._size:
            self._paused = False
            self._resume()
