"""Subscriptions to resources at servers of either era, on behalf of clients.

They are those of modern clients, whose stream names resources, and of legacy clients at modern servers. A modern
server gets `subscriptions/listen`, a legacy one `resources/subscribe` in a session of the subscription's own; one that
ends is begun again after a while. Only at servers over streamable HTTP (`is_watchable`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Raw

from fairlead_gateway.calls.subscriptions.watches import WatchTasks
from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.server_binding import ServerBinding as Reach
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.policy.resource_index import ResourceIndex as Offers
from fairlead_gateway.policy.resource_index import is_watchable
from fairlead_gateway.sending import result_of
from fairlead_gateway.upstream.server_session import SUBSCRIBE, UNSUBSCRIBE
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.errors import McpError
from fairlead_mcp.messages import Message

log = logging.getLogger(__name__)

UPDATED: Final = "notifications/resources/updated"
MAX_EVENT: Final = 256 << 10
"""Bytes of what a server says at once about what is watched: a notification is small."""
MAX_URI: Final = 2048
"""Bytes of a URI that is watched, about: characters."""
FIRST_DELAY: Final = 1.0
LAST_DELAY: Final = 60.0
"""Seconds before a watch that ended is begun again."""
NEVER: Final = float("inf")


def subscribable(offers: Offers, uri: str) -> tuple[Reach, str] | None:
    """Server of a URI and its name there, where it can be subscribed to."""
    resource = offers.resource(uri) if len(uri) <= MAX_URI else None
    return None if resource is None or not is_watchable(resource[0].server) else resource


class ResourceSubscriptions:
    """Subscriptions of one gateway, by holder. `tell` gets the params of each update."""

    def __init__(self, client: eras.Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._held = WatchTasks()
        self._farewells = TaskSet()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, holder: object, agent: str, reach: Reach, uris: Sequence[str], tell: Callable[[Raw], None]) -> None:
        """Subscribe for a holder of an agent, in place of what the holder had before."""
        self._held.hold(holder, agent, self._watch(reach, uris, tell), f"watch {reach.server.key}")

    def drop(self, holder: object) -> None:
        self._held.drop(holder)

    async def aclose(self) -> None:
        """End all of them; servers are unsubscribed at as far as that takes no time."""
        await self._held.cancel()
        await self._farewells.cancel()

    async def _watch(self, reach: Reach, uris: Sequence[str], tell: Callable[[Raw], None]) -> None:
        def notify(message: Message) -> None:
            if message.method == UPDATED and isinstance(message.params, Raw):
                tell(message.params)

        delay = FIRST_DELAY
        while True:
            began = self._clock()
            try:
                if reach.upstream.modern:
                    await self._listen(reach, uris, notify)
                else:
                    await self._subscribe(reach, uris, notify)
            except McpError as error:
                log.info("%s is watched again in %g s: %s", reach.server.key, delay, error)
            if self._clock() - began > LAST_DELAY:
                delay = FIRST_DELAY
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_DELAY)

    async def _listen(self, reach: Reach, uris: Sequence[str], notify: Callable[[Message], None]) -> None:
        wanted = jsonrpc.encode({"notifications": {"resourceSubscriptions": uris}})
        ident, params = reach.upstream.next_id(), eras.modern_params(wanted, self._client)
        most = min(reach.max_bytes, MAX_EVENT)
        request = UpstreamRequest(ident, "subscriptions/listen", params, NEVER, most)
        request.listens = True
        await result_of(reach.upstream, request, notify)

    async def _subscribe(self, reach: Reach, uris: Sequence[str], notify: Callable[[Message], None]) -> None:
        client = ClientPeer(b"watch-" + secrets.token_hex(8).encode(), b"{}")
        try:
            for uri in uris:
                await result_of(reach.upstream, self._legacy(reach, SUBSCRIBE, uri, client), notify)
            await asyncio.Event().wait()
        finally:
            self._farewells.start(self._unsubscribe(reach, uris, client), f"unsubscribe {reach.server.key}")

    async def _unsubscribe(self, reach: Reach, uris: Sequence[str], client: ClientPeer) -> None:
        try:
            for uri in uris:
                await result_of(reach.upstream, self._legacy(reach, UNSUBSCRIBE, uri, client))
        except McpError as error:
            log.debug("%s was not told that nobody watches any more: %s", reach.server.key, error)

    def _legacy(self, reach: Reach, method: str, uri: str, client: ClientPeer) -> UpstreamRequest:
        params, deadline = jsonrpc.encode({"uri": uri}), self._clock() + reach.timeout
        most = min(reach.max_bytes, MAX_EVENT)
        request = UpstreamRequest(reach.upstream.next_id(), method, params, deadline, most)
        request.client = client
        return request
