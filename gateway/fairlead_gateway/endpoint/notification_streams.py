"""Streams of notifications: `subscriptions/listen` of modern clients, and the GET of legacy sessions.

A list has changed when the bytes that an endpoint lists have, and when a server that is seen there says so: it may
speak of what no list shows. Clients are notified once they would read the new list. Nothing waits here; a stream costs
its connection and a few hundred bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.subscriptions.resource_subscriptions import UPDATED, ResourceSubscriptions, subscribable
from fairlead_gateway.calls.subscriptions.task_subscriptions import (
    ACKNOWLEDGED,
    NOTIFIED,
    TaskListener,
    TaskSubscriptions,
)
from fairlead_gateway.calls.tasks.client_tasks import declaring
from fairlead_gateway.core.client_message import Rejection, reject_crowd
from fairlead_gateway.core.request import McpRequest, agent_of
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.core.task import TaskRef
from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.exchange import HttpExchange
from fairlead_gateway.endpoint.inbound import SESSION, undeclared
from fairlead_gateway.endpoint.view_builds import ViewBuilds
from fairlead_gateway.identity.identities import Identities
from fairlead_gateway.limits.shares import Shares
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.view import View, server_target
from fairlead_gateway.yielding import in_turns
from fairlead_mcp import eras, jsonrpc, methods
from fairlead_mcp.uris import UPDATE, UriNames

KEEP_ALIVE_SECONDS: Final = 15.0
MAX_STREAMS: Final = 10_000
MAX_RESOURCES: Final = 64
"""Resources that one stream may name, and tasks."""
MAX_RESOURCE_BYTES: Final = 4 << 20
"""Bytes of all URIs and ids of tasks that open streams name."""
MAX_CAPABILITIES: Final = 4096
"""Bytes of client capabilities that a stream keeps; of larger ones servers are told that there are tasks, alone."""
MAX_ID: Final = 256
"""Bytes of the id of a request that a stream answers."""
LISTS: Final = eras.ANNOUNCED
_COMMENT: Final = responses.chunk(b": keep-alive\n\n")


class _Listen(msgspec.Struct):
    notifications: dict[str, Raw] = {}


class NotificationStream:
    """One open stream. `cancel` is for the exchange, when its client is gone."""

    __slots__ = (
        "_streams",
        "agent",
        "exchange",
        "listened",
        "lists",
        "release",
        "resources",
        "subscription",
        "tasks",
        "watched",
    )

    def __init__(
        self, streams: NotificationStreams, exchange: HttpExchange, lists: Iterable[str], subscription: bytes | None
    ) -> None:
        self._streams = streams
        self.subscription = subscription
        """Id of the request that opened it, raw JSON; None for a legacy stream."""
        self.exchange = exchange
        self.agent = ""
        """Agent that it is counted for."""
        self.release: Callable[[], None] = _nothing
        """Called at its end."""
        self.lists = tuple(lists)
        self.resources: list[str] = []
        """URIs that are watched for it."""
        self.watched: list[tuple[NotificationStream, ServerKey]] = []
        """Its holders of resources."""
        self.tasks: list[str] = []
        """Sealed ids of tasks that it listens to."""
        self.listened: list[tuple[NotificationStream, ServerKey, bytes | None]] = []
        """Its holders of tasks."""

    @property
    def id(self) -> bytes:
        """Id of the request that it answers, raw JSON."""
        return self.subscription or b"null"

    def cancel(self) -> None:
        self._streams.gone(self)

    def acknowledge(self) -> None:
        """Send the first message of a modern stream: the subscriptions that are granted."""
        granted: dict[str, object] = {f"{name}ListChanged": True for name in self.lists}
        if self.resources:
            granted["resourceSubscriptions"] = self.resources
        if self.tasks:
            granted["taskIds"] = self.tasks
        self._send(ACKNOWLEDGED, {"notifications": granted})

    def changed(self, name: str) -> None:
        self._send(f"notifications/{name}/list_changed", {})

    def updated(self, names: UriNames | None, params: Raw) -> None:
        """A resource that it watches has changed; `names` are those of its server's URIs on the endpoint."""
        try:
            shown = params if names is None else names.show_in(params, UPDATE)
            members: dict[str, object] = {"uri": jsonrpc.decode_object(shown)["uri"]}
        except (*jsonrpc.UNREADABLE, KeyError):
            return
        self._send(UPDATED, members)

    def task(self, params: bytes) -> bool:
        """A task that it listens to has changed; False where its client does not read."""
        members: dict[str, object] = {**jsonrpc.decode_object(params)}
        return self._send(NOTIFIED, members)

    def end(self) -> None:
        """The gateway ends it: a modern one with a result, for its request asked for one."""
        if self.subscription is None:
            self.exchange.end(responses.END_OF_STREAM)
        else:
            self.exchange.answer(200, *responses.result_parts(self.subscription, b'{"resultType":"complete"}'))

    def _send(self, method: str, params: dict[str, object]) -> bool:
        if self.subscription is not None:
            params["_meta"] = {eras.META_SUBSCRIPTION: Raw(self.subscription)}
        return self.exchange.notify(jsonrpc.notification(method, jsonrpc.encode(params) if params else None))


