"""Ring buffer of the last calls, limited in number and in bytes.

Recording a call costs a tuple and an append. There are no queues per reader: a reader requests the calls after the last
call that it has read, and a slow reader misses the oldest calls.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec import Raw

from fairlead_gateway.audit.arguments import MAX_ARGUMENTS
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.recent.ended_call import NOBODY, EndedCall, PackedCall, StoredCaller

MIN_BYTES: Final = 256 << 10
"""Minimum limit in bytes. The largest call fits into half of it."""
PLAIN_CHARACTERS: Final = 160
"""Maximum number of characters of all strings of a plain call together; a call with longer strings, a trail or
arguments is large.
"""
MAX_CHARACTER_BYTES: Final = 4
"""Maximum number of bytes that Python stores for a character."""
PLAIN_BYTES: Final = 640 + MAX_CHARACTER_BYTES * PLAIN_CHARACTERS
"""Maximum number of bytes of a plain call: its tuple, numbers, strings and slot in the ring."""
PHASE_BYTES: Final = 200
ArgumentRenderer = Callable[[Raw], dict[str, Any]]
"""Renders raw arguments as members of a response."""


class StoredCalls:
    """Stored calls at one point in time, oldest first. `number` is the number of the newest call. Adding `epoch` to a
    time of the gateway's clock gives seconds since the epoch.
    """

    def __init__(self, packed: Sequence[PackedCall], number: int, epoch: float) -> None:
        self._packed = packed
        self.number = number
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._packed)

    @property
    def first(self) -> int:
        """Number of the oldest call."""
        return self.number - len(self._packed) + 1

    def call(self, number: int) -> EndedCall:
        """The call with a number. Raises IndexError if it is not stored."""
        if number < self.first:
            raise IndexError(number)
        return EndedCall(*self._packed[number - self.first])

    def newest_first(self) -> Iterator[tuple[int, EndedCall]]:
        """Numbers and calls, newest first."""
        for offset, packed in enumerate(reversed(self._packed)):
            yield self.number - offset, EndedCall(*packed)

    def after(self, number: int) -> StoredCalls:
        """The calls with a higher number."""
        return StoredCalls(self._packed[max(0, number - self.first + 1) :], self.number, self.epoch)


class RecentCalls:
    """Ring buffer of the last `max_calls` calls. All methods have to be called in the gateway's event loop;
    `render_arguments` may be called in any thread.
    """

    def __init__(
        self,
        max_calls: int,
        max_bytes: int,
        render_arguments: ArgumentRenderer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an empty ring. `max_bytes` is at least MIN_BYTES; half of it is for plain calls. `render_arguments`
        renders raw arguments as in the audit log; if None, arguments are not stored. `clock` is the clock of calls, in
        seconds.
        """
        self._max_calls = min(max_calls, max_bytes // 2 // PLAIN_BYTES)
        self._max_large_bytes = max_bytes - self._max_calls * PLAIN_BYTES
        """Maximum number of bytes that calls may take in addition to plain calls."""
        self._clock = clock
        self._ring: deque[PackedCall] = deque(maxlen=self._max_calls)
        self._large_calls: deque[tuple[int, int]] = deque()
        """Numbers of calls that are not plain, with their additional bytes."""
        self._large_bytes = 0
        self._id_prefix = secrets.token_hex(4)
        """Random first part of call ids, so that calls of different processes have different ids."""
        self._newer_call: asyncio.Event | None = None
        """Event that the next call sets; None if no reader waits."""
        self._identity = ANONYMOUS
        self._caller = NOBODY
        self.render_arguments = render_arguments
        self.number = 0
        """Number of the newest call."""
        self.closed = False

    @property
    def size(self) -> int:
        """Upper bound of the bytes of all stored calls."""
        self._drop_excess()
        return len(self._ring) * PLAIN_BYTES + self._large_bytes

    def put(self, call: PackedCall) -> None:
        """Store a plain call; if the ring is full, it replaces the oldest call."""
        self._ring.append(call)
        self.number += 1
        if self._newer_call is not None:
            self._newer_call.set()
            self._newer_call = None

    def put_large(self, call: PackedCall, extra_bytes: int) -> None:
        """Store a call that takes up to `extra_bytes` more than a plain call. The oldest calls are dropped to make
        room.
        """
        self.put(call)
        self._large_calls.append((self.number, extra_bytes))
        self._large_bytes += extra_bytes
        self._drop_excess()

    def _drop_excess(self) -> None:
        """Subtract the bytes of large calls that have left the ring. If large calls take too many bytes, drop the
        oldest of them with all calls before them.
        """
        first, large_calls = self.number - len(self._ring) + 1, self._large_calls
        while large_calls and (large_calls[0][0] < first or self._large_bytes > self._max_large_bytes):
            number, extra_bytes = large_calls.popleft()
            self._large_bytes -= extra_bytes
            for _ in range(number - first + 1):
                self._ring.popleft()
            first = max(first, number + 1)

    def caller(self, identity: Identity) -> StoredCaller:
        """The part of an identity that is stored with calls. The part for the last identity is cached."""
        if identity is not self._identity:
            self._identity = identity
            self._caller = StoredCaller.of(identity)
        return self._caller

    def arguments(self, raw: Raw | None) -> bytes | None:
        """Arguments to store with a call: empty if they are too large, None if arguments are not stored. They are
        copied, because a part of a message would keep the whole message in memory.
        """
        if raw is None or self.render_arguments is None:
            return None
        return bytes(raw) if len(raw) <= MAX_ARGUMENTS else b""

    def snapshot(self) -> StoredCalls:
        """All stored calls."""
        return StoredCalls([*self._ring], self.number, time.time() - self._clock())

    def ident(self, number: int) -> str:
        """Id of a call."""
        return f"{self._id_prefix}-{number}"

    def number_of(self, ident: str) -> int | None:
        """Number of the call with an id; None if the id comes from another process, or if no call has it yet."""
        prefix, _, number = ident.rpartition("-")
        is_valid = prefix == self._id_prefix and number.isascii() and number.isdecimal() and len(number) < 20
        return int(number) if is_valid and int(number) <= self.number else None

    async def wait_newer(self, number: int, seconds: float) -> bool:
        """Wait up to `seconds` for a call with a higher number. Returns False if no such call was stored."""
        try:
            async with asyncio.timeout(seconds):
                while self.number <= number and not self.closed:
                    if self._newer_call is None:
                        self._newer_call = asyncio.Event()
                    await self._newer_call.wait()
        except TimeoutError:
            pass
        return self.number > number

    def close(self) -> None:
        """Wake all readers that wait, because no more calls will be stored."""
        self.closed = True
        if self._newer_call is not None:
            self._newer_call.set()
