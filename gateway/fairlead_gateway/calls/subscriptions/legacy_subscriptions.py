"""Subscriptions of legacy clients at modern servers: `resources/subscribe` there is `subscriptions/listen` here."""

from __future__ import annotations

from msgspec import Raw

from fairlead_gateway.calls.questions.server_requests import ServerRequests
from fairlead_gateway.calls.subscriptions.resource_subscriptions import ResourceSubscriptions
from fairlead_gateway.core.route import Route
from fairlead_mcp import jsonrpc


def change(
    subscriptions: ResourceSubscriptions,
    server_requests: ServerRequests,
    route: Route,
    session: bytes,
    agent: str,
    *,
    begins: bool,
) -> None:
    """Begin or end the subscription of an agent's session to the resource of a route."""
    uri, names = route.name, route.uris
    update = Raw(jsonrpc.encode({"uri": uri if names is None else names.show(uri)}))

    def tell(params: Raw) -> None:
        if server_requests.sessions.has_ended(session):
            subscriptions.drop((session, uri))
        else:
            server_requests.outlet(session, update)

    if begins:
        subscriptions.hold((session, uri), agent, route.binding, [uri], tell)
    else:
        subscriptions.drop((session, uri))