class NotificationStreams:
    """All open streams of one gateway. A stream ends with the credential that it was opened with."""

    def __init__(
        self,
        watches: ResourceSubscriptions,
        tasks: TaskSubscriptions,
        identities: Identities,
        selection: Callable[[], Selection],
        each: int = 0,
        counts: ShareCounts | None = None,
    ) -> None:
        """`selection` is the one that is served now; `each`: streams of one agent, 0: a quarter of all; `counts` has
        those that were refused.
        """
        self._selection = selection
        self.view_builds = ViewBuilds()
        self._watches = watches
        self._tasks = tasks
        self._identities = identities
        self._open: set[NotificationStream] = set()
        self._shares = Shares("streams", MAX_STREAMS, each, counts)
        self._watched = Shares("watched_bytes", MAX_RESOURCE_BYTES, counts=counts)
        """Bytes of URIs and ids of tasks that open streams name."""
        self._of_session: dict[bytes, NotificationStream] = {}
        self._closed = False
        self._kept_alive_at = 0.0

    def __len__(self) -> int:
        return len(self._open)

    def listen(self, exchange: HttpExchange, view: View, request: McpRequest) -> Rejection | None:
        """Open a modern stream, or return the rejection."""
        try:
            subscriptions = msgspec.json.decode(jsonrpc.encode(request.params), type=_Listen).notifications
        except jsonrpc.UNREADABLE:
            message = "params.notifications must be an object"
            return Rejection(400, jsonrpc.INVALID_PARAMS, message, request.id)
        if "taskIds" in subscriptions and methods.TASKS not in request.meta.extensions:
            return undeclared(methods.TASKS, request.id)
        if len(request.id) > MAX_ID:
            return Rejection(400, jsonrpc.INVALID_REQUEST, f"the id of a stream has at most {MAX_ID} bytes")
        wanted = [name for name in offered(view) if bytes(subscriptions.get(f"{name}ListChanged", b"")) == b"true"]
        stream = NotificationStream(self, exchange, wanted, request.id)
        refused = self._opened(stream)
        if refused is None:
            self._watch(stream, view, _named(subscriptions.get("resourceSubscriptions")))
            self._listen(stream, view, _named(subscriptions.get("taskIds")), _capabilities(request))
            stream.acknowledge()
        return refused

    def _listen(self, stream: NotificationStream, view: View, idents: list[str], capabilities: bytes) -> None:
        """Listen to the tasks that a stream names, as far as they are its principal's and shown to it."""
        identity, tasks_of_pods = stream.exchange.identity, dict[tuple[ServerKey, bytes | None], list[TaskRef]]()
        for ident in idents:
            task = self._tasks.find(view, ident, identity)
            if task is not None and self._watched.bound(stream.agent, len(ident)) is None:
                self._watched.take(stream.agent, len(ident))
                stream.tasks.append(ident)
                tasks_of_pods.setdefault((task.server, task.pod), []).append(task)

        def find(task: TaskRef) -> Route | None:
            view = self._selection().seen_by(identity).get(stream.exchange.target)
            return None if view is None else self._tasks.route(view, task)

        listener = TaskListener(stream.exchange, find, stream.task, capabilities)
        for (server, pod), tasks in tasks_of_pods.items():
            holder = stream, server, pod
            stream.listened.append(holder)
            self._tasks.hold(holder, listener, tasks)

    def _watch(self, stream: NotificationStream, view: View, uris: list[str]) -> None:
        """Watch the resources that a stream names, as far as they can be."""
        bindings: dict[int, tuple[ServerBinding, list[str]]] = {}
        for uri in uris:
            watched = subscribable(view.offers, uri)
            if watched is not None and self._watched.bound(stream.agent, len(uri)) is None:
                self._watched.take(stream.agent, len(uri))
                stream.resources.append(uri)
                bindings.setdefault(id(watched[0]), (watched[0], []))[1].append(watched[1])
        for binding, own in bindings.values():
            tell = partial(stream.updated, view.offers.names(binding.server.key))
            self._watches.hold((stream, binding.server.key), stream.agent, binding, own, tell)
            stream.watched.append((stream, binding.server.key))

    def get(self, exchange: HttpExchange, view: View) -> Rejection | None:
        """Open the stream of a legacy session, or return the rejection."""
        stream = NotificationStream(self, exchange, offered(view), None)
        refused = self._opened(stream)
        if refused is None:
            self._of_session[exchange.headers[SESSION]] = stream
            exchange.begin_stream()
            exchange.write(_COMMENT)
        return refused

    async def swapped(self, before: Selection, after: Selection) -> None:
        """Notify the clients whose lists have changed; end the streams of endpoints that are gone, and those on
        resources of servers that are gone.
        """
        changes: dict[tuple[int, int], tuple[View, View, frozenset[str]]] = {}
        for stream in [*self._open]:
            exchange = stream.exchange
            for selection in (before, after):
                await self.view_builds.ready(selection, exchange.identity, exchange.target)
                view = selection.seen_by(exchange.identity).get(exchange.target)
                if view is not None:
                    await in_turns(view.prepare_in_slices())
            if stream not in self._open:
                continue
            views = after.seen_by(exchange.identity)
            old, new = before.seen_by(exchange.identity).get(exchange.target), views.get(exchange.target)
            if new is None or old is None or any(server_target(key) not in views for _, key in stream.watched):
                self._end(stream)
                continue
            both = id(old), id(new)
            if both not in changes:
                differing = frozenset(name for name in LISTS if _differ(old, new, name))
                changes[both] = old, new, differing  # with the views, so that no other takes over their ids
            for name in stream.lists:
                if name in changes[both][2]:
                    stream.changed(name)

    def keep_alive(self, now: float) -> None:
        """Called every second or so; `now` in seconds."""
        if now - self._kept_alive_at >= KEEP_ALIVE_SECONDS:
            self._kept_alive_at = now
            for stream in self._open:
                stream.exchange.write(_COMMENT)

    def close(self) -> None:
        """End all of them and take no more."""
        self._closed = True
        for stream in [*self._open]:
            self._end(stream)

    def notify(self, session: bytes, params: Raw) -> bool:
        """Notify a legacy session of a changed resource; False where it has no open stream, or does not see that
        resource any more.
        """
        stream = self._of_session.get(session)
        if stream is None or not self._sees(stream.exchange, params):
            return False
        return stream.exchange.notify(jsonrpc.notification(UPDATED, params))

    def _sees(self, exchange: HttpExchange, params: Raw) -> bool:
        try:
            uri = msgspec.json.decode(jsonrpc.decode_object(params)["uri"], type=str)
        except (*jsonrpc.UNREADABLE, KeyError):
            return False
        view = self._selection().seen_by(exchange.identity).get(exchange.target)
        return view is not None and view.offers.resource(uri) is not None

    def gone(self, stream: NotificationStream) -> None:
        if stream in self._open:
            self._open.remove(stream)
            self._shares.give_back(stream.agent)
        stream.release()
        watched = sum(map(len, (*stream.resources, *stream.tasks)))
        if watched:
            self._watched.give_back(stream.agent, watched)
        stream.resources = []
        stream.tasks = []
        for holder in stream.watched:
            self._watches.drop(holder)
        for listened in stream.listened:
            self._tasks.drop(listened)
        session = stream.exchange.headers.get(SESSION, b"")
        if self._of_session.get(session) is stream:
            del self._of_session[session]

    def _opened(self, stream: NotificationStream) -> Rejection | None:
        if not stream.exchange.can_stream:
            message = "Not Acceptable: what this asks for is an event stream: accept text/event-stream, over HTTP/1.1"
            return Rejection(406, jsonrpc.INVALID_REQUEST, message, stream.id)
        if self._closed:
            return Rejection(503, jsonrpc.INTERNAL_ERROR, "No more streams are opened now", stream.id)
        stream.agent = agent_of(stream.exchange)
        reached = self._shares.bound(stream.agent)
        if reached is not None:
            if reached.bound == "agent":
                message = f"{reached.most} of your streams are open, the most of one agent: close one"
                return reject_crowd(429, message, stream.id)
            return reject_crowd(503, f"{reached.most} streams are open, the most of this gateway", stream.id)
        self._shares.take(stream.agent)
        stream.exchange.body = b""  # it may be large, and the stream may stay for days
        stream.exchange.cancel_on_disconnect = True  # of either era
        stream.exchange.call = stream
        self._open.add(stream)
        stream.release = self._identities.hold(stream.exchange.identity, lambda: self._end(stream))
        return None

    def _end(self, stream: NotificationStream) -> None:
        stream.end()
        self.gone(stream)


