"""Upstream of a server that runs as a child process.

The ChildHost owns and restarts the process; in `fairlead up` the operator uses the same ChildHost. Because the gateway
and the operator both send requests to the process, the `Child` replaces the ids and progress tokens of requests by its
own, which are unique in the process.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Raw

from fairlead_gateway.core.ports import Gauges
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.upstream.server_facts import ServerTraits
from fairlead_gateway.upstream.shared_stream import ClientStream, StreamUpstream
from fairlead_mcp.child import Child
from fairlead_mcp.eras import Negotiated
from fairlead_mcp.errors import McpError
from fairlead_mcp.host import ChildHost
from fairlead_mcp.masking import Mask
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.stream_client import StreamClient


class ChildUpstream(StreamUpstream):
    """Upstream of one child process. With `shared`, the operator controls the process, which is never stopped here."""

    def __init__(
        self,
        host: ChildHost,
        key: Hashable,
        spec: ChildSpec,
        traits: ServerTraits,
        *,
        shared: bool,
        client_stream: ClientStream | None = None,
    ) -> None:
        super().__init__(key, traits, client_stream)
        self._host = host
        self._key = key
        self._spec = spec
        self._shared = shared
        self._mask = Mask.of_values(value for name, value in spec.env if name == spec.secret)
        self._unlisten = None if self.client_stream is None else host.listen(self)
        if not shared:
            self._child()

    def negotiated(self) -> Negotiated | None:
        child = self._host.find(self._key)
        return None if child is None else child.negotiated

    def stream(self) -> StreamClient:
        return self._child()

    async def request(self, request: UpstreamRequest, sink: ResponseSink) -> Raw:
        try:
            return await super().request(request, sink)
        except McpError as error:
            raise self._mask.error(error)  # noqa: B904 - the same error, with a user's key masked

    def gauges(self) -> Gauges:
        return Gauges(busy=self.limit.busy)

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        """Stop the process if the server was removed. A replaced upstream leaves the process to its successor."""
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        if not self._shared and not replaced:
            child = self._host.find(self._key)
            if child is not None and child.program.spec == self._spec:
                self._host.retire(self._key)

    # Events of the ChildHost

    def child_changed(self, key: Hashable, child: Child) -> None:
        """No-op: the next request looks up the process."""

    def child_notified(self, key: Hashable, child: Child, method: str, line: bytes) -> None:
        if self.client_stream is not None and key == self._key:
            self.client_stream.relay(method, line)

    def _child(self) -> Child:
        return (self._host.find(self._key) if self._shared else None) or self._host.get(
            self._key, self._spec, None if self.client_stream is None else self.client_stream.offering
        )
