"""Builds the upstream of a server, by the kind of its endpoint."""

from __future__ import annotations

import asyncio
import itertools
import random
import ssl
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

from fairlead_api.documents.catalog import (
    ChildEndpoint,
    Credential,
    EventsEndpoint,
    HttpEndpoint,
    LocalEndpoint,
    OpenApiEndpoint,
    TcpEndpoint,
)
from fairlead_api.meta import ServerKey
from fairlead_gateway.core.ports import Pending, Upstream
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.sending import NO_OP_PENDING
from fairlead_gateway.upstream.capability_gated import GatedUpstream
from fairlead_gateway.upstream.child import ChildUpstream
from fairlead_gateway.upstream.http import HttpAccess, HttpUpstream
from fairlead_gateway.upstream.link import LinkUpstream
from fairlead_gateway.upstream.outbound_credentials import ServerCredentials
from fairlead_gateway.upstream.per_client import PerClientUpstream
from fairlead_gateway.upstream.pod_health import PodHealthTable
from fairlead_gateway.upstream.server_consent import additional_headers
from fairlead_gateway.upstream.session_pool import IDLE_SECONDS as IDLE_SESSION_SECONDS
from fairlead_gateway.upstream.session_pool import MAX_SESSIONS
from fairlead_gateway.upstream.settings import UpstreamSettings
from fairlead_gateway.upstream.shared_stream import ClientStream
from fairlead_gateway.upstream.sign_in_tool import SignInUpstream
from fairlead_gateway.upstream.upstream_access import UpstreamAccess
from fairlead_gateway.upstream.upstream_config import UpstreamConfig
from fairlead_mcp import via
from fairlead_mcp.child import START_SECONDS
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.http.events import EventsOpener
from fairlead_mcp.http.pool import NEVER
from fairlead_mcp.http.target import Target
from fairlead_mcp.masking import Mask
from fairlead_mcp.oauth.entered_keys import line_value
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.stream_client import StreamClient
from fairlead_mcp.streams import OPEN_SECONDS, ClientSide, StreamOpener, StreamPolicy
from fairlead_mcp.tcp import TcpOpener

if TYPE_CHECKING:
    from fairlead_gateway.upstream.openapi import ApiAccess, OpenApiUpstream

IDLE_SECONDS: Final = 300.0
"""Time without calls after which a shared link, and with it the server's process, is closed."""


