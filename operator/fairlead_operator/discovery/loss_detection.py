"""Detects the loss of an HTTP server by one idle connection, whose end shows that the server may be down.

The leader's `discoverer` owns the connections, so that a loss is detected even if nobody calls the server's tools.
Nothing is sent on an idle connection. Many servers close idle connections after a while, which does not matter as long
as a new connection opens at once. Only a repeated refusal counts as a loss, so that a server can be replaced within
`CONFIRM_SECONDS` seconds without a loss.
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
from fairlead_operator.idle_connection import IdleConnection
from fairlead_operator.ports import Connector
from fairlead_operator.workqueue import ItemBackoff

logger = logging.getLogger(__name__)

CONFIRM_SECONDS: Final = 0.3
"""Seconds between a first refusal and the second attempt. If that fails too, the server is lost."""
BRIEF_SECONDS: Final = 1.0
"""Seconds below which a connection counts as brief: the server closes it on purpose, so the next one is opened after a
pause.
"""
PAUSE: Final = ItemBackoff(first=0.1, limit=1.2)
"""Pause between brief connections; its limit is below the two seconds within which a loss has to be noticed."""
REOPEN: Final = ItemBackoff(first=0.25, limit=5.0)
"""Pause between attempts to reach a lost server."""
LOCAL_ERRNOS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.ENETUNREACH}
)
"""Errors of this machine, which do not indicate a loss of the server."""


@dataclass(frozen=True)
class ConnectionObserver:
    """Callbacks about losses and recoveries of servers. Called in the event loop; must not raise."""

    on_loss: Callable[[ServerKey, ConnectFailed], None]
    """Receives a server that refuses connections."""
    on_recovery: Callable[[ServerKey], None]
    """Receives a server that accepts connections again after it has refused one."""


class LossDetector:
    """Idle TCP connections to all HTTP servers, which detect losses at once."""

    def __init__(self, connector: Connector, observer: ConnectionObserver, *, rng: random.Random) -> None:
        self._connector = connector
        self._observer = observer
        self._rng = rng
        self._tasks: ServerTasks[Endpoint] = ServerTasks("idle connection to")

    def __len__(self) -> int:
        return len(self._tasks)

    def hold(self, key: ServerKey, endpoint: Endpoint) -> None:
        """Keep an idle connection to the server; no-op if there is a connection to this endpoint."""
        self._tasks.ensure(key, endpoint, lambda: self._keep(key, endpoint))

    def drop(self, key: ServerKey) -> None:
        """Close the server's connection."""
        self._tasks.drop(key)

    async def aclose(self) -> None:
        """Close all connections and wait for the end of their tasks."""
        await self._tasks.aclose()

    async def _keep(self, key: ServerKey, endpoint: Endpoint) -> None:
        try:
            await self._watch(key, endpoint)
        except Exception:
            logger.exception(
                "the idle connection to %s failed unexpectedly; its losses are detected only by discoveries", key
            )

    async def _watch(self, key: ServerKey, endpoint: Endpoint) -> None:
        clock, address, brief_connections = asyncio.get_running_loop().time, None, 0
        while True:
            connection = await self._connect(key, endpoint, address)
            if connection is None:
                return
            opened_at, address = clock(), connection.peer
            try:
                await connection.closed
            finally:
                connection.close()
            brief_connections = brief_connections + 1 if clock() - opened_at < BRIEF_SECONDS else 0
            if brief_connections:
                await asyncio.sleep(PAUSE.delay(brief_connections, self._rng))

    async def _connect(
        self, key: ServerKey, endpoint: Endpoint, address: tuple[str, int] | None
    ) -> IdleConnection | None:
        """Open a connection, retrying without limit; None for a server that needs no idle connection."""
        failures, is_reported = 0, False
        while True:
            try:
                connection = await self._connector.open_idle_connection(key, endpoint, address)
            except ConnectFailed as error:
                failures += 1
                is_confirmed = failures > 1 or error.reason == "ConnectTimeout"
                if is_confirmed and not is_reported and indicates_loss(error):
                    is_reported = True
                    self._observer.on_loss(key, error)
                await asyncio.sleep(REOPEN.delay(failures, self._rng) if is_confirmed else CONFIRM_SECONDS)
            else:
                if failures:
                    self._observer.on_recovery(key)
                return connection


def indicates_loss(error: ConnectFailed) -> bool:
    """Whether a connect error indicates that the server is down, rather than a fault of DNS or of this machine."""
    cause = error.__cause__
    return error.reason != "UnknownHost" and not (isinstance(cause, OSError) and cause.errno in LOCAL_ERRNOS)
