"""The API server as a handful of verbs over plain dicts.

Raw calls, because the generated models cost most of the time of a listing, prune members and lose the answer of an
apply that creates a custom object. Every call has a bound and ends in a value or in an error of `errors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from kubernetes.aio.client import ApiClient, Configuration

from fairlead_api.meta import MANAGER
from fairlead_kube.errors import ApiError, Gone, NotLeading, Unavailable, error_for
from fairlead_kube.fence import Allowance, always, fenced, guarded
from fairlead_kube.resources import Kind

Json = dict[str, Any]

READ_TIMEOUT: Final = 15.0
WRITE_TIMEOUT: Final = 4.0
"""The most for a write; one under a lease gets no more than what is left until another operator may lead."""
LIST_PAGE: Final = 500
CLOSING_SECONDS: Final = 0.25
"""TLS connections that are closed in use say goodbye in further turns of the loop; aiohttp has nothing to wait for."""
APPLY: Final = "application/apply-patch+yaml; charset=utf-8"
"""With a parameter, so that the client passes our bytes on instead of dumping them with every non-ASCII character
escaped: six bytes for two, and a 1 MiB document would be refused."""
MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json"
METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

Query = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class WatchEvent:
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

    type: str
    object: Json


def _uncounted(verb: str, kind: Kind) -> None:
    """Default of `on_write`."""


@dataclass(frozen=True)
class Kube:
    """Verbs on one API server. `allowance` is asked before each write; `on_write(verb, kind)` is told of each."""

    api: ApiClient
    allowance: Allowance = always
    on_write: Callable[[str, Kind], None] = field(default=_uncounted)

    @classmethod
    def connect(cls, configuration: Configuration) -> Kube:
        """A client of its own; `aclose` it."""
        return cls(ApiClient(_settled(guarded(configuration))))

    async def aclose(self) -> None:
        await self.api.close()
        await asyncio.sleep(CLOSING_SECONDS)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json:
        """Raises NotFound."""
        return await self._call("GET", kind.path(namespace, name), timeout=READ_TIMEOUT)

    async def exists(self, kind: Kind, namespace: str | None, name: str) -> None:
        """Raises NotFound. Only the object's metadata cross the network."""
        await self._call("GET", kind.path(namespace, name), timeout=READ_TIMEOUT, accept=METADATA_ONLY)

    async def allowed(self, verb: str, kind: Kind, namespace: str = "", subresource: str = "") -> bool:
        """Whether these credentials may do that; asks, and changes nothing."""
        attributes = {"verb": verb, "group": kind.group, "resource": kind.plural}
        attributes |= {"namespace": namespace} if namespace else {}
        attributes |= {"subresource": subresource} if subresource else {}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = await self._call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body)
        return bool(answer.get("status", {}).get("allowed"))

    async def get_path(self, path: str) -> Json:
        """GET of a path that is no object, such as `/version`."""
        return await self._call("GET", path, timeout=READ_TIMEOUT)

    async def list(self, kind: Kind, namespace: str | None = None, *, selector: str = "") -> tuple[list[Json], str]:
        """Every object, all pages followed, and the resourceVersion to watch from.

        Items carry neither `kind` nor `apiVersion`, as the API server leaves them out of lists.
        """
        items: list[Json] = []
        query = [("limit", str(LIST_PAGE))]
        if selector:
            query.append(("labelSelector", selector))
        token = ""
        while True:
            page = [*query, ("continue", token)] if token else query
            answer = await self._call("GET", kind.path(namespace), query=page, timeout=READ_TIMEOUT)
            items += answer.get("items") or []
            metadata = answer.get("metadata", {})
            token = metadata.get("continue", "")
            if not token:
                return items, metadata.get("resourceVersion", "")

    async def create(self, kind: Kind, namespace: str | None, body: Json, *, manager: str = MANAGER) -> Json:
        """Raises Conflict where it exists."""
        query = [("fieldManager", manager)]
        return await self._write("create", kind, "POST", kind.path(namespace), body, query)

    async def replace(self, kind: Kind, namespace: str | None, name: str, body: Json) -> Json:
        """Raises Conflict when `metadata.resourceVersion` in `body` is not the current one."""
        query = [("fieldManager", MANAGER)]
        return await self._write("update", kind, "PUT", kind.path(namespace, name), body, query)

    async def apply(
        self, kind: Kind, namespace: str | None, body: Json, *, subresource: str | None = None, manager: str = MANAGER
    ) -> Json:
        """Server-side apply with force. An unchanged apply keeps the resourceVersion; fields left out are given up.

        Raises NotFound for a subresource of an object that is gone.
        """
        path = kind.path(namespace, body["metadata"]["name"], subresource)
        query = [("fieldManager", manager), ("force", "true")]
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        return await self._write("patch", kind, "PATCH", path, {**head, **body}, query, APPLY)

    async def merge(self, kind: Kind, namespace: str | None, name: str, patch: Json, *, manager: str = MANAGER) -> Json:
        """JSON merge patch: null deletes a member."""
        query = [("fieldManager", manager)]
        return await self._write("patch", kind, "PATCH", kind.path(namespace, name), patch, query, MERGE)

    async def delete(self, kind: Kind, namespace: str | None, name: str, *, uid: str | None = None) -> None:
        """Delete in the background. With `uid`, only the object of that uid: Conflict where it is another."""
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        await self._write("delete", kind, "DELETE", kind.path(namespace, name), body)

    async def watch(
        self, kind: Kind, namespace: str | None, *, selector: str = "", resource_version: str
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `resource_version`, bookmarks included, until the API server ends the stream (some minutes).

        Raises Gone when the version is too old, Unavailable when the connection breaks.
        """
        path = kind.path(namespace)
        query = [("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", "290")]
        query.append(("resourceVersion", resource_version))
        if selector:
            query.append(("labelSelector", selector))
        # A bookmark comes about once a minute: longer silence than that is a dead connection.
        limits = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=75)
        what = f"watch of {kind.plural}"
        try:
            response = await self._send("GET", path, query, None, (JSON, JSON), limits)
            try:
                if response.status >= 400:
                    raise error_for(response.status, _object(await response.read()), what)
                while line := await response.content.readline():
                    yield _event(line, what)
            finally:
                connection = response.connection
                if connection is not None and connection.transport is not None:
                    connection.transport.abort()  # nobody listens any more: no goodbye, and nothing left open
                response.close()
        except (TimeoutError, OSError, aiohttp.ClientError, ValueError) as error:
            raise Unavailable(f"{what}: {_words(error)}") from error

    async def _write(
        self,
        verb: str,
        kind: Kind,
        method: str,
        path: str,
        body: Json,
        query: Query = (),
        content_type: str = JSON,
    ) -> Json:
        """Raises NotLeading for a write that may not, or no longer, be sent."""
        left = self._left(verb, kind)
        self.on_write(verb, kind)
        query = [*query, ("timeout", f"{left:.3f}s")]
        with fenced(self.allowance):
            try:
                return await self._call(method, path, query=query, body=body, content_type=content_type, timeout=left)
            except Unavailable:
                self._left(verb, kind)
                raise

    def _left(self, verb: str, kind: Kind) -> float:
        left = min(WRITE_TIMEOUT, self.allowance())
        if left <= 0:
            raise NotLeading(f"{verb} of {kind.plural} held back: this operator does not lead")
        return left

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Json | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = WRITE_TIMEOUT,
    ) -> Json:
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=min(5.0, timeout))
        what = f"{method} {path}"
        try:
            response = await self._send(method, path, query, body, (content_type, accept), limits)
            data = await response.read()
        except (TimeoutError, OSError, aiohttp.ClientError) as error:
            raise Unavailable(f"{what}: {_words(error)}") from error
        answer = _object(data)
        if response.status >= 400:
            raise error_for(response.status, answer, what)
        if answer is None:
            raise Unavailable(f"{what}: the answer is not a JSON object", status=response.status)
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        query: Query,
        body: Json | None,
        types: tuple[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        content_type, accept = types
        headers = {"Accept": accept, "Content-Type": content_type}
        method, url, headers, _, _ = await self.api.param_serialize(
            method, path, query_params=list(query), header_params=headers, auth_settings=["BearerToken"]
        )
        content = msgspec.json.encode(body) if content_type == APPLY else body
        answer = await self.api.call_api(method, url, headers, content, _request_timeout=limits)
        response: aiohttp.ClientResponse = answer.response
        return response


def _settled(configuration: Configuration) -> Configuration:
    """With the proxy that the environment names for this one host, so that it is not looked for at each request: that,
    and a look for a .netrc, were two turns of a thread each time."""
    host = urlsplit(configuration.host)
    if configuration.proxy is None and not proxy_bypass(host.netloc):
        configuration.proxy = getproxies().get(host.scheme)
    configuration.client_session_kwargs = {"trust_env": False}
    return configuration


def _object(data: bytes) -> Json | None:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        return None


def _event(line: bytes, what: str) -> WatchEvent:
    event = _object(line)
    if event is None:
        raise Unavailable(f"{what}: a line is not a JSON object")
    body: Mapping[str, Any] = event.get("object") or {}
    if event.get("type") == "ERROR":
        if body.get("code") == 410:
            raise Gone(f"{what}: {body.get('message', 'expired')}", status=410)
        raise error_for(int(body.get("code") or 500), body, what)
    return WatchEvent(str(event.get("type")), dict(body))


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__


__all__ = ["ApiError", "Json", "Kube", "WatchEvent"]
