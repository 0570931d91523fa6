"""Writes the audit log in a thread, so that no call waits for a disk.

The buffer is bounded. Entries that arrive while the buffer is full, and entries that cannot be written, are lost and
counted; the next write begins with a line that reports their number. Entries are exported to an OpenTelemetry collector
independently: a full disk loses no exported entry, and an unreachable collector loses no line.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from fairlead_gateway.audit.entry import AuditEntry
from fairlead_gateway.audit.events import event_of
from fairlead_gateway.audit.lines import lost_line
from fairlead_gateway.audit.repeats import WINDOW_S, RepeatedDenials
from fairlead_gateway.audit.sink import Sink
from fairlead_otel.events import EmitEvent

log = logging.getLogger(__name__)

CAPACITY: Final = 10_000
"""Maximum number of buffered entries."""
CAPACITY_BYTES: Final = 32 << 20
"""Maximum number of bytes from clients (arguments, `_meta`, names) in buffered entries."""
GATHER_SECONDS: Final = 0.05
"""Seconds for which entries are collected before a write, so that the thread is not woken for each entry."""
BATCH: Final = 500
"""Maximum number of entries in one write."""
CLOSE_SECONDS: Final = 2.0
"""Maximum seconds that the shutdown waits for the last write."""


class Writer:
    """Buffer and thread that write the audit log.

    `render` formats an entry in the thread. `now` returns seconds since the epoch. `emit` exports an event per entry,
    whether or not the entry's line can be written.
    """

    def __init__(
        self,
        sink: Sink,
        render: Callable[[AuditEntry], bytes],
        now: Callable[[], float],
        capacity: int = CAPACITY,
        emit: EmitEvent | None = None,
        gather_seconds: float = GATHER_SECONDS,
    ) -> None:
        self.gather_seconds = gather_seconds
        self._sink = sink
        self._emit = emit
        self._emitted_count = 0
        """Number of entries that were passed to `emit` so far."""
        self._render = render
        self._now = now
        self._capacity = capacity
        self._buffer: deque[tuple[AuditEntry, int]] = deque()
        """Entries with their weights."""
        self._repeated_denials = RepeatedDenials()
        self._awake = False
        """Whether the thread is awake or was woken."""
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._output_works = True
        """Whether the last write succeeded."""
        self._reported_lost = 0
        """Number of lost lines that were reported so far."""
        self._bytes_buffered = 0
        self._bytes_removed = 0
        """Numbers of bytes from clients in entries that the event loop put into the buffer (`_bytes_buffered`), and in
        entries that the thread removed (`_bytes_removed`). Two counters need no lock, because each is changed by one
        thread only.
        """
        self.written = 0
        """Number of lines written so far."""
        self.overflowed = 0
        """Number of lines lost because the buffer was full."""
        self.failed = 0
        """Number of lines lost because the output failed."""

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    def put(self, entry: AuditEntry) -> None:
        """Buffer an entry; repeated denials are summed up instead. Runs in the event loop and never blocks."""
        if self._repeated_denials.absorbs(entry):
            self._wake_thread()
            return
        size = entry.weight
        if len(self._buffer) >= self._capacity or self._bytes_buffered - self._bytes_removed + size > CAPACITY_BYTES:
            self.overflowed += 1
            return
        self._bytes_buffered += size
        self._buffer.append((entry, size))
        self._wake_thread()

    def close(self) -> None:
        """Write the buffered entries, for at most CLOSE_SECONDS."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                log.warning(
                    "%d lines of the audit log were lost: they could not be written before the gateway stopped",
                    self.buffered,
                )

    def _wake_thread(self) -> None:
        if self._awake:
            return
        self._awake = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
            self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait(WINDOW_S if self._repeated_denials.has_windows else None)
            self._closing.wait(self.gather_seconds)
            self._wake.clear()
            self._awake = False
            # read once per pass: if `close` is called after this line, it wakes the thread for one more pass
            closing = self._closing.is_set()
            while self._buffer:
                entries_and_weights = [self._buffer.popleft() for _ in range(min(BATCH, len(self._buffer)))]
                self._write([entry for entry, _ in entries_and_weights])
                self._bytes_removed += sum(weight for _, weight in entries_and_weights)
            sums = self._repeated_denials.take(self._now(), everything=closing)
            for first in range(0, len(sums), BATCH):
                self._write(sums[first : first + BATCH])
            if closing:
                self._sink.close()
                return

    def _write(self, entries: list[AuditEntry]) -> None:
        lost = self.overflowed + self.failed
        lines = [self._line(entry) for entry in entries]
        unreported = [lost_line(self._now(), lost - self._reported_lost)] if lost > self._reported_lost else []
        if self._emit is not None:
            self._emit_events(self._emit, entries, lines)
        try:
            self._sink.write(b"".join(unreported + lines))
        except OSError as error:
            self.failed += len(entries)
            if self._output_works:
                self._output_works = False
                log.error("The audit log cannot be written (%s); its lines are lost until this is corrected", error)
            self._closing.wait(self.gather_seconds)
            return
        self._reported_lost = lost
        self.written += len(entries)
        if not self._output_works:
            self._output_works = True
            log.warning("The audit log can be written again")

    def _emit_events(self, emit: EmitEvent, entries: list[AuditEntry], lines: list[bytes]) -> None:
        """Export an event per entry. Sequence numbers skip the entries that were lost because the buffer was full."""
        first = self._emitted_count + self.overflowed + 1
        self._emitted_count += len(entries)
        for number, (entry, line) in enumerate(zip(entries, lines, strict=True), first):
            try:
                emit(event_of(entry, line, number))
            except Exception:
                log.exception("A line of the audit log could not be exported")

    def _line(self, entry: AuditEntry) -> bytes:
        try:
            return self._render(entry)
        except Exception:
            log.exception("A line of the audit log could not be formatted")
            return lost_line(self._now(), 1)
