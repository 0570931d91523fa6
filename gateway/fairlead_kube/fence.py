"""Keeps a write from leaving once this process may no longer write, however long it was stopped on the way.

A process can be stopped anywhere (SIGSTOP, a frozen cgroup, a suspended machine) and continues as if nothing had been,
while another operator leads. Three things together keep that from making two writers; `client` uses the first two:

- The lease is looked at when a write is asked for, and again when its first byte is handed to the kernel: in between
  lie waits for a connection, a TLS handshake or another turn of the loop, and after a stop what became readable is
  served before any timer fires.
- A write carries the time that it may take (`timeout=`), and the API server gives it up by then: a process that is
  stopped cannot take back what it has sent.
- Documents and statuses name the resourceVersion that they replace, so that a write which slipped through between the
  last look and the kernel is refused where somebody else has written since (`documents`, `platform`).

The clock is one that goes on while the machine is suspended.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace

import aiohttp
from kubernetes.aio.client import Configuration

Allowance = Callable[[], float]
"""Seconds within which a write that is sent now must have ended; 0 and less: nothing may be written."""

_fence: ContextVar[Allowance | None] = ContextVar("fence", default=None)


class Fenced(Exception):
    """Raised where the bytes of a write would have left."""


def boottime() -> float:
    """Seconds since the machine was started, those of its sleep included: CLOCK_MONOTONIC stands still in it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def always() -> float:
    """Allowance without a lease: writes are never fenced."""
    return float("inf")


@contextmanager
def fence(allowance: Allowance) -> Iterator[None]:
    """Requests that are sent in this context leave only while there is an allowance."""
    token = _fence.set(allowance)
    try:
        yield
    finally:
        _fence.reset(token)


def guard(configuration: Configuration) -> Configuration:
    """A copy of `configuration` whose clients ask the fence before the first byte of a body, and the head with it."""
    trace = aiohttp.TraceConfig()
    trace.on_request_chunk_sent.append(_before_chunk)
    guarded = copy.copy(configuration)
    guarded.trace_configs = [*(getattr(configuration, "trace_configs", None) or ()), trace]
    return guarded


async def _before_chunk(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestChunkSentParams
) -> None:
    """aiohttp runs this before it writes a chunk, despite the signal's name; the head waits for the first one."""
    allowance = _fence.get()
    if allowance is not None and allowance() <= 0:
        raise Fenced
