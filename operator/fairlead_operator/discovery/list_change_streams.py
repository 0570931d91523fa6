"""Keeps one stream to each server that declares `listChanged`, for its notifications about changed lists.

The leader's `discoverer` owns the streams. A stream that ends is reopened with back-off. Notifications may be lost in
between, and the server may be down; the end of a stream therefore triggers a discovery at once, and another discovery
before the stream is reopened. For a stdio server in a pod, the stream keeps the process of the operator's session
running.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fairlead_api.documents.catalog import Credential, Endpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.eras import ANNOUNCED
from fairlead_mcp.errors import McpError, TransportError
from fairlead_operator.discovery.servertasks import ServerTasks
from fairlead_operator.ports import Connector
from fairlead_operator.workqueue import ItemBackoff

logger = logging.getLogger(__name__)

REFUSED_RETRY: Final = 600.0
"""Seconds until the next attempt with a server that declares `listChanged` but refuses the stream."""
STABLE_SECONDS: Final = 60.0
"""Seconds that a stream has to last for its end to count as a first failure, so that the back-off starts over."""


@dataclass(frozen=True)
class ListenTarget:
    """Everything that identifies a stream; a changed target opens a new one."""

    endpoint: Endpoint
    credential_hash: str
    revision: str


class ListChangeStreams:
    """Streams to all servers that declare `listChanged`.

    `on_change(key, name)` is called for each notification with the name of the list ("tools", "prompts", "resources"),
    and with "" when a stream ends. It should be fast.
    """

    def __init__(
        self,
        connector: Connector,
        on_change: Callable[[ServerKey, str], None],
        *,
        retry: ItemBackoff,
        rng: random.Random,
    ) -> None:
        self._connector = connector
        self._on_change = on_change
        self._retry = retry
        self._rng = rng
        self._tasks: ServerTasks[ListenTarget] = ServerTasks("listening to")

    def __len__(self) -> int:
        return len(self._tasks)

    def hold(self, key: ServerKey, target: ListenTarget, credential: Credential | None) -> None:
        """Keep a stream to the server; no-op if there is a stream for an equal target."""
        self._tasks.ensure(key, target, lambda: self._listen(key, target, credential))

    def drop(self, key: ServerKey) -> None:
        """Close the server's stream."""
        self._tasks.drop(key)

    async def aclose(self) -> None:
        """Close all streams and wait for the end of their tasks."""
        await self._tasks.aclose()

    async def _listen(self, key: ServerKey, target: ListenTarget, credential: Credential | None) -> None:
        def on_notification(method: str) -> None:
            if method.endswith("/list_changed"):
                name = method.removeprefix("notifications/").removesuffix("/list_changed")
                logger.debug("%s announced %r", key, method[:80])  # DEBUG, because a server may send any number of them
                self._on_change(key, name if name in ANNOUNCED else "")

        failures, clock = 0, asyncio.get_running_loop().time
        while True:
            opened_at = clock()
            try:
                is_refused = await self._listen_once(key, target, credential, on_notification)
            except Exception:
                logger.exception("the notification stream of %s failed unexpectedly", key)
                is_refused = True
            if is_refused:
                await asyncio.sleep(REFUSED_RETRY)
                continue
            failures = 1 if clock() - opened_at >= STABLE_SECONDS else failures + 1
            self._on_change(key, "")
            await asyncio.sleep(self._retry.delay(failures, self._rng))
            self._on_change(key, "")

    async def _listen_once(
        self,
        key: ServerKey,
        target: ListenTarget,
        credential: Credential | None,
        on_notification: Callable[[str], None],
    ) -> bool:
        """Open a stream and wait for its end; True if the server refuses it."""
        try:
            async with self._connector.session(key, target.endpoint, credential, on_notification) as session:
                await session.listen()
        except TransportError as error:
            logger.info("the notification stream of %s ended and will be reopened: %s", key, error)
        except McpError as error:
            logger.info("%s declares listChanged but refuses a notification stream: %s", key, error)
            return True
        return False
