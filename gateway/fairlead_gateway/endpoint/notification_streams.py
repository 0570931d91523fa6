"""Notification streams: `subscriptions/listen` of modern clients, and the GET stream of legacy sessions.

A client gets `list_changed` when the bytes of a list on its endpoint have changed, or when a server that it sees sends
`list_changed`, even if the list is still the same. The notification is sent after the gateway has begun to serve the
new list, so that the client does not fetch the old list. A stream costs a connection and a few hundred bytes, but no
asyncio task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.subscriptions.resource_subscriptions import (
    UPDATED,
    ResourceSubscriptions,
    Subscriber,
    subscription_target,
)
from fairlead_gateway.calls.subscriptions.task_subscriptions import (
    ACKNOWLEDGED,
    NOTIFIED,
    TaskListener,
    TaskSubscriptions,
)
from fairlead_gateway.calls.tasks.client_tasks import with_tasks_extension
from fairlead_gateway.core.client_message import Rejection, limit_rejection
from fairlead_gateway.core.request import McpRequest, agent_of
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.core.task import TaskRef
from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.exchange import HttpExchange
from fairlead_gateway.endpoint.inbound import SESSION, extension_not_declared
from fairlead_gateway.endpoint.view_builds import ViewBuilds
from fairlead_gateway.identity.request_authentication import Identities
from fairlead_gateway.limits.shares import Shares
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.view import View, server_target
from fairlead_gateway.yielding import in_turns
from fairlead_mcp import eras, jsonrpc, methods, url_elicitation
from fairlead_mcp.uris import UPDATE, UriNames

KEEP_ALIVE_SECONDS: Final = 15.0
"""Seconds between two comments on each stream. They show proxies that the stream is in use."""
MAX_STREAMS: Final = 10_000
"""Maximum number of open streams."""
MAX_RESOURCES: Final = 64
"""Maximum number of resources, and of tasks, of one stream."""
MAX_RESOURCE_BYTES: Final = 4 << 20
"""Maximum total number of bytes of resource URIs and task ids in open streams."""
MAX_CAPABILITIES: Final = 4096
"""Maximum number of bytes of client capabilities that are stored for a stream. Larger capabilities are reduced to the
tasks extension."""
MAX_ID: Final = 256
"""Maximum number of bytes of the JSON-RPC id, without its quotation marks, of a request that opens a stream."""
LISTS: Final = eras.ANNOUNCED
"""Names of the lists about whose changes clients are notified, such as `tools`."""
_COMMENT: Final = responses.chunk(b": keep-alive\n\n")


class _Listen(msgspec.Struct):
    notifications: dict[str, Raw] = {}


class NotificationStream:
    """One open notification stream. The exchange calls `cancel` when the client disconnects."""

    __slots__ = (
        "_streams",
        "agent",
        "exchange",
        "lists",
        "release",
        "resource_keys",
        "resources",
        "subscription",
        "task_keys",
        "tasks",
    )

    def __init__(
        self, streams: NotificationStreams, exchange: HttpExchange, lists: Iterable[str], subscription: bytes | None
    ) -> None:
        self._streams = streams
        self.subscription = subscription
        """Id of the request that opened the stream, raw JSON; None for a legacy stream."""
        self.exchange = exchange
        self.agent = ""
        """Agent for which the stream is counted."""
        self.release: Callable[[], None] = _nothing
        """Stops watching whether the client's credential expires or is revoked. Called at the end of the stream."""
        self.lists = tuple(lists)
        """Names of the lists about whose changes the client is notified."""
        self.resources: list[str] = []
        """URIs of the resources to which the stream is subscribed."""
        self.resource_keys: list[tuple[NotificationStream, ServerKey]] = []
        """Keys of the stream's subscriptions in `ResourceSubscriptions`."""
        self.tasks: list[str] = []
        """Sealed ids of the tasks to which the stream is subscribed."""
        self.task_keys: list[tuple[NotificationStream, ServerKey, bytes | None]] = []
        """Keys of the stream's subscriptions in `TaskSubscriptions`."""

    @property
    def id(self) -> bytes:
        """JSON-RPC id for errors, raw JSON; `null` for a legacy stream."""
        return self.subscription or b"null"

    def cancel(self) -> None:
        self._streams.remove(self)

    def acknowledge(self) -> None:
        """Send the first message of a modern stream, which lists the granted subscriptions."""
        granted_filter: dict[str, object] = {f"{name}ListChanged": True for name in self.lists}
        if self.resources:
            granted_filter["resourceSubscriptions"] = self.resources
        if self.tasks:
            granted_filter["taskIds"] = self.tasks
        self._send(ACKNOWLEDGED, {"notifications": granted_filter})

    def notify_list_changed(self, name: str) -> None:
        self._send(f"notifications/{name}/list_changed", {})

    def notify_resource_updated(self, names: UriNames | None, params: Raw) -> None:
        """Notify the client of a changed resource. `names` maps the server's URIs to the URIs of the endpoint."""
        try:
            translated = params if names is None else names.show_in(params, UPDATE)
            members: dict[str, object] = {"uri": jsonrpc.decode_object(translated)["uri"]}
        except (*jsonrpc.UNREADABLE, KeyError):
            return
        self._send(UPDATED, members)

    def notify_task(self, params: bytes) -> bool:
        """Notify the client of a changed task. Returns False if the client does not read."""
        members: dict[str, object] = {**jsonrpc.decode_object(params)}
        return self._send(NOTIFIED, members)

    def end(self) -> None:
        """End the stream from the gateway's side. A modern stream ends with the result of its request."""
        if self.subscription is None:
            self.exchange.end(responses.END_OF_STREAM)
        else:
            self.exchange.answer(200, *responses.result_parts(self.subscription, b'{"resultType":"complete"}'))

    def _send(self, method: str, params: dict[str, object]) -> bool:
        if self.subscription is not None:
            params["_meta"] = {eras.META_SUBSCRIPTION: Raw(self.subscription)}
        return self.exchange.notify(jsonrpc.notification(method, jsonrpc.encode(params) if params else None))