def offered(view: View) -> list[str]:
    """The lists that an endpoint has."""
    return [name for name in LISTS if name == "tools" or name in view.offers.features]


def _differ(old: View, new: View, name: str) -> bool:
    before, after = old.offers.announcements, new.offers.announcements
    if any(key[1] == name and before.get(key) != at for key, at in after.items()):
        return True
    if name == "tools":
        return not old.lists_as(new)
    return _bytes(old, name) != _bytes(new, name)


def _bytes(view: View, name: str) -> tuple[bytes, ...]:
    listings = view.offers.listings
    if name == "prompts":
        return (listings["prompts/list"],)
    return listings["resources/list"], listings["resources/templates/list"]


def _named(wanted: Raw | None) -> list[str]:
    """Names of what a stream wants to hear of; none where they are not texts."""
    try:
        names = msgspec.json.decode(wanted, type=list[str]) if wanted is not None else []
    except jsonrpc.UNREADABLE:
        return []
    return [*dict.fromkeys(names[:MAX_RESOURCES])]


def _capabilities(request: McpRequest) -> bytes:
    """Client capabilities of a request, raw JSON."""
    capabilities = jsonrpc.decode_object(request.params["_meta"])[eras.META_CAPABILITIES]
    return bytes(capabilities) if len(capabilities) <= MAX_CAPABILITIES else declaring(None)


def _nothing() -> None:
    pass
