"""Subscriptions to resources at servers of both eras, on behalf of clients.

Covers all clients but legacy clients of legacy servers, whose `resources/subscribe` is forwarded. A modern server gets
`subscriptions/listen`; a legacy server gets `resources/subscribe` in a separate session. A subscription that breaks off
is renewed after a delay. Only servers with Streamable HTTP are supported (`is_watchable`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec import Raw

from fairlead_gateway.calls.subscriptions.watches import WatchTasks
from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.server_binding import ServerBinding as Reach
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.policy.resource_index import ResourceIndex as Offers
from fairlead_gateway.policy.resource_index import is_watchable
from fairlead_gateway.sending import result_as
from fairlead_gateway.upstream.server_session import SUBSCRIBE, UNSUBSCRIBE
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.errors import McpError
from fairlead_mcp.messages import Message

log = logging.getLogger(__name__)

UPDATED: Final = "notifications/resources/updated"
MAX_EVENT: Final = 256 << 10
"""Limit on the bytes of one `notifications/resources/updated`."""
MAX_URI: Final = 2048
"""Limit on the characters of a resource URI."""
FIRST_DELAY: Final = 1.0
"""First delay in seconds before a subscription that broke off is renewed."""
LAST_DELAY: Final = 60.0
"""Longest delay in seconds: the delay doubles with each failure until it is this long."""
NEVER: Final = float("inf")
"""Deadline of a request that may stay open without limit."""


def subscription_target(offers: Offers, uri: str) -> tuple[Reach, str] | None:
    """The server of a resource, and the resource's URI at that server; None if clients cannot subscribe to it."""
    resource = offers.resource(uri) if len(uri) <= MAX_URI else None
    return None if resource is None or not is_watchable(resource[0].server) else resource


class Subscriber(NamedTuple):
    """Client that subscribes to resources."""

    agent: str
    """Agent that the subscription is counted for."""
    identity: Identity
    """Caller whose credential a server with access tokens per call gets."""


class ResourceSubscriptions:
    """Resource subscriptions of one gateway. `holder` is any key that identifies a subscription."""

    def __init__(self, client: eras.Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._watches = WatchTasks()
        self._unsubscribing = TaskSet()

    def __len__(self) -> int:
        return len(self._watches)

    def hold(
        self,
        holder: object,
        subscriber: Subscriber,
        reach: Reach,
        uris: Sequence[str],
        notify_client: Callable[[Raw], None],
    ) -> None:
        """Subscribe to the server's `uris`, in place of an earlier subscription with the key `holder`.

        `notify_client` gets the params of each `notifications/resources/updated`.
        """
        work = self._watch(reach, subscriber.identity, uris, notify_client)
        self._watches.hold(holder, subscriber.agent, work, f"watch {reach.server.key}")

    def drop(self, holder: object) -> None:
        self._watches.drop(holder)

    async def aclose(self) -> None:
        """End all subscriptions, without waiting for `resources/unsubscribe`."""
        await self._watches.cancel()
        await self._unsubscribing.cancel()

    async def _watch(
        self, reach: Reach, identity: Identity, uris: Sequence[str], notify_client: Callable[[Raw], None]
    ) -> None:
        def notify(message: Message) -> None:
            if message.method == UPDATED and isinstance(message.params, Raw):
                notify_client(message.params)

        delay = FIRST_DELAY
        while True:
            began = self._clock()
            try:
                if reach.upstream.modern:
                    await self._listen(reach, identity, uris, notify)
                else:
                    await self._subscribe(reach, identity, uris, notify)
            except McpError as error:
                log.info("The subscription at %s broke off and is renewed in %g s: %s", reach.server.key, delay, error)
            if self._clock() - began > LAST_DELAY:
                delay = FIRST_DELAY
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_DELAY)

    async def _listen(
        self, reach: Reach, identity: Identity, uris: Sequence[str], notify: Callable[[Message], None]
    ) -> None:
        filter_params = jsonrpc.encode({"notifications": {"resourceSubscriptions": uris}})
        ident, params = reach.upstream.next_id(), eras.modern_params(filter_params, self._client)
        max_bytes = min(reach.max_bytes, MAX_EVENT)
        request = UpstreamRequest(ident, "subscriptions/listen", params, NEVER, max_bytes)
        request.listens = True
        await result_as(reach, identity, request, notify)

    async def _subscribe(
        self, reach: Reach, identity: Identity, uris: Sequence[str], notify: Callable[[Message], None]
    ) -> None:
        """Subscribe in a session of its own; returns when that session has ended."""
        client = ClientPeer(b"watch-" + secrets.token_hex(8).encode(), b"{}")
        ended = asyncio.Event()
        try:
            for uri in uris:
                request = self._legacy_request(reach, SUBSCRIBE, uri, client)
                await result_as(reach, identity, request, notify, ended.set)
            await ended.wait()
        finally:
            if not ended.is_set():
                work = self._unsubscribe(reach, identity, uris, client)
                self._unsubscribing.start(work, f"unsubscribe {reach.server.key}")

    async def _unsubscribe(self, reach: Reach, identity: Identity, uris: Sequence[str], client: ClientPeer) -> None:
        try:
            for uri in uris:
                await result_as(reach, identity, self._legacy_request(reach, UNSUBSCRIBE, uri, client))
        except McpError as error:
            log.debug("resources/unsubscribe at %s failed: %s", reach.server.key, error)

    def _legacy_request(self, reach: Reach, method: str, uri: str, client: ClientPeer) -> UpstreamRequest:
        params, deadline = jsonrpc.encode({"uri": uri}), self._clock() + reach.timeout
        max_bytes = min(reach.max_bytes, MAX_EVENT)
        request = UpstreamRequest(reach.upstream.next_id(), method, params, deadline, max_bytes)
        request.client = client
        return request