class Unreachable(Upstream):
    """Substitute for an upstream that cannot be created; fails every request with the reason."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @property
    def modern(self) -> bool:
        return False

    def next_id(self) -> bytes:
        return b"0"

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        sink.take_error(ConnectFailed(self._reason, reason="NotCallable"))
        return NO_OP_PENDING


def _api_classes() -> tuple[type[ApiAccess], type[OpenApiUpstream]]:
    """Classes for HTTP APIs, imported with the first: in a thread, because the import takes 15 ms."""
    from fairlead_gateway.upstream.openapi import ApiAccess, OpenApiUpstream

    return ApiAccess, OpenApiUpstream


class UpstreamFactory:
    """Builds the upstreams of one gateway. `shares` counts refused sessions."""

    def __init__(self, access: UpstreamAccess, settings: UpstreamSettings, shares: ShareCounts | None) -> None:
        self.link_seconds = IDLE_SECONDS
        """Seconds without calls after which a shared link is closed."""
        self._via = via.header(access.installation)
        self._complete_elicitation = access.complete_elicitation
        self._children = access.children
        self._operator_runs_children = access.shared_children
        self._client = access.client
        self._settings = settings
        self._shares = shares
        self._client_numbers = itertools.count(1)
        self._local = access.local
        self._make_result = access.make_result
        self._resolve = access.resolve
        self._resolve_recent = access.resolve_recent
        self._system_tls: ssl.SSLContext | None = None

    async def build(
        self, key: ServerKey, config: UpstreamConfig, credential: Credential, credentials: ServerCredentials | None
    ) -> Upstream:
        """The upstream of a server, with access tokens per call if there are `credentials`.

        Raises McpError, ssl.SSLError, ValueError.
        """
        endpoint = config.endpoint
        if config.sign_in:
            return SignInUpstream()
        if isinstance(endpoint, LocalEndpoint):
            return self._local(config.traits.limit)
        if isinstance(endpoint, OpenApiEndpoint):
            return await self._openapi(key, config, endpoint, credential)
        stateless = isinstance(endpoint, HttpEndpoint) and config.traits.modern
        per_client = config.per_client and not stateless
        if isinstance(endpoint, ChildEndpoint):

            def child(features: bytes, line: bytes) -> Upstream:
                name = f"{key} for client {next(self._client_numbers)}"
                return self._child(name, config, endpoint, credential, features, line_value(line) if line else "")

            sessions = self._per_client(key, config, child)
            if config.key_variable or (per_client and self._children is not None):
                return sessions
            return GatedUpstream(self._child(key, config, endpoint, credential), sessions)
        if isinstance(endpoint, TcpEndpoint) and config.key_variable:

            def link_of_person(features: bytes, line: bytes) -> Upstream:
                person_key = line_value(line) if line else ""
                key_line = f"{endpoint.program_digest} {person_key}" if person_key else ""
                opener = self._tcp_opener(key, endpoint, credential, key_line)
                return self._link_upstream(
                    key, config, opener, ClientStream(features), Mask(credential).with_value(person_key)
                )

            return self._per_client(key, config, link_of_person)
        make = await (
            self._http(key, config, endpoint, credential, credentials)
            if isinstance(endpoint, HttpEndpoint)
            else self._link(key, config, endpoint, credential)
        )
        return self._per_client(key, config, lambda features, _: make(features)) if per_client else make(None)

    def _per_client(
        self, key: ServerKey, config: UpstreamConfig, make: Callable[[bytes, bytes], Upstream]
    ) -> PerClientUpstream:
        return PerClientUpstream(
            str(key),
            make,
            modern=config.traits.modern,
            settings=self._settings.per_client,
            counts=self._shares,
            by_credential=bool(config.key_variable),
        )

    def _child(
        self,
        key: Hashable,
        config: UpstreamConfig,
        endpoint: ChildEndpoint,
        credential: Credential,
        features: bytes | None = None,
        person_key: str = "",
    ) -> Upstream:
        """Upstream of one process. With `person_key`, the process gets the key that this user entered."""
        if self._children is None:
            return Unreachable(f"the server {key} is a child process, which this gateway cannot run")
        spec = ChildSpec.of(endpoint.command, endpoint.args, credential.env, endpoint.cwd)
        if person_key:
            spec = spec.with_secret(config.key_variable, person_key)
        return ChildUpstream(
            self._children,
            key,
            spec,
            config.traits,
            shared=self._operator_runs_children and features is None,
            client_stream=None if features is None else ClientStream(features),
        )

    async def _http(
        self,
        key: ServerKey,
        config: UpstreamConfig,
        endpoint: HttpEndpoint,
        credential: Credential,
        credentials: ServerCredentials | None,
    ) -> Callable[[bytes | None], Upstream]:
        target = Target.from_url(endpoint.url, endpoint.host_header)
        tls = await self.tls(endpoint.ca_bundle) if target.tls else None
        idle = NEVER if config.per_client else IDLE_SESSION_SECONDS
        health = PodHealthTable(random.random)
        access = HttpAccess(
            {**additional_headers(credential, config.oauth), **self._via},
            tls,
            self._resolve(key),
            credentials,
            self._settings.per_client.max_sessions if config.uses_user_tokens else MAX_SESSIONS,
            self._complete_elicitation,
            credential.arguments,
        )
        return lambda _: HttpUpstream(target, config.traits, self._client, access, session_idle=idle, health=health)

    async def _openapi(
        self, key: ServerKey, config: UpstreamConfig, endpoint: OpenApiEndpoint, credential: Credential
    ) -> Upstream:
        access_class, upstream_class = await asyncio.to_thread(_api_classes)
        access = access_class(
            credential=credential,
            headers=self._via,
            tls=await self.tls(endpoint.ca_bundle),
            system_tls=await self.tls(None),
            make_result=self._make_result,
            resolve=self._resolve(key),
        )
        return upstream_class(endpoint, config.operations, access, limit=config.traits.limit)

    async def _link(
        self, key: ServerKey, config: UpstreamConfig, endpoint: EventsEndpoint | TcpEndpoint, credential: Credential
    ) -> Callable[[bytes | None], Upstream]:
        opener: StreamOpener
        if isinstance(endpoint, TcpEndpoint):
            opener = self._tcp_opener(key, endpoint, credential, None)
        else:
            tls = await self.tls(endpoint.ca_bundle) if Target.from_url(endpoint.url).tls else None
            opener = EventsOpener(
                endpoint.url,
                host_header=endpoint.host_header,
                headers={**credential.headers, **self._via},
                ssl=tls,
                resolve=self._resolve(key),
                resolve_recent=self._resolve_recent(key),
            )

        def make(features: bytes | None) -> Upstream:
            client_stream = None if features is None else ClientStream(features)
            upstream = self._link_upstream(key, config, opener, client_stream, Mask(credential))
            return (
                upstream
                if client_stream is not None
                else GatedUpstream(upstream, self._per_client(key, config, lambda features, _: make(features)))
            )

        return make

    def _tcp_opener(
        self, key: ServerKey, endpoint: TcpEndpoint, credential: Credential, sent_key: str | None
    ) -> TcpOpener:
        resolve, recent = self._resolve(key), self._resolve_recent(key)
        return TcpOpener(
            endpoint.host, endpoint.port, credential.token, key=sent_key, resolve=resolve, resolve_recent=recent
        )

    def _link_upstream(
        self, key: ServerKey, config: UpstreamConfig, opener: StreamOpener, client: ClientStream | None, mask: Mask
    ) -> LinkUpstream:
        """Upstream over one link, which belongs to `client` or, if `client` is None, is shared by all clients."""
        idle = self.link_seconds if client is None else NEVER  # `PerClientUpstream` closes the links of clients
        side = ClientSide(self._client)
        if client is not None:
            side = ClientSide(self._client, client.offering, client.relay)
        open_seconds = START_SECONDS if opener.starts_process else OPEN_SECONDS
        policy = StreamPolicy(modern=config.traits.modern, idle=idle, open_seconds=open_seconds)
        link = StreamClient(str(key), opener, policy, side=side)
        return LinkUpstream(link, config.traits, client_stream=client, mask=mask)

    async def tls(self, ca_bundle: str | None) -> ssl.SSLContext:
        """TLS context, created in a thread because reading the system's certificates takes tens of milliseconds."""
        if ca_bundle is not None:
            return await asyncio.to_thread(ssl.create_default_context, cadata=ca_bundle)
        if self._system_tls is None:
            self._system_tls = await asyncio.to_thread(ssl.create_default_context)
        return self._system_tls
