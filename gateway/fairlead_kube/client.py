"""Asynchronous client of one Kubernetes API server, with a method per verb.

The client encodes and decodes JSON itself, because the generated models of the Kubernetes client library take most of
the time of a list, drop unknown members and lose the response of an apply that creates a custom object. Every request
has a timeout and a size limit, and returns a value or raises an ApiError.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar, overload
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from aiohttp.http_exceptions import LineTooLong
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config.config_exception import ConfigException

from fairlead_api.meta import MANAGER
from fairlead_kube.errors import ApiError, Gone, NotLeading, Unavailable, error_for
from fairlead_kube.fence import Allowance, fence, guard, unlimited_allowance
from fairlead_kube.resources import PODS, SELF_SUBJECT_ACCESS_REVIEWS, Json, Kind, Scope
from fairlead_mcp.value_count import explain_cost

T = TypeVar("T")

READ_TIMEOUT: Final = 15.0
"""Timeout of a read, in seconds."""
WRITE_TIMEOUT: Final = 4.0
"""Timeout of a write, in seconds. A lease that ends earlier shortens it, because another operator may lead then."""
LOG_TIMEOUT: Final = 4.0
"""Timeout for reading the log of a container, whose node may not respond."""
WATCH_SECONDS: Final = 290
"""Time after which the API server ends a watch."""
SILENCE_SECONDS: Final = 75.0
"""Timeout between two messages of a watch. Bookmarks are sent about once a minute, so a longer silence means a dead
connection."""
CLOSING_SECONDS: Final = 0.25
"""Time that `Kube.aclose` waits for TLS connections to close. That takes several iterations of the event loop, and
aiohttp does not report its end.
"""
APPLY: Final = "application/apply-patch+yaml; charset=utf-8"
"""Content type of an apply. With the parameter `charset`, the Kubernetes client library sends the encoded bytes
unchanged. Without it, the library encodes the body again and escapes non-ASCII characters, which then take six bytes
instead of two, so that a 1 MiB document is rejected."""
MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json"
METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
ANSWER_BYTES: Final = 32 << 20
"""Maximum size of a response in bytes. Splitting a list into objects takes up to 1.6 ms per MiB and blocks the event
loop."""
PAGE_DIVISOR: Final = 8
"""Divides the number of objects per page after a page exceeded the maximum size of a response."""
OBJECT_VALUES: Final = 50_000
"""Maximum number of JSON values in an object that is decoded as a whole; decoding that many takes about 20 ms. An
McpServer has a few hundred values. Of an object with more values, only a part is decoded (see EXCESS_MEMBER).
"""
HEAD_BYTES: Final = 16 << 10
"""Maximum size in bytes of the labels, and likewise of the status, that are decoded of an object with more than
OBJECT_VALUES values."""
EXCESS_MEMBER: Final = "fairlead.dev/excess"
"""Member that is added to an object with more than OBJECT_VALUES values; it says what exceeds the limit. Such an object
has no other members than its identifying metadata and its status.
"""

Query = Sequence[tuple[str, str]]


class ApiRequest(NamedTuple):
    """One request to the API server."""

    method: str
    path: str
    query: Query = ()
    body: Json | None = None
    content_type: str = JSON
    accept: str = JSON


@dataclass(frozen=True)
class WatchEvent(Generic[T]):
    """An event of a watch: ADDED, MODIFIED or DELETED with an object, or BOOKMARK without one."""

    type: str
    version: str
    object: T | None


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _Listing(Sequence[T]):
    """Objects of a list, which are decoded at each access.

    Decoded to Python dicts, an object takes many times the memory of its JSON. If a thousand objects were decoded at
    once, the process would not give their memory back to the system. Reading an object that cannot be decoded raises
    Unavailable.
    """

    __slots__ = ("_action", "_items", "_model")

    def __init__(self, items: Sequence[msgspec.Raw], model: type[T], action: str) -> None:
        self._items = items
        self._model = model
        self._action = action

    def __repr__(self) -> str:
        return f"<_Listing of {len(self)}>"

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return _Listing(self._items[index], self._model, self._action)
        return _decode_object(self._items[index], self._model, self._action)


class _Line(msgspec.Struct):
    """One line of a watch: the type of the event, and the object."""

    type: str
    object: msgspec.Raw


_LEFT_OUT: Final = msgspec.Raw()
"""Value of members that are left out. It is a single object, because `omit_defaults` compares defaults by identity."""


class _ObjectMetadata(msgspec.Struct, rename="camel", omit_defaults=True):
    """Metadata that identify an object and its version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    labels: msgspec.Raw = _LEFT_OUT


