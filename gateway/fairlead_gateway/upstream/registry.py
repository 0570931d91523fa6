"""Upstreams by server: made when a snapshot first names the server, kept while nothing about it changes.

`sync` goes before each activation. Credentials are read here and go nowhere but into an upstream.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import ssl
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Final

import msgspec

from fairlead_api.documents.catalog import (
    Catalog,
    ChildEndpoint,
    Credential,
    CredentialRef,
    Endpoint,
    EventsEndpoint,
    HttpEndpoint,
    LocalEndpoint,
    TcpEndpoint,
)
from fairlead_api.meta import ServerKey
from fairlead_api.slices import table_in_slices
from fairlead_gateway.core.credentials import Credentials, CredentialUnreadable
from fairlead_gateway.core.ports import Gauges, Pending, Upstream
from fairlead_gateway.core.server import Server
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.limits.rate import Sharing
from fairlead_gateway.sending import ANSWERED
from fairlead_gateway.upstream.capability_gated import GatedUpstream
from fairlead_gateway.upstream.child import ChildUpstream
from fairlead_gateway.upstream.guard import Guard, Timing
from fairlead_gateway.upstream.http import HttpAccess, HttpUpstream
from fairlead_gateway.upstream.link import LinkUpstream
from fairlead_gateway.upstream.per_client import PerClientUpstream
from fairlead_gateway.upstream.ping import PING_SECONDS, Pinger
from fairlead_gateway.upstream.pod_health import PodHealthTable
from fairlead_gateway.upstream.server_facts import AdmissionLimits, ServerTraits
from fairlead_gateway.upstream.session_pool import IDLE_SECONDS as IDLE_SESSION_SECONDS
from fairlead_gateway.upstream.settings import UpstreamSettings
from fairlead_gateway.upstream.shared_stream import ClientStream
from fairlead_gateway.yielding import in_turns
from fairlead_mcp import eras, via
from fairlead_mcp.errors import ConnectFailed, McpError
from fairlead_mcp.host import ChildHost
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.http.events import EventsOpener
from fairlead_mcp.http.pool import NEVER
from fairlead_mcp.http.target import Target
from fairlead_mcp.masking import Mask
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.stream_client import ClientSide, StreamClient, StreamOpener, StreamPolicy
from fairlead_mcp.tcp import TcpOpener

log = logging.getLogger(__name__)

CREDENTIAL_SECONDS: Final = 2.0
"""Bound on reading one; a snapshot waits for it."""
IDLE_SECONDS: Final = 300.0
"""How long a stream of messages, and with it a server's process, is kept without a call."""
RETIRE_DELAY: Final = 1.0
"""How long a replaced upstream still takes calls: those that were resolved just before the swap."""
RETIRE_SECONDS: Final = 60.0
"""How long calls may then still run on it."""


PER_CLIENT: Final = "PerClient"


class Unreachable(Upstream):
    """Takes the place of a server that cannot be called as things are, and fails every request with the reason."""

    def __init__(self, why: str) -> None:
        self._why = why

    @property
    def modern(self) -> bool:
        return False

    def next_id(self) -> bytes:
        return b"0"

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        sink.take_error(ConnectFailed(self._why, reason="NotCallable"))
        return ANSWERED


class _Identity(msgspec.Struct, frozen=True):
    """All that makes an upstream what it is; while it stays equal, so does the upstream."""

    endpoint: Endpoint
    credential: CredentialRef | None
    traits: ServerTraits
    rate: float | None
    """Calls a second."""
    burst: int | None
    """Calls that may come at once after a pause."""
    per_client: bool


class _Held(msgspec.Struct):
    identity: _Identity
    upstream: Upstream
    guard: Guard
    complete: bool
    """False for a substitute of one that could not be made; tried again at the next sync."""


class UpstreamAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How a gateway reaches servers, and as whom. `children` None refuses child processes; with `shared_children` the
    operator runs them.
    """

    client: eras.Client
    installation: str
    """Value of `Via` in requests (RFC 9110, 7.6.3)."""
    credentials: Credentials
    resolve: Callable[[ServerKey], Resolve]
    """Gives the addresses of a server's host."""
    children: ChildHost | None
    shared_children: bool
    local: Callable[[int], Upstream]
    """Makes the upstream of the gateway's own tools, for so many calls at once."""


