"""A server that runs as a child process.

The process belongs to the ChildHost, which restarts it; in `fairlead up` the operator uses the same one. Ids and
progress tokens are replaced there once more.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable

from msgspec import Raw

from fairlead_api.documents.catalog import ChildEndpoint
from fairlead_gateway.core.ports import Gauges, Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.sending import TaskCall
from fairlead_gateway.upstream.concurrency import ConcurrencyLimit
from fairlead_gateway.upstream.shared_stream import ClientStream, request_over
from fairlead_mcp.child import Child
from fairlead_mcp.eras import Era
from fairlead_mcp.host import ChildHost
from fairlead_mcp.stdio import ChildSpec


class ChildUpstream(Upstream):
    """Upstream of one process. With `shared`, the operator decides what runs under this key: it is used and never
    replaced. With `own`, the process is that of one client of these capabilities, which gets its log messages and
    questions. To a legacy process that all clients share no capability is declared (`upstream.gated`).
    """

    def __init__(
        self,
        host: ChildHost,
        key: Hashable,
        endpoint: ChildEndpoint,
        *,
        env: dict[str, str],
        modern: bool,
        limit: int,
        shared: bool,
        own: bytes | None = None,
    ) -> None:
        self._host = host
        self._key = key
        self._spec = ChildSpec.of(endpoint.command, endpoint.args, env, endpoint.cwd)
        self._modern = modern
        self._shared = shared
        self._count = itertools.count(1).__next__
        self._limit = ConcurrencyLimit(limit, key)
        self._own = None if own is None else ClientStream(own)
        self._unlisten = None if self._own is None else host.listen(self)
        if not shared:
            self._child()

    @property
    def modern(self) -> bool:
        """As the running process negotiated; until then as its catalog says."""
        child = self._host.find(self._key)
        if child is None or child.negotiated is None:
            return self._modern
        return child.negotiated.era is Era.MODERN

    def next_id(self) -> bytes:
        return b"%d" % self._count()

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> TaskCall:
        return TaskCall(self._requested(request, sink), sink, f"{request.method} {self._key}")

    def gauges(self) -> Gauges:
        return Gauges(busy=self._limit.busy)

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        """The process ends with the host, or with the server that it was; nothing here outlives a call."""
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        if not self._shared and not replaced:
            child = self._host.find(self._key)
            if child is not None and child.spec == self._spec:
                self._host.retire(self._key)

    # Events of the host

    def child_changed(self, key: Hashable, child: Child) -> None:
        """Nothing to do: the next request looks it up."""

    def child_notified(self, key: Hashable, child: Child, method: str, line: bytes) -> None:
        if self._own is not None and key == self._key:
            self._own.said(method, line)

    # Inside

    async def _requested(self, request: UpstreamRequest, sink: ResponseSink) -> Raw:
        with self._limit:
            child = self._child()
            if self._own is None:
                return await request_over(child, request, sink)
            return await self._own.request(child, request, sink, lambda: child.starts)

    def _child(self) -> Child:
        return (self._host.find(self._key) if self._shared else None) or self._host.get(
            self._key, self._spec, None if self._own is None else self._own.offering
        )