class _ObjectHead(msgspec.Struct, omit_defaults=True):
    metadata: _ObjectMetadata
    status: msgspec.Raw = _LEFT_OUT


class AnswerTooLarge(Unavailable):
    """A response exceeds the size limit."""


class _Head(msgspec.Struct):
    """Members of a watched object that the client reads: the version, and the code if the object is a `Status`."""

    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    code: int = 0


def _count_nothing(verb: str, kind: Kind) -> None:
    """Default of `on_write`."""


@dataclass(frozen=True)
class Kube:
    """Client of one API server. `allowance` is called before each write to check the lease; `on_write(verb, kind)` is
    called for each write.

    A request that fails raises ApiError.
    """

    api: ApiClient
    allowance: Allowance = unlimited_allowance
    on_write: Callable[[str, Kind], None] = field(default=_count_nothing)
    answer_bytes: int = ANSWER_BYTES
    """Maximum size in bytes of one response; each page of a list is a response."""

    @classmethod
    def connect(cls, configuration: Configuration) -> Kube:
        """Create a client with its own connections; it has to be closed by `aclose`."""
        return cls(ApiClient(_with_proxy(guard(configuration))))

    @property
    def host(self) -> str:
        return str(self.api.configuration.host)

    async def aclose(self) -> None:
        await self.api.close()
        await asyncio.sleep(CLOSING_SECONDS)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json:
        """Get an object. Raises NotFound."""
        return await self.get_as(Json, kind, namespace, name)

    async def get_as(self, model: type[T], kind: Kind, namespace: str | None, name: str) -> T:
        """Get an object, decoded as `model`. Raises NotFound."""
        action = f"get {kind.display_name(namespace, name)}"
        return _decode(
            await self._call(action, ApiRequest("GET", kind.path(namespace, name)), READ_TIMEOUT), model, action
        )

    async def labels(self, kind: Kind, namespace: str | None, name: str) -> Mapping[str, str]:
        """Labels of an object, by reading its metadata only. Raises NotFound."""
        return (await self.metadata(kind, namespace, name)).get("labels") or {}

    async def metadata(self, kind: Kind, namespace: str | None, name: str) -> Json:
        """Metadata of an object, without its content. Raises NotFound."""
        action, path = f"get {kind.display_name(namespace, name)}", kind.path(namespace, name)
        answer = await self._call(action, ApiRequest("GET", path, accept=METADATA_ONLY), READ_TIMEOUT)
        return _decode(answer, Json, action).get("metadata") or {}

    async def allows(
        self, verb: str, kind: Kind, namespace: str = "", subresource: str = "", *, name: str = ""
    ) -> bool:
        """Whether the client's credentials permit a verb, by a SelfSubjectAccessReview."""
        attributes = {"verb": verb, "group": kind.group, "resource": kind.plural}
        attributes |= {"namespace": namespace} if namespace else {}
        attributes |= {"subresource": subresource} if subresource else {}
        attributes |= {"name": name} if name else {}
        answer = await self.review(SELF_SUBJECT_ACCESS_REVIEWS, {"resourceAttributes": attributes}, Json)
        return bool(answer.get("status", {}).get("allowed"))

    async def review(self, kind: Kind, spec: Json, model: type[T]) -> T:
        """Create a review of an access or a token, and return the API server's answer; a review is not stored. Errors
        do not quote `spec`.
        """
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        action = f"create {kind.plural}"
        return _decode(await self._call(action, ApiRequest("POST", kind.path(), body=body)), model, action)

    async def get_path(self, path: str) -> Json:
        """Get the JSON object at a path that does not belong to a kind, such as `/version`."""
        action = f"get {path}"
        return _decode(await self._call(action, ApiRequest("GET", path), READ_TIMEOUT), Json, action)

    async def log(self, namespace: str, pod: str, container: str, *, lines: int, size: int, seconds: int) -> bytes:
        """Read the end of a container's log: at most `lines` lines and `size` bytes of the last `seconds` seconds."""
        limits = {"container": container, "tailLines": lines, "limitBytes": size, "sinceSeconds": seconds}
        query = [(name, str(value)) for name, value in limits.items()]
        action, path = f"get {PODS.display_name(namespace, pod, 'log')}", PODS.path(namespace, pod, "log")
        return await self._call(action, ApiRequest("GET", path, query, accept="*/*"), LOG_TIMEOUT)

    async def list(self, scope: Scope[T], *, cached: bool = False) -> tuple[Sequence[T], str]:
        """List all objects of all pages; also returns the resourceVersion to watch from.

        Items have neither `kind` nor `apiVersion`, as the API server leaves them out of lists. With `cached`, the API
        server responds with one page from its watch cache, which may lag behind etcd (`resourceVersion=0`). If that
        page is too large, smaller pages are requested from etcd.
        """
        items: list[msgspec.Raw] = []
        token, limit = "", scope.kind.page
        while True:
            try:
                page = await self._page(scope, limit, token, cached=cached)
            except AnswerTooLarge:
                if limit == 1 and not cached:
                    raise
                limit, cached = limit if cached else max(limit // PAGE_DIVISOR, 1), False
                continue
            items += page.items or ()
            token = page.metadata.continue_
            if not token:
                return _Listing(items, scope.model, f"list {scope}"), page.metadata.resource_version

    async def list_metadata(self, scope: Scope[Json]) -> AsyncIterator[Json]:
        """Metadata of all objects, page by page, without their contents."""
        token = ""
        while True:
            page = await self._page(scope, scope.kind.page, token, accept=METADATA_LIST)
            for item in _Listing(page.items or (), scope.model, f"list {scope}"):
                yield item["metadata"]
            token = page.metadata.continue_
            if not token:
                return

    async def probe(self, scope: Scope[T]) -> None:
        """List at most one object, to check that the scope can be listed."""
        await self._page(scope, 1, "")

    async def _page(
        self, scope: Scope[T], limit: int, token: str, *, cached: bool = False, accept: str = JSON
    ) -> _Page:
        query = [*scope.query(), ("limit", str(limit))]
        if token:
            query.append(("continue", token))  # it includes the resourceVersion, which may not be set a second time
        elif cached:
            query.append(("resourceVersion", "0"))
        action, path = f"list {scope}", scope.kind.path(scope.namespace)
        data = await self._call(action, ApiRequest("GET", path, query, accept=accept), READ_TIMEOUT)
        return _decode(data, _Page, action)

    async def create(self, kind: Kind, namespace: str | None, body: Json, *, manager: str = MANAGER) -> Json:
        """Create an object. Raises Conflict if it exists."""
        request = ApiRequest("POST", kind.path(namespace), [("fieldManager", manager)], body)
        return await self._write("create", kind, (namespace,), request)

    async def replace(self, kind: Kind, namespace: str | None, name: str, body: Json) -> Json:
        """Replace an object. Raises Conflict if `metadata.resourceVersion` in `body` is not the current version."""
        request = ApiRequest("PUT", kind.path(namespace, name), [("fieldManager", MANAGER)], body)
        return await self._write("update", kind, (namespace, name), request)

    async def apply(
        self, kind: Kind, namespace: str | None, body: Json, *, subresource: str | None = None, manager: str = MANAGER
    ) -> Json:
        """Server-side apply with force. An apply without changes keeps the resourceVersion. `manager` gives up the
        ownership of fields that `body` leaves out.

        Raises NotFound for a subresource of an object that does not exist.
        """
        target = (namespace, body["metadata"]["name"], subresource)
        query = [("fieldManager", manager), ("force", "true")]
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        request = ApiRequest("PATCH", kind.path(*target), query, {**head, **body}, APPLY)
        return await self._write("patch", kind, target, request)

    async def merge(self, kind: Kind, namespace: str | None, name: str, patch: Json, *, manager: str = MANAGER) -> Json:
        """Change an object by a JSON merge patch, in which null deletes a member."""
        request = ApiRequest("PATCH", kind.path(namespace, name), [("fieldManager", manager)], patch, MERGE)
        return await self._write("patch", kind, (namespace, name), request)

    async def delete(self, kind: Kind, namespace: str | None, name: str, *, uid: str | None = None) -> None:
        """Delete an object, and its dependents in the background. With `uid`, raises Conflict if the object has another
        uid.
        """
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        request = ApiRequest("DELETE", kind.path(namespace, name), body=body)
        await self._write("delete", kind, (namespace, name), request)

    async def watch(
        self, scope: Scope[T], version: str, on_open: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield changes after `version`, including bookmarks, until the API server ends the stream after some minutes.

        `on_open` is called when the stream begins. Raises Gone if the version is too old or an event exceeds 4 MiB,
        Unavailable if the connection breaks.
        """
        query = [*scope.query(), ("watch", "true"), ("allowWatchBookmarks", "true")]
        query += [("timeoutSeconds", str(WATCH_SECONDS)), ("resourceVersion", version)]
        limits = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=SILENCE_SECONDS)
        action = f"watch {scope}"
        with _connection_errors(action):
            response = await self._send(ApiRequest("GET", scope.kind.path(scope.namespace), query), limits)
            try:
                if response.status >= 400:
                    raise error_for(response.status, await self._read_body(response, action), action)
                on_open()
                while line := await response.content.readline():
                    yield _event(line, scope.model, action)
            except LineTooLong:  # `readline` accepts at most twice the client's `read_bufsize`
                raise Gone(f"cannot {action}: an event exceeds 4 MiB") from None
            finally:
                connection = response.connection
                if connection is not None and connection.transport is not None:
                    connection.transport.abort()  # close at once, without a TLS shutdown
                response.close()

    async def _write(self, verb: str, kind: Kind, target: tuple[str | None, ...], request: ApiRequest) -> Json:
        """Send a write. Raises NotLeading if this process does not hold the lease, or loses it meanwhile."""
        action = f"{verb} {kind.display_name(*target)}"
        seconds = self._seconds_left(action)
        self.on_write(verb, kind)
        request = request._replace(query=[*request.query, ("timeout", f"{seconds:.3f}s")])
        with fence(self.allowance):
            try:
                data = await self._call(action, request, seconds)
            except Unavailable:
                self._seconds_left(action)
                raise
        return _decode_object(msgspec.Raw(data), Json, action)

    def _seconds_left(self, action: str) -> float:
        seconds = min(WRITE_TIMEOUT, self.allowance())
        if seconds <= 0:
            raise NotLeading(f"cannot {action}: the write was not sent, because this operator is not the leader")
        return seconds

    async def _call(self, action: str, request: ApiRequest, timeout: float = WRITE_TIMEOUT) -> bytes:
        """Send a request and return the body of its response."""
        # asyncio's timeout: aiohttp's `total` loses a cancellation that arrives in the loop iteration of the timeout
        limits = aiohttp.ClientTimeout(total=None, sock_connect=min(5.0, timeout))
        with _connection_errors(action):
            async with asyncio.timeout(timeout):
                response = await self._send(request, limits)
                data = await self._read_body(response, action)
        if response.status >= 400:
            raise error_for(response.status, data, action)
        return data

    async def _read_body(self, response: aiohttp.ClientResponse, action: str) -> bytes:
        data = bytearray()
        try:
            async for chunk in response.content.iter_any():
                data += chunk
                if len(data) > self.answer_bytes:
                    raise AnswerTooLarge(f"cannot {action}: the response exceeds {self.answer_bytes} bytes")
        except BaseException:
            response.close()  # a connection with unread data cannot be reused
            raise
        return bytes(data)

    async def _send(self, request: ApiRequest, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        headers = {"Accept": request.accept, "Content-Type": request.content_type}
        method, url, headers, _, _ = await self.api.param_serialize(
            request.method,
            request.path,
            query_params=list(request.query),
            header_params=headers,
            auth_settings=["BearerToken"],
        )
        content = msgspec.json.encode(request.body) if request.content_type == APPLY else request.body
        answer = await self.api.call_api(method, url, headers, content, _request_timeout=limits)
        response: aiohttp.ClientResponse = answer.response
        return response


@contextmanager
def _connection_errors(action: str) -> Iterator[None]:
    """Raise Unavailable for all errors of a connection, including errors of reading a rotated token."""
    try:
        yield
    except (TimeoutError, OSError, aiohttp.ClientError, ConfigException, ValueError) as error:
        cause = "no response in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        raise Unavailable(f"cannot {action}: {cause}") from error


def _with_proxy(configuration: Configuration) -> Configuration:
    """Set the proxy that the environment defines for this host. Otherwise aiohttp would look for the proxy and for a
    .netrc at each request, each time with two hand-overs to a thread.
    """
    host = urlsplit(configuration.host)
    # NO_PROXY has IPv6 addresses without brackets
    if configuration.proxy is None and not proxy_bypass(host.netloc) and not proxy_bypass(host.hostname or ""):
        configuration.proxy = getproxies().get(host.scheme)
    configuration.client_session_kwargs = {"trust_env": False}
    return configuration


def _decode(data: bytes | msgspec.Raw, model: type[T], action: str) -> T:
    try:
        return msgspec.json.decode(data, type=model)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        # from None: the cause may contain the response, which may be a Secret
        raise Unavailable(f"cannot {action}: the response cannot be decoded: {error}") from None


def _decode_object(raw: msgspec.Raw, model: type[T], action: str) -> T:
    """Decode an object of any size. An object with more than OBJECT_VALUES values is reduced to some of its metadata,
    its status and EXCESS_MEMBER.
    """
    document = bytes(raw)
    excess = explain_cost(document, OBJECT_VALUES) if len(document) > OBJECT_VALUES else None
    if excess is None:
        return _decode(raw, model, action)
    head = _decode(raw, _ObjectHead, action)
    if len(head.status) > HEAD_BYTES:
        head.status = _LEFT_OUT
    if len(head.metadata.labels) > HEAD_BYTES:
        head.metadata.labels = _LEFT_OUT
    members: Json = msgspec.json.decode(msgspec.json.encode(head))
    try:
        return msgspec.convert({**members, EXCESS_MEMBER: excess}, model)
    except msgspec.ValidationError as error:
        raise Unavailable(f"cannot {action}: an object has {excess}: {error}") from None


def bound_item(item: Json) -> Json:
    """Apply the limit OBJECT_VALUES to an object that another client has decoded: return it unchanged, or reduced to
    some of its metadata, its status and EXCESS_MEMBER."""
    document = msgspec.json.encode(item)
    return item if len(document) <= OBJECT_VALUES else _decode_object(msgspec.Raw(document), Json, "read an object")


def _event(line: bytes, model: type[T], action: str) -> WatchEvent[T]:
    event = _decode(line, _Line, action)
    head = _decode(event.object, _Head, action)
    if event.type == "ERROR":
        raise error_for(head.code or 500, bytes(event.object), action)
    item = None if event.type == "BOOKMARK" else _decode_object(event.object, model, action)
    return WatchEvent(event.type, head.metadata.resource_version, item)


__all__ = ["ApiError", "Json", "Kube", "WatchEvent"]