class Registry:
    """Owner of all upstreams. `lost` gets the reason each time that a server could not be reached; with `sharing` rates
    are those of all replicas.
    """

    def __init__(
        self,
        access: UpstreamAccess,
        settings: UpstreamSettings,
        *,
        shares: ShareCounts | None,
        sharing: Sharing | None,
        lost: Callable[[ServerKey, str], None],
    ) -> None:
        self.link_seconds = IDLE_SECONDS
        """How long a stream that all clients share stays open without a call."""
        self._via = via.header(access.installation)
        self._credentials = access.credentials
        self._children = access.children
        self._shared = access.shared_children
        self._client = access.client
        self._settings = settings
        self._shares = shares
        self._numbers = itertools.count(1)
        self._local = access.local
        self._sharing = sharing
        self._resolve = access.resolve
        self._lost = lost
        self._held: dict[ServerKey, _Held] = {}
        self._retiring: dict[asyncio.Task[None], Upstream] = {}
        self._system_tls: ssl.SSLContext | None = None

    @property
    def incomplete(self) -> bool:
        """Whether `sync` should be tried again although no document changed."""
        return any(not held.complete for held in self._held.values())

    def gauges(self) -> dict[ServerKey, Gauges]:
        gauges = {}
        for key, held in list(self._held.items()):
            own = held.upstream.gauges()
            gauges[key] = own._replace(waiting=own.waiting + held.guard.waiting)
        return gauges

    @property
    def guards(self) -> dict[ServerKey, Guard]:
        return {key: held.guard for key, held in list(self._held.items())}

    def upstream(self, key: ServerKey) -> Upstream:
        return self._held[key].upstream

    def guard(self, key: ServerKey) -> Guard:
        return self._held[key].guard

    async def sync(self, servers: Mapping[ServerKey, Server]) -> None:
        """Make what is new, keep what is equal, retire the rest. A server that cannot be reached delays no other."""
        wanted = await in_turns(
            table_in_slices((key, self._identity(server.catalog)) for key, server in servers.items())
        )
        changed = {
            key: identity
            for key, identity in wanted.items()
            if key not in self._held or self._held[key].identity != identity or not self._held[key].complete
        }
        made = await asyncio.gather(*(self._make(key, identity) for key, identity in changed.items()))
        for key in [key for key in self._held if key not in wanted]:
            self._retire(key, self._held.pop(key).upstream)
        for (key, identity), (upstream, complete) in zip(changed.items(), made, strict=True):
            held = self._held.get(key)
            if held is not None:
                if held.identity == identity and not complete:
                    continue  # still not to be had
                self._retire(key, held.upstream)
            self._held[key] = _Held(identity, upstream, self._guard(key, identity), complete)

    async def aclose(self, grace: float) -> None:
        upstreams = [*(held.upstream for held in self._held.values()), *self._retiring.values()]
        self._held.clear()
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        await asyncio.gather(*(upstream.aclose(grace) for upstream in upstreams))

    def _identity(self, catalog: Catalog) -> _Identity:
        modern = eras.era_of(catalog.protocol_version) is eras.Era.MODERN
        limit = min(catalog.limits.concurrency or self._settings.connections, self._settings.connections)
        return _Identity(
            catalog.endpoint,
            catalog.credential,
            ServerTraits(modern, limit),
            rate=catalog.limits.calls_per_second,
            burst=catalog.limits.burst,
            per_client=catalog.session == PER_CLIENT,
        )

    def _guard(self, key: ServerKey, identity: _Identity) -> Guard:
        local = isinstance(identity.endpoint, LocalEndpoint)
        bounds = AdmissionLimits(
            identity.traits.limit,
            identity.rate,
            self._settings.waiting,
            self._settings.queue_seconds,
            breaks=not local,
            burst=identity.burst,
        )
        loop = asyncio.get_running_loop()
        return Guard(
            str(key),
            bounds,
            Timing(loop.call_later),
            sharing=self._sharing,
            lost=lambda reason: self._lost(key, reason),
            ping=Pinger(lambda: self._held[key].upstream, self._client, time.monotonic, PING_SECONDS),
        )

    async def _make(self, key: ServerKey, identity: _Identity) -> tuple[Upstream, bool]:
        try:
            credential = Credential()
            if identity.credential is not None:
                async with asyncio.timeout(CREDENTIAL_SECONDS):
                    credential = await self._credentials.read(identity.credential)
            return await self._reached(key, identity, credential), True
        except (CredentialUnreadable, TimeoutError) as error:
            why = str(error) or "the credential was not read in time"
            log.warning("%s cannot be called: %s", key, why)
            return Unreachable(f"the gateway cannot read the credential of {key}"), False
        except (McpError, ssl.SSLError, ValueError) as error:
            log.warning("%s cannot be called: %s", key, error)
            return Unreachable(f"{key} cannot be called; the gateway's log says why"), True

    async def _reached(self, key: ServerKey, identity: _Identity, credential: Credential) -> Upstream:
        endpoint = identity.endpoint
        if isinstance(endpoint, LocalEndpoint):
            return self._local(identity.traits.limit)
        stateless = isinstance(endpoint, HttpEndpoint) and identity.traits.modern
        per_client = identity.per_client and not stateless
        if isinstance(endpoint, ChildEndpoint):

            def child(offered: bytes) -> Upstream:
                return self._child(f"{key} for client {next(self._numbers)}", identity, endpoint, credential, offered)

            own = self._per_client(key, identity, child)
            if per_client and self._children is not None:
                return own
            return GatedUpstream(self._child(key, identity, endpoint, credential), own)
        make = await (
            self._http(key, identity, endpoint, credential)
            if isinstance(endpoint, HttpEndpoint)
            else self._link(key, identity, endpoint, credential)
        )
        return self._per_client(key, identity, make) if per_client else make(None)

    def _per_client(self, key: ServerKey, identity: _Identity, make: Callable[[bytes], Upstream]) -> PerClientUpstream:
        return PerClientUpstream(
            str(key),
            make,
            modern=identity.traits.modern,
            settings=self._settings.per_client,
            counts=self._shares,
        )

    def end_session(self, session: bytes) -> None:
        """End what servers hold for a client's session."""
        for held in self._held.values():
            held.upstream.end_session(session)

    def _child(
        self,
        key: Hashable,
        identity: _Identity,
        endpoint: ChildEndpoint,
        credential: Credential,
        own: bytes | None = None,
    ) -> Upstream:
        if self._children is None:
            return Unreachable(f"{key} is a child process, and this gateway runs none")
        return ChildUpstream(
            self._children,
            key,
            ChildSpec.of(endpoint.command, endpoint.args, credential.env, endpoint.cwd),
            identity.traits,
            shared=self._shared and own is None,
            own=None if own is None else ClientStream(own),
        )

    async def _http(
        self, key: ServerKey, identity: _Identity, endpoint: HttpEndpoint, credential: Credential
    ) -> Callable[[bytes | None], Upstream]:
        target = Target.from_url(endpoint.url, endpoint.host_header)
        tls = await self._tls(endpoint.ca_bundle) if target.tls else None
        idle = NEVER if identity.per_client else IDLE_SESSION_SECONDS
        health = PodHealthTable(random.random)
        access = HttpAccess({**credential.headers, **self._via}, tls, self._resolve(key))
        return lambda _: HttpUpstream(target, identity.traits, self._client, access, session_idle=idle, health=health)

    async def _link(
        self, key: ServerKey, identity: _Identity, endpoint: EventsEndpoint | TcpEndpoint, credential: Credential
    ) -> Callable[[bytes | None], Upstream]:
        opener: StreamOpener
        if isinstance(endpoint, TcpEndpoint):
            opener = TcpOpener(endpoint.host, endpoint.port, credential.token, resolve=self._resolve(key))
        else:
            tls = await self._tls(endpoint.ca_bundle) if Target.from_url(endpoint.url).tls else None
            opener = EventsOpener(
                endpoint.url,
                host_header=endpoint.host_header,
                headers={**credential.headers, **self._via},
                ssl=tls,
                resolve=self._resolve(key),
            )

        def make(features: bytes | None) -> Upstream:
            own = None if features is None else ClientStream(features)
            idle = self.link_seconds if own is None else NEVER  # `PerClientUpstream` ends those of clients
            side = ClientSide(self._client) if own is None else ClientSide(self._client, own.offering, own.relay)
            link = StreamClient(str(key), opener, StreamPolicy(legacy=not identity.traits.modern, idle=idle), side=side)
            shared = LinkUpstream(link, identity.traits, own=own, mask=Mask(credential))
            return shared if own is not None else GatedUpstream(shared, self._per_client(key, identity, make))

        return make

    async def _tls(self, ca_bundle: str | None) -> ssl.SSLContext:
        """In a thread: reading the system's certificates takes tens of milliseconds."""
        if ca_bundle is not None:
            return await asyncio.to_thread(ssl.create_default_context, cadata=ca_bundle)
        if self._system_tls is None:
            self._system_tls = await asyncio.to_thread(ssl.create_default_context)
        return self._system_tls

    def _retire(self, key: ServerKey, upstream: Upstream) -> None:
        task = asyncio.get_running_loop().create_task(self._close_later(key, upstream), name=f"retire {key}")
        self._retiring[task] = upstream
        task.add_done_callback(self._retiring.pop)

    async def _close_later(self, key: ServerKey, upstream: Upstream) -> None:
        await asyncio.sleep(RETIRE_DELAY)
        await upstream.aclose(RETIRE_SECONDS, replaced=key in self._held)