class NotificationStreams:
    """All open notification streams of one gateway.

    A stream ends when the credential of the request that opened it expires or is revoked.
    """

    def __init__(
        self,
        resource_subscriptions: ResourceSubscriptions,
        task_subscriptions: TaskSubscriptions,
        identities: Identities,
        selection: Callable[[], Selection],
        each: int = 0,
        counts: ShareCounts | None = None,
    ) -> None:
        """`selection` returns the servers and tools that are served at present. `each` is the maximum number of streams
        of one agent; 0 stands for a quarter of MAX_STREAMS. `counts` counts refused streams.
        """
        self._selection = selection
        self.view_builds = ViewBuilds()
        self._resource_subscriptions = resource_subscriptions
        self._task_subscriptions = task_subscriptions
        self._identities = identities
        self._open_streams: set[NotificationStream] = set()
        self._shares = Shares("streams", MAX_STREAMS, each, counts)
        self._subscription_bytes = Shares("watched_bytes", MAX_RESOURCE_BYTES, counts=counts)
        """Number of bytes of resource URIs and task ids in open streams, by agent."""
        self._streams_by_session: dict[bytes, NotificationStream] = {}
        """Streams of legacy clients, by session id."""
        self._closed = False
        """Whether new streams are rejected, because the gateway is shutting down."""
        self._kept_alive_at = 0.0
        """Time of the last keep-alive comments, in seconds of the event loop's clock."""

    def __len__(self) -> int:
        return len(self._open_streams)

    def listen(self, exchange: HttpExchange, view: View, request: McpRequest) -> Rejection | None:
        """Open the stream of a modern client (`subscriptions/listen`), or return the rejection."""
        try:
            subscriptions = msgspec.json.decode(jsonrpc.encode(request.params), type=_Listen).notifications
        except jsonrpc.UNREADABLE:
            message = "params.notifications must be an object"
            return Rejection(400, jsonrpc.INVALID_PARAMS, message, request.id)
        if "taskIds" in subscriptions and methods.TASKS not in request.meta.extensions:
            return extension_not_declared(methods.TASKS, request.id)
        if len(request.id.removeprefix(b'"').removesuffix(b'"')) > MAX_ID:
            message = f"the id of a request that opens a stream has at most {MAX_ID} bytes: send a shorter one"
            return Rejection(400, jsonrpc.INVALID_REQUEST, message)
        lists = [name for name in offered_lists(view) if bytes(subscriptions.get(f"{name}ListChanged", b"")) == b"true"]
        stream = NotificationStream(self, exchange, lists, request.id)
        rejection = self._admit(stream)
        if rejection is None:
            self._watch(stream, view, _names_in(subscriptions.get("resourceSubscriptions")))
            self._listen(stream, view, _names_in(subscriptions.get("taskIds")), _capabilities(request))
            stream.acknowledge()
        return rejection

    def _listen(self, stream: NotificationStream, view: View, sealed_ids: list[str], capabilities: bytes) -> None:
        """Subscribe a stream to tasks with the sealed ids `sealed_ids`.

        Tasks of other principals, and of tools that `view` does not show, are left out.
        """
        identity, tasks_of_pods = stream.exchange.identity, dict[tuple[ServerKey, bytes | None], list[TaskRef]]()
        for sealed_id in sealed_ids:
            task = self._task_subscriptions.find(view, sealed_id, identity)
            if task is not None and self._subscription_bytes.bound(stream.agent, len(sealed_id)) is None:
                self._subscription_bytes.take(stream.agent, len(sealed_id))
                stream.tasks.append(sealed_id)
                tasks_of_pods.setdefault((task.server, task.pod), []).append(task)

        def find(task: TaskRef) -> Route | None:
            view = self._selection().seen_by(identity).get(stream.exchange.target)
            return None if view is None else self._task_subscriptions.route(view, task)

        listener = TaskListener(stream.exchange, find, stream.notify_task, capabilities)
        for (server, pod), tasks in tasks_of_pods.items():
            key = stream, server, pod
            stream.task_keys.append(key)
            self._task_subscriptions.subscribe(key, listener, tasks)

    def _watch(self, stream: NotificationStream, view: View, uris: list[str]) -> None:
        """Subscribe a stream to resources. URIs that do not support subscriptions are left out."""
        bindings: dict[int, tuple[ServerBinding, list[str]]] = {}
        for uri in uris:
            server_and_uri = subscription_target(view.resources, uri)
            if server_and_uri is not None and self._subscription_bytes.bound(stream.agent, len(uri)) is None:
                self._subscription_bytes.take(stream.agent, len(uri))
                stream.resources.append(uri)
                bindings.setdefault(id(server_and_uri[0]), (server_and_uri[0], []))[1].append(server_and_uri[1])
        for binding, uris in bindings.values():
            notify = partial(stream.notify_resource_updated, view.resources.uri_names(binding.server.key))
            subscriber = Subscriber(stream.agent, stream.exchange.identity)
            self._resource_subscriptions.subscribe((stream, binding.server.key), subscriber, binding, uris, notify)
            stream.resource_keys.append((stream, binding.server.key))

    def get(self, exchange: HttpExchange, view: View) -> Rejection | None:
        """Open the GET stream of a legacy session, or return the rejection."""
        stream = NotificationStream(self, exchange, offered_lists(view), None)
        rejection = self._admit(stream)
        if rejection is None:
            self._streams_by_session[exchange.headers[SESSION]] = stream
            exchange.begin_stream()
            exchange.write(_COMMENT)
        return rejection

    async def notify_changed_lists(self, before: Selection, after: Selection) -> None:
        """Notify the clients whose lists differ between `before`, the previously served selection, and `after`, the
        current selection.

        Ends the streams of removed endpoints, and the streams that are subscribed to resources of removed servers.
        """
        changes: dict[tuple[int, int], tuple[View, View, frozenset[str]]] = {}
        for stream in [*self._open_streams]:
            exchange = stream.exchange
            for selection in (before, after):
                await self.view_builds.wait_until_built(selection, exchange.identity, exchange.target)
                view = selection.seen_by(exchange.identity).get(exchange.target)
                if view is not None:
                    await in_turns(view.prepare_in_slices())
            if stream not in self._open_streams:
                continue
            views = after.seen_by(exchange.identity)
            old_view, new_view = before.seen_by(exchange.identity).get(exchange.target), views.get(exchange.target)
            is_removed = any(server_target(key) not in views for _, key in stream.resource_keys)
            if new_view is None or old_view is None or is_removed:
                self._end(stream)
                continue
            view_ids = id(old_view), id(new_view)
            if view_ids not in changes:
                changed_lists = frozenset(name for name in LISTS if _differ(old_view, new_view, name))
                # a reference to the views, so that no other object gets their ids
                changes[view_ids] = old_view, new_view, changed_lists
            for name in stream.lists:
                if name in changes[view_ids][2]:
                    stream.notify_list_changed(name)

    def keep_alive(self, now: float) -> None:
        """Write a comment on all streams every KEEP_ALIVE_SECONDS. Must be called about once a second.

        `now` is in seconds of the event loop's clock.
        """
        if now - self._kept_alive_at >= KEEP_ALIVE_SECONDS:
            self._kept_alive_at = now
            for stream in self._open_streams:
                stream.exchange.write(_COMMENT)

    def close(self) -> None:
        """End all streams, and reject new streams."""
        self._closed = True
        for stream in [*self._open_streams]:
            self._end(stream)

    def notify(self, session: bytes, params: Raw) -> bool:
        """Notify a legacy session of a changed resource.

        Returns False if the session has no open stream, or if its view does not contain the resource.
        """
        stream = self._streams_by_session.get(session)
        if stream is None or not self._has_resource(stream.exchange, params):
            return False
        return stream.exchange.notify(jsonrpc.notification(UPDATED, params))

    def complete_elicitation(self, session: bytes, params: Raw) -> None:
        """Notify a legacy session that the elicitation by a web page is complete; no-op without an open stream."""
        stream, completion = self._streams_by_session.get(session), url_elicitation.completion_notification(params)
        if stream is not None and completion is not None:
            stream.exchange.notify(completion)

    def _has_resource(self, exchange: HttpExchange, params: Raw) -> bool:
        try:
            uri = msgspec.json.decode(jsonrpc.decode_object(params)["uri"], type=str)
        except (*jsonrpc.UNREADABLE, KeyError):
            return False
        view = self._selection().seen_by(exchange.identity).get(exchange.target)
        return view is not None and view.resources.resource(uri) is not None

    def remove(self, stream: NotificationStream) -> None:
        if stream in self._open_streams:
            self._open_streams.remove(stream)
            self._shares.give_back(stream.agent)
        stream.release()
        size = sum(map(len, (*stream.resources, *stream.tasks)))
        if size:
            self._subscription_bytes.give_back(stream.agent, size)
        stream.resources = []
        stream.tasks = []
        for key in stream.resource_keys:
            self._resource_subscriptions.unsubscribe(key)
        for task_key in stream.task_keys:
            self._task_subscriptions.unsubscribe(task_key)
        session = stream.exchange.headers.get(SESSION, b"")
        if self._streams_by_session.get(session) is stream:
            del self._streams_by_session[session]

    def _admit(self, stream: NotificationStream) -> Rejection | None:
        if not stream.exchange.can_stream:
            message = "Not Acceptable: the response is an event stream; send Accept: text/event-stream over HTTP/1.1"
            return Rejection(406, jsonrpc.INVALID_REQUEST, message, stream.id)
        if self._closed:
            return Rejection(503, jsonrpc.INTERNAL_ERROR, "The gateway is shutting down", stream.id)
        stream.agent = agent_of(stream.exchange)
        limit = self._shares.bound(stream.agent)
        if limit is not None:
            if limit.bound == "agent":
                message = f"{limit.limit} of your streams are open, the limit for one agent: close a stream"
                return limit_rejection(429, message, stream.id)
            return limit_rejection(503, f"{limit.limit} streams are open, the limit of this gateway", stream.id)
        self._shares.take(stream.agent)
        stream.exchange.body = b""  # the body may be large, and a stream may stay open for days
        stream.exchange.cancel_on_disconnect = True  # for clients of both eras
        stream.exchange.call = stream
        self._open_streams.add(stream)
        stream.release = self._identities.watch(stream.exchange.identity, lambda: self._end(stream))
        return None

    def _end(self, stream: NotificationStream) -> None:
        stream.end()
        self.remove(stream)


