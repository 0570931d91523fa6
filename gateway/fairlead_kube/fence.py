"""Blocks writes of a process that no longer holds the lease, even if the process was stopped in the meantime.

A process can be stopped at any point (SIGSTOP, a frozen cgroup, a suspended machine) and continues later, while another
operator leads. Three measures together prevent writes of two leaders; `client` implements the first two:

- The lease is checked before a write, and again when its first byte is handed to the kernel. In between, the process
  may wait for a connection, a TLS handshake or the event loop. A timer that cancels writes when the lease ends cannot
  replace the second check: when a stopped process continues, its event loop first handles the sockets that became
  ready, which can send a waiting write, and only then runs the expired timer.
- A write has a timeout at the API server (`timeout=`), as a stopped process cannot cancel a request that it has sent.
- Documents and statuses name the resourceVersion that they replace. If the process is stopped between the second check
  and the sending, the API server rejects the late write if others have written since (`documents` and `platform` of the
  operator).

The end of the lease is measured by `boottime`, which continues while the machine is suspended.
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
"""Returns the seconds within which a write sent now must have ended; 0 or less forbids writes."""

_fence: ContextVar[Allowance | None] = ContextVar("fence", default=None)


class Fenced(Exception):
    """A write was blocked immediately before its first byte would have been sent."""


def boottime() -> float:
    """Seconds since the machine was started, including time in suspend, during which CLOCK_MONOTONIC stops."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def unlimited_allowance() -> float:
    """Allowance without a lease, which permits all writes."""
    return float("inf")


@contextmanager
def fence(allowance: Allowance) -> Iterator[None]:
    """Block requests in this context unless `allowance` permits them."""
    token = _fence.set(allowance)
    try:
        yield
    finally:
        _fence.reset(token)


def guard(configuration: Configuration) -> Configuration:
    """Return a copy of `configuration` with which a client checks the fence before it sends the first byte of a request
    with a body.
    """
    trace = aiohttp.TraceConfig()
    trace.on_request_chunk_sent.append(_before_chunk)
    guarded_configuration = copy.copy(configuration)
    guarded_configuration.trace_configs = [*(getattr(configuration, "trace_configs", None) or ()), trace]
    return guarded_configuration


async def _before_chunk(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestChunkSentParams
) -> None:
    """Check the fence. Despite the signal's name, aiohttp calls this before it writes a chunk, and the head is sent
    with the first chunk.
    """
    allowance = _fence.get()
    if allowance is not None and allowance() <= 0:
        raise Fenced
