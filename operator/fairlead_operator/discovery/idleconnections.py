"""One idle connection to each server that is reached over HTTP: when it closes, the server may be gone.

Held by `discoverer` for the leader, so that the loss of a server shows although nobody calls it. Nothing is sent on a
line: many servers close it after a while, which means nothing as long as the next one opens at once. A refusal counts
once it is repeated, so that a server that is replaced within `CONFIRM` seconds is lost to nobody.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fairlead_api.documents.catalog import Endpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.errors import ConnectFailed
from fairlead_operator.discovery.servertasks import ServerTasks
from fairlead_operator.idleconnection import IdleConnection
from fairlead_operator.ports import Connector
from fairlead_operator.workqueue import ItemBackoff

logger = logging.getLogger(__name__)

CONFIRM: Final = 0.3
"""Seconds between a first refusal and the second one, which counts."""
BRIEF: Final = 1.0
"""A line that lives for fewer seconds was closed on purpose; the next one is opened after a pause."""
PAUSE: Final = ItemBackoff(first=0.1, limit=1.2)
"""Between brief lines: below the two seconds within which a loss has to show."""
REOPEN: Final = ItemBackoff(first=0.25, limit=5.0)
"""Between attempts to reach a server that is lost."""
OURS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.ENETUNREACH}
)
"""Errors of this machine, which say nothing about the server."""


@dataclass(frozen=True)
class ConnectionObserver:
    """Who is told; called in the loop, may not raise."""

    lost: Callable[[ServerKey, ConnectFailed], None]
    """The server accepts no connection."""
    back: Callable[[ServerKey], None]
    """It accepts connections again, after having refused at least one."""


class IdleConnections:
    """Idle TCP connections to servers, which show at once that a server is lost."""

    def __init__(self, connector: Connector, told: ConnectionObserver, *, rng: random.Random) -> None:
        self._connector = connector
        self._told = told
        self._rng = rng
        self._held: ServerTasks[Endpoint] = ServerTasks("line to")

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, key: ServerKey, endpoint: Endpoint) -> None:
        """Watch over the server; no-op where that is done already."""
        self._held.hold(key, endpoint, lambda: self._keep(key, endpoint))

    def drop(self, key: ServerKey) -> None:
        """Watch over it no more."""
        self._held.drop(key)

    async def aclose(self) -> None:
        """Close all lines and wait for their end."""
        await self._held.aclose()

    async def _keep(self, key: ServerKey, endpoint: Endpoint) -> None:
        try:
            await self._watch(key, endpoint)
        except Exception:
            logger.exception("%s is not watched over any more", key)

    async def _watch(self, key: ServerKey, endpoint: Endpoint) -> None:
        clock, address, brief = asyncio.get_running_loop().time, None, 0
        while True:
            opened = await self._connect(key, endpoint, address)
            if opened is None:
                return
            since, address = clock(), opened.peer
            try:
                await opened.closed
            finally:
                opened.close()
            brief = brief + 1 if clock() - since < BRIEF else 0
            if brief:
                await asyncio.sleep(PAUSE.delay(brief, self._rng))

    async def _connect(
        self, key: ServerKey, endpoint: Endpoint, address: tuple[str, int] | None
    ) -> IdleConnection | None:
        """A line, however long that takes; None where there is none to be had."""
        failures, told = 0, False
        while True:
            try:
                line = await self._connector.line(key, endpoint, address)
            except ConnectFailed as error:
                failures += 1
                proof = failures > 1 or error.reason == "ConnectTimeout"
                if proof and not told and conclusive(error):
                    told = True
                    self._told.lost(key, error)
                await asyncio.sleep(REOPEN.delay(failures, self._rng) if proof else CONFIRM)
            else:
                if failures:
                    self._told.back(key)
                return line


def conclusive(error: ConnectFailed) -> bool:
    """Whether it says something of the server, and not of the resolver or of this process: then whether the server can
    be used is for the discovery to find out.
    """
    cause = error.__cause__
    return error.reason != "UnknownHost" and not (isinstance(cause, OSError) and cause.errno in OURS)