def offered_lists(view: View) -> list[str]:
    """Names of the lists that the view's endpoint offers."""
    return [name for name in LISTS if name == "tools" or name in view.resources.features]


def _differ(old_view: View, new_view: View, name: str) -> bool:
    before, after = old_view.resources.announcements, new_view.resources.announcements
    if any(key[1] == name and before.get(key) != at for key, at in after.items()):
        return True
    if name == "tools":
        return not old_view.lists_as(new_view)
    return _bytes(old_view, name) != _bytes(new_view, name)


def _bytes(view: View, name: str) -> tuple[bytes, ...]:
    listings = view.resources.listings
    if name == "prompts":
        return (listings["prompts/list"],)
    return listings["resources/list"], listings["resources/templates/list"]


def _names_in(lists: Raw | None) -> list[str]:
    """The first MAX_RESOURCES strings of a raw JSON array, without duplicates; empty for any other JSON."""
    try:
        names = msgspec.json.decode(lists, type=list[str]) if lists is not None else []
    except jsonrpc.UNREADABLE:
        return []
    return [*dict.fromkeys(names[:MAX_RESOURCES])]


def _capabilities(request: McpRequest) -> bytes:
    """Client capabilities of a request, raw JSON. Long capabilities are reduced to the tasks extension."""
    capabilities = jsonrpc.decode_object(request.params["_meta"])[eras.META_CAPABILITIES]
    return bytes(capabilities) if len(capabilities) <= MAX_CAPABILITIES else with_tasks_extension(None)


def _nothing() -> None:
    pass
