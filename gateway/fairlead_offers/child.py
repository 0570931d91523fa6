"""Worker process of a gateway (`python -m fairlead_offers.child`), which runs jobs until the gateway ends.

The gateway sends jobs to standard input and receives their answers from standard output, in the frames that `job`
describes; `workers.process` is the gateway's side of the two pipes. When standard input is closed, the process exits at
once, even during a job.
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
from fairlead_offers.results.api_results import API_RESULT, api_result
from fairlead_offers.results.selected_results import SELECT, select_part
from fairlead_offers.results.shortened_results import SHORTEN, shorten
from fairlead_offers.results.stored_results import READ, read
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
    SELECT.name: select_part,
    API_RESULT.name: api_result,
}

AUTOGROUP: Final = Path("/proc/self/autogroup")
"""File with the niceness of the session's process group (autogroup)."""
GROUP_NICENESS: Final = 10
"""Niceness of the process group for bulk work. The group gets a tenth of the CPU share of another group: its work
continues when all cores are busy, but gives a core up as soon as another process needs it.
"""
NICENESS: Final = 5
"""Niceness of a process whose jobs are short, and for whose answers requests wait."""


def main() -> None:
    """Run jobs until the gateway closes the pipe."""
    # Ctrl-C in a terminal also reaches this process, but only the gateway ends it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _lower_priority(bulk=BULK in sys.argv[1:])
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # with more threads, numpy's threads wait for each other on busy cores
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # only answers may be written to standard output; prints go to standard error
    work: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, work), daemon=True).start()
    while True:
        answer = _run_job(work.get())
        try:
            answers.write(LENGTH.pack(len(answer)) + answer)
            answers.flush()
        except BrokenPipeError:
            os._exit(0)


def _lower_priority(*, bulk: bool) -> None:
    """Lower the priority of this process below the priority of the gateway's calls. A process for bulk work runs only
    while a core is idle (SCHED_IDLE), because the highest niceness alone would double the p99 of calls on shared cores.
    """
    if hasattr(os, "sched_setscheduler"):  # resets a real-time priority that is inherited from the gateway
        os.sched_setscheduler(0, os.SCHED_IDLE if bulk else os.SCHED_OTHER, os.sched_param(0))
    if not bulk or not hasattr(os, "sched_setscheduler"):
        os.nice(19 if bulk else NICENESS)
    if bulk:
        _leave_group()


def _leave_group() -> None:
    """Move this process to a session of its own, with a low priority. If the kernel groups processes by session
    (autogroup, sched(7)), niceness only counts within the session. If this process stayed in the gateway's session,
    it would have the gateway's priority against the processes of servers and clients.
    """
    with contextlib.suppress(OSError):  # the process already leads a group, or the kernel has no autogroup
        os.setsid()
        AUTOGROUP.write_text(str(GROUP_NICENESS), encoding="ascii")


def _run_job(job_frame: bytes) -> bytes:
    name, _, work = job_frame.partition(b"\n")
    try:
        answer = JOBS[name.decode()](work)
        if isinstance(answer, ConvertedBody):
            return b"".join([b"=", *answer.parts])
        return b"+" + msgspec.json.encode(answer)
    except Exception as error:  # noqa: BLE001 - reported to the gateway; the traceback is printed for its log
        traceback.print_exc()
        return b"-" + f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:500]


def _read(source: BinaryIO, work: queue.SimpleQueue[bytes]) -> None:
    while len(head := source.read(LENGTH.size)) == LENGTH.size:
        work.put(source.read(LENGTH.unpack(head)[0]))
    os._exit(0)


if __name__ == "__main__":
    main()
