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
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.policy.resource_index import ResourceIndex, is_watchable
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


def subscription_target(index: ResourceIndex, uri: str) -> tuple[ServerBinding, str] | None:
    """The server of a resource, and the resource's URI at that server; None if clients cannot subscribe to it."""
    resource = index.resource(uri) if len(uri) <= MAX_URI else None
    return None if resource is None or not is_watchable(resource[0].server) else resource


class Subscriber(NamedTuple):
    """Client that subscribes to resources."""

    agent: str
    """Agent that the subscription is counted for."""
    identity: Identity
    """Caller whose credential a server with access tokens per call gets."""


class ResourceSubscriptions:
    """Resource subscriptions of one gateway. The `key` of a subscription is any hashable value."""

    def __init__(self, client: eras.Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._watches = WatchTasks()
        self._unsubscribing = TaskSet()

    def __len__(self) -> int:
        return len(self._watches)

    def subscribe(
        self,
        key: object,
        subscriber: Subscriber,
        binding: ServerBinding,
        uris: Sequence[str],
        notify_client: Callable[[Raw], None],
    ) -> None:
        """Subscribe to the server's `uris`. Replaces a subscription with an equal key.

        `notify_client` gets the params of each `notifications/resources/updated`.
        """
        work = self._watch(binding, subscriber.identity, uris, notify_client)
        self._watches.start(key, subscriber.agent, work, f"watch {binding.server.key}")

    def unsubscribe(self, key: object) -> None:
        self._watches.stop(key)

    async def aclose(self) -> None:
        """End all subscriptions, without waiting for `resources/unsubscribe`."""
        await self._watches.cancel()
        await self._unsubscribing.cancel()

    async def _watch(
        self, binding: ServerBinding, identity: Identity, uris: Sequence[str], notify_client: Callable[[Raw], None]
    ) -> None:
        def notify(message: Message) -> None:
            if message.method == UPDATED and isinstance(message.params, Raw):
                notify_client(message.params)

        delay = FIRST_DELAY
        while True:
            started_at = self._clock()
            try:
                if binding.upstream.modern:
                    await self._listen(binding, identity, uris, notify)
                else:
                    await self._subscribe(binding, identity, uris, notify)
            except McpError as error:
                log.info(
                    "The subscription at %s broke off and is renewed in %g s: %s", binding.server.key, delay, error
                )
            if self._clock() - started_at > LAST_DELAY:
                delay = FIRST_DELAY
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_DELAY)

    async def _listen(
        self, binding: ServerBinding, identity: Identity, uris: Sequence[str], notify: Callable[[Message], None]
    ) -> None:
        filter_params = jsonrpc.encode({"notifications": {"resourceSubscriptions": uris}})
        ident, params = binding.upstream.next_id(), eras.modern_params(filter_params, self._client)
        max_bytes = min(binding.max_bytes, MAX_EVENT)
        request = UpstreamRequest(ident, "subscriptions/listen", params, NEVER, max_bytes)
        request.listens = True
        await result_as(binding, identity, request, notify)

    async def _subscribe(
        self, binding: ServerBinding, identity: Identity, uris: Sequence[str], notify: Callable[[Message], None]
    ) -> None:
        """Subscribe in a session of its own; returns when that session has ended."""
        client = ClientPeer(b"watch-" + secrets.token_hex(8).encode(), b"{}")
        ended = asyncio.Event()
        try:
            for uri in uris:
                request = self._legacy_request(binding, SUBSCRIBE, uri, client)
                await result_as(binding, identity, request, notify, ended.set)
            await ended.wait()
        finally:
            if not ended.is_set():
                work = self._send_unsubscribe(binding, identity, uris, client)
                self._unsubscribing.start(work, f"unsubscribe {binding.server.key}")

    async def _send_unsubscribe(
        self, binding: ServerBinding, identity: Identity, uris: Sequence[str], client: ClientPeer
    ) -> None:
        try:
            for uri in uris:
                await result_as(binding, identity, self._legacy_request(binding, UNSUBSCRIBE, uri, client))
        except McpError as error:
            log.debug("resources/unsubscribe at %s failed: %s", binding.server.key, error)

    def _legacy_request(self, binding: ServerBinding, method: str, uri: str, client: ClientPeer) -> UpstreamRequest:
        params, deadline = jsonrpc.encode({"uri": uri}), self._clock() + binding.timeout
        max_bytes = min(binding.max_bytes, MAX_EVENT)
        request = UpstreamRequest(binding.upstream.next_id(), method, params, deadline, max_bytes)
        request.client = client
        return request
