"""`python -m fairlead_offers.child`: a process that does `jobs` for a gateway, and ends with it.

`workers.process` is the other side. Frames (`job`) come and go on standard input and output. The end of standard input,
however it comes, ends the process at once, work or no work.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from fairlead_offers.conversion.jobs import (
    CONVERT,
    COUNT,
    MEASURE,
    MESSAGES,
    PREPARE,
    REPEATS,
    convert,
    convert_messages,
    count,
    measure,
    prepare,
    repeats,
)
from fairlead_offers.job import BULK, LENGTH, ConvertedBody
from fairlead_offers.results.kept_results import READ, read
from fairlead_offers.results.shortened_results import SHORTEN, shorten
from fairlead_offers.search.jobs import EMBED, SEARCH, STORED, VECTORS, embed, search, stored_vectors, take_vectors

JOBS: Final[dict[str, Callable[[bytes], Any]]] = {
    CONVERT.name: convert,
    MESSAGES.name: convert_messages,
    PREPARE.name: prepare,
    COUNT.name: count,
    MEASURE.name: measure,
    REPEATS.name: repeats,
    SEARCH.name: search,
    VECTORS.name: take_vectors,
    STORED.name: stored_vectors,
    EMBED.name: embed,
    READ.name: read,
    SHORTEN.name: shorten,
}

AUTOGROUP: Final = Path("/proc/self/autogroup")
"""Niceness of the session's group of processes."""
GROUP_NICENESS: Final = 10
"""A tenth of the share of another group: work goes on where all cores are taken, and gives way at once."""
NICENESS: Final = 5
"""Niceness of a process for short work, which a request waits for."""


def main() -> None:
    """Do jobs until the gateway closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: it is the gateway's to end this
    _give_way(bulk=BULK in sys.argv[1:])
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's: two wait for each other where calls take the cores
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing but answers goes there
    work: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, work), daemon=True).start()
    while True:
        answer = _done(work.get())
        try:
            answers.write(LENGTH.pack(len(answer)) + answer)
            answers.flush()
        except BrokenPipeError:
            os._exit(0)


def _give_way(*, bulk: bool) -> None:
    """Give calls in flight priority. Bulk work takes idle time only: with niceness alone, even the highest, the p99
    of calls on shared cores doubles while it runs.
    """
    if hasattr(os, "sched_setscheduler"):  # a gateway of real-time priority hands that on
        os.sched_setscheduler(0, os.SCHED_IDLE if bulk else os.SCHED_OTHER, os.sched_param(0))
    if not bulk or not hasattr(os, "sched_setscheduler"):
        os.nice(19 if bulk else NICENESS)
    if bulk:
        _leave_group()


def _leave_group() -> None:
    """Begin a session whose work is the last: where the kernel groups processes by session (autogroup, sched(7)), a
    priority counts among those of the session alone, and against servers and clients this process has the gateway's.
    """
    with contextlib.suppress(OSError):  # a leader of processes already, or a kernel without
        os.setsid()
        AUTOGROUP.write_text(str(GROUP_NICENESS), encoding="ascii")


def _done(job_frame: bytes) -> bytes:
    name, _, work = job_frame.partition(b"\n")
    try:
        made = JOBS[name.decode()](work)
        if isinstance(made, ConvertedBody):
            return b"".join([b"=", *made.parts])
        return b"+" + msgspec.json.encode(made)
    except Exception as error:  # noqa: BLE001 - told to the gateway, with the trace in the log
        traceback.print_exc()
        return b"-" + f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:500]


def _read(source: BinaryIO, work: queue.SimpleQueue[bytes]) -> None:
    while len(head := source.read(LENGTH.size)) == LENGTH.size:
        work.put(source.read(LENGTH.unpack(head)[0]))
    os._exit(0)


if __name__ == "__main__":
    main()
