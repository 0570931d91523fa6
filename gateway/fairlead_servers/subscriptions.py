"""Resource subscriptions of legacy clients (`resources/subscribe`): events of the SDK's subscription bus become
`notifications/resources/updated`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.server import MCPServer
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ResourceUpdated, ServerEvent, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

MOST_SUBSCRIBERS: Final = 1024
"""Limit on connections with a subscription."""


@dataclass(eq=False)
class _Subscriber:
    connection: Connection
    uris: set[str] = field(default_factory=set)
    changed_uris: set[str] = field(default_factory=set)
    """URIs to notify the client about. A set, so that a slow client gets one notification for several changes."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def note_event(self, event: ServerEvent) -> None:
        """Record an event of the bus."""
        if isinstance(event, ResourceUpdated) and event.uri in self.uris:
            self.changed_uris.add(event.uri)
            self.wake.set()

    async def notify(self) -> None:
        """Notify the client of changes, until cancelled."""
        while True:
            await self.wake.wait()
            self.wake.clear()
            uris, self.changed_uris = self.changed_uris, set()
            for uri in sorted(uris):
                await self.connection.send_resource_updated(uri)


class LegacySubscriptions:
    """Subscriptions of each connection. They end with the connection."""

    def __init__(self, bus: SubscriptionBus, uris: frozenset[str], max_subscribers: int = MOST_SUBSCRIBERS) -> None:
        """`uris`: resources to which clients can subscribe. Their updates are published on the bus. `max_subscribers`:
        maximum number of connections with a subscription.
        """
        self._bus = bus
        self._uris = uris
        self._max_subscribers = max_subscribers
        self._subscribers: dict[Connection, _Subscriber] = {}

    def __len__(self) -> int:
        return len(self._subscribers)

    def serve_on(self, server: MCPServer[Any]) -> None:
        """Register the handlers of `resources/subscribe` and `resources/unsubscribe`; the server then declares
        `subscribe`.
        """
        lowlevel = server._lowlevel_server  # noqa: SLF001  # MCPServer has no public API for request handlers
        lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    async def _subscribe(self, context: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        uri = str(params.uri)
        if uri not in self._uris:
            raise MCPError(INVALID_PARAMS, f"{uri[:200]} cannot be subscribed to, only {', '.join(sorted(self._uris))}")
        connection = _connection(context)
        subscriber = self._subscribers.get(connection)
        if subscriber is None:
            subscriber = self._begin(connection)
        subscriber.uris.add(uri)
        return EmptyResult()

    async def _unsubscribe(
        self, context: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams
    ) -> EmptyResult:
        subscriber = self._subscribers.get(_connection(context))
        if subscriber is not None:
            subscriber.uris.discard(str(params.uri))
        return EmptyResult()

    def _begin(self, connection: Connection) -> _Subscriber:
        """Create the subscriber of a connection. Raises MCPError if there are too many subscribers."""
        if len(self._subscribers) >= self._max_subscribers:
            raise MCPError(INVALID_PARAMS, f"the limit of {self._max_subscribers} subscribed clients is reached")
        subscriber = _Subscriber(connection)
        self._subscribers[connection] = subscriber
        notifier = asyncio.get_running_loop().create_task(subscriber.notify(), name="subscription")
        connection.exit_stack.callback(self._end, connection, notifier, self._bus.subscribe(subscriber.note_event))
        return subscriber

    def _end(self, connection: Connection, notifier: asyncio.Task[None], unsubscribe: Callable[[], None]) -> None:
        self._subscribers.pop(connection, None)
        unsubscribe()
        notifier.cancel()


def _connection(context: ServerRequestContext[Any, Any]) -> Connection:
    return context.session._connection  # noqa: SLF001  # sessions are created per request
