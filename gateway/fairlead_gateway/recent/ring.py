"""The ring of the last calls, bounded in number and in bytes.

A call that ends costs a tuple and an append. Nothing is queued per reader: those who follow ask for what came behind a
number, and a slow one misses the oldest.
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
from fairlead_gateway.recent.ended_call import NOBODY, EndedCall, KeptCaller, PackedCall

LEAST_BYTES: Final = 256 << 10
"""Smallest bound in bytes: half of it is more than the largest call takes."""
PLAIN_LETTERS: Final = 160
"""Characters of all strings of a plain call."""
WIDEST: Final = 4
"""Bytes of a character, at most."""
PLAIN_BYTES: Final = 640 + WIDEST * PLAIN_LETTERS
"""Bytes of a plain call, at most: its tuple, its numbers, its strings, its place in the ring."""
PHASE_BYTES: Final = 200
ArgumentTeller = Callable[[Raw], dict[str, Any]]


class KeptCalls:
    """Calls of the ring at one moment, oldest first. `number` is that of the newest, `epoch` what to add to seconds of
    the gateway's clock for those since the epoch.
    """

    def __init__(self, packed: Sequence[PackedCall], number: int, epoch: float) -> None:
        self._packed = packed
        self.number = number
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._packed)

    @property
    def first(self) -> int:
        """Number of the oldest."""
        return self.number - len(self._packed) + 1

    def call(self, number: int) -> EndedCall:
        """The call of a number. Raises IndexError where it is not kept."""
        if number < self.first:
            raise IndexError(number)
        return EndedCall(*self._packed[number - self.first])

    def newest_first(self) -> Iterator[tuple[int, EndedCall]]:
        """Numbers and calls."""
        for offset, packed in enumerate(reversed(self._packed)):
            yield self.number - offset, EndedCall(*packed)

    def behind(self, number: int) -> KeptCalls:
        """Those with a higher number."""
        return KeptCalls(self._packed[max(0, number - self.first + 1) :], self.number, self.epoch)


class RecentCalls:
    """Ring of the last `most` calls. All methods are called in the gateway's loop, but for `tell`."""

    def __init__(
        self,
        most: int,
        most_bytes: int,
        tell: ArgumentTeller | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most_bytes` is at least LEAST_BYTES; half of it is for plain calls. `tell` makes members of an answer from
        raw arguments, as the audit log's; None: arguments are not kept. `clock`: seconds, that of calls.
        """
        self._most = min(most, most_bytes // 2 // PLAIN_BYTES)
        self._spare = most_bytes - self._most * PLAIN_BYTES
        """Bytes beside those of plain calls."""
        self._clock = clock
        self._ring: deque[PackedCall] = deque(maxlen=self._most)
        self._large: deque[tuple[int, int]] = deque()
        """Numbers of calls that are not plain, and the bytes that each has more."""
        self._large_bytes = 0
        self._life = secrets.token_hex(4)
        self._fresh: asyncio.Event | None = None
        self._identity = ANONYMOUS
        self._caller = NOBODY
        self.tell = tell
        self.number = 0
        """Number of the newest call."""
        self.closed = False

    @property
    def size(self) -> int:
        """Bytes of all calls that are kept, at most."""
        self._settle()
        return len(self._ring) * PLAIN_BYTES + self._large_bytes

    def put(self, call: PackedCall) -> None:
        """Keep a plain call, in place of the oldest."""
        self._ring.append(call)
        self.number += 1
        if self._fresh is not None:
            self._fresh.set()
            self._fresh = None

    def put_large(self, call: PackedCall, more: int) -> None:
        """Keep a call that takes up to `more` bytes beside those of a plain one, in place of as many as that takes."""
        self.put(call)
        self._large.append((self.number, more))
        self._large_bytes += more
        self._settle()

    def _settle(self) -> None:
        """Let large calls go that have left the ring, and the oldest that are too many, with all before them."""
        first, large = self.number - len(self._ring) + 1, self._large
        while large and (large[0][0] < first or self._large_bytes > self._spare):
            number, more = large.popleft()
            self._large_bytes -= more
            for _ in range(number - first + 1):
                self._ring.popleft()
            first = max(first, number + 1)

    def caller(self, identity: Identity) -> KeptCaller:
        """The part of a principal that is kept; that of the last call is remembered."""
        if identity is not self._identity:
            self._identity = identity
            self._caller = KeptCaller.of(identity)
        return self._caller

    def arguments(self, raw: Raw | None) -> bytes | None:
        """The part of a call's arguments that is kept; a copy, for a part of a message keeps the whole of it."""
        if raw is None or self.tell is None:
            return None
        return bytes(raw) if len(raw) <= MAX_ARGUMENTS else b""

    def snapshot(self) -> KeptCalls:
        """All calls that are kept."""
        return KeptCalls([*self._ring], self.number, time.time() - self._clock())

    def ident(self, number: int) -> str:
        """Id of a call."""
        return f"{self._life}-{number}"

    def number_of(self, ident: str) -> int | None:
        """Number in an id; None for one of another life or replica, and for such that there is no call of yet."""
        life, _, number = ident.rpartition("-")
        good = life == self._life and number.isascii() and number.isdecimal() and len(number) < 20
        return int(number) if good and int(number) <= self.number else None

    async def newer(self, number: int, seconds: float) -> bool:
        """Whether there is a call with a higher number, after a wait for it of up to `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while self.number <= number and not self.closed:
                    if self._fresh is None:
                        self._fresh = asyncio.Event()
                    await self._fresh.wait()
        except TimeoutError:
            pass
        return self.number > number

    def close(self) -> None:
        """No more is to come: nobody waits any longer."""
        self.closed = True
        if self._fresh is not None:
            self._fresh.set()
