"""Streams on which servers announce that their lists have changed, one per server that says it does.

Held by `discoverer` for the leader. A stream that ends is opened again with back-off; its end is a reason to ask the
server too, at once and again before the next opening: changes may have gone unheard, or the server itself. A server on
stdio that announces changes has one process more for it.
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
"""Seconds until a server is asked again that announces changes and refuses the stream for it."""
STABLE: Final = 60.0
"""Seconds that a stream lives for its end not to count as one more failure in a row."""


@dataclass(frozen=True)
class ListenTarget:
    """Server that is listened to: while it stays equal, so does the stream."""

    endpoint: Endpoint
    credential_hash: str
    revision: str


class Listeners:
    """Event streams to servers that announce changes of their lists. `changed(key, name)` is called for each
    announcement, with the list ("tools", "prompts", "resources"), and with "" for each loss; it should be cheap.
    """

    def __init__(
        self, connector: Connector, changed: Callable[[ServerKey, str], None], *, retry: ItemBackoff, rng: random.Random
    ) -> None:
        self._connector = connector
        self._changed = changed
        self._retry = retry
        self._rng = rng
        self._held: ServerTasks[ListenTarget] = ServerTasks("listening to")

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, key: ServerKey, source: ListenTarget, credential: Credential | None) -> None:
        """Listen to the server; no-op where that is done already."""
        self._held.hold(key, source, lambda: self._listen(key, source, credential))

    def drop(self, key: ServerKey) -> None:
        """Listen to it no more."""
        self._held.drop(key)

    async def aclose(self) -> None:
        """Drop all streams and wait for their end."""
        await self._held.aclose()

    async def _listen(self, key: ServerKey, source: ListenTarget, credential: Credential | None) -> None:
        def on_notification(method: str) -> None:
            if method.endswith("/list_changed"):
                name = method.removeprefix("notifications/").removesuffix("/list_changed")
                logger.debug("%s announced %r", key, method[:80])  # as often as it likes
                self._changed(key, name if name in ANNOUNCED else "")

        failures, clock = 0, asyncio.get_running_loop().time
        while True:
            opened = clock()
            try:
                refused = await self._hold_once(key, source, credential, on_notification)
            except Exception:
                logger.exception("listening to %s broke down", key)
                refused = True
            if refused:
                await asyncio.sleep(REFUSED_RETRY)
                continue
            failures = 1 if clock() - opened >= STABLE else failures + 1
            self._changed(key, "")
            await asyncio.sleep(self._retry.delay(failures, self._rng))
            self._changed(key, "")

    async def _hold_once(
        self, key: ServerKey, source: ListenTarget, credential: Credential | None, heard: Callable[[str], None]
    ) -> bool:
        """One stream from its opening to its end; whether the server has none."""
        try:
            async with self._connector.session(key, source.endpoint, credential, heard) as session:
                await session.listen()
        except TransportError as error:
            logger.info("%s is listened to no more: %s", key, error)
        except McpError as error:
            logger.info("%s announces changes but has no stream for it: %s", key, error)
            return True
        return False
