"""Subscriptions of legacy clients at modern servers: turns `resources/subscribe` into `subscriptions/listen`."""

from __future__ import annotations

from msgspec import Raw

from fairlead_gateway.calls.questions.server_requests import ServerRequests
from fairlead_gateway.calls.subscriptions.resource_subscriptions import ResourceSubscriptions, Subscriber
from fairlead_gateway.core.route import Route
from fairlead_mcp import jsonrpc


def change_subscription(
    subscriptions: ResourceSubscriptions,
    server_requests: ServerRequests,
    route: Route,
    session: bytes,
    subscriber: Subscriber,
    *,
    subscribes: bool,
) -> None:
    """Begin (`subscribes`) or end the subscription of a client session to the resource of a route.

    Updates are sent on the session's GET stream.
    """
    uri, names = route.name, route.uris
    update = Raw(jsonrpc.encode({"uri": uri if names is None else names.show(uri)}))

    def notify(params: Raw) -> None:
        if server_requests.sessions.has_ended(session):
            subscriptions.unsubscribe((session, uri))
        else:
            server_requests.send_update(session, update)

    if subscribes:
        subscriptions.subscribe((session, uri), subscriber, route.binding, [uri], notify)
    else:
        subscriptions.unsubscribe((session, uri))
