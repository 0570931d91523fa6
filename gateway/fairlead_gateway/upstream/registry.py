"""Registry of all upstreams by server.

An upstream is created with its server, and replaced when its configuration changes. `sync` has to be called before each
activation. This module reads the credential of a server and gives it only to the upstream of that server.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import ssl
import time
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Final, NamedTuple

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
    OpenApiEndpoint,
    TcpEndpoint,
)
from fairlead_api.documents.oauth import TOKEN_EXCHANGE, OAuthSettings
from fairlead_api.documents.operations import Operation
from fairlead_api.meta import ServerKey
from fairlead_api.slices import table_in_slices
from fairlead_gateway.core.credentials import Credentials, CredentialUnreadable
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.ports import Gauges, Pending, Upstream
from fairlead_gateway.core.server import Server
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.core.sign_in import SignInLinks
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.limits.rate import Sharing
from fairlead_gateway.sending import ANSWERED
from fairlead_gateway.upstream.capability_gated import GatedUpstream
from fairlead_gateway.upstream.child import ChildUpstream
from fairlead_gateway.upstream.guard import Guard, Timing
from fairlead_gateway.upstream.http import HttpAccess, HttpUpstream
from fairlead_gateway.upstream.link import LinkUpstream
from fairlead_gateway.upstream.openapi import ApiAccess, OpenApiUpstream
from fairlead_gateway.upstream.outbound_credentials import ServerCredentials
from fairlead_gateway.upstream.per_client import PerClientUpstream
from fairlead_gateway.upstream.ping import PING_SECONDS, Pinger
from fairlead_gateway.upstream.pod_health import PodHealthTable
from fairlead_gateway.upstream.server_consent import ServerConsent, headers_beside, make_flow, token_access
from fairlead_gateway.upstream.server_facts import AdmissionLimits, ServerTraits
from fairlead_gateway.upstream.server_session import CompleteElicitation, forward_nothing
from fairlead_gateway.upstream.session_pool import IDLE_SECONDS as IDLE_SESSION_SECONDS
from fairlead_gateway.upstream.session_pool import MAX_SESSIONS
from fairlead_gateway.upstream.settings import UpstreamSettings
from fairlead_gateway.upstream.shared_stream import ClientStream
from fairlead_gateway.upstream.sign_in_tool import SignInUpstream
from fairlead_gateway.yielding import in_turns
from fairlead_mcp import eras, via
from fairlead_mcp.errors import ConnectFailed, McpError
from fairlead_mcp.host import ChildHost
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.http.events import EventsOpener
from fairlead_mcp.http.pool import NEVER
from fairlead_mcp.http.target import Target
from fairlead_mcp.masking import Mask
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.consent import ConsentFlow
from fairlead_mcp.oauth.entered_keys import key_in
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.stored_grant import GrantStore, StoredGrant
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.oauth.token_source import TokenSource
from fairlead_mcp.opening import NetworkAccess, network_session
from fairlead_mcp.session import McpSession
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.stream_client import ClientSide, StreamClient, StreamOpener, StreamPolicy
from fairlead_mcp.tcp import TcpOpener

log = logging.getLogger(__name__)

CREDENTIAL_SECONDS: Final = 2.0
"""Timeout for reading a credential, which delays the activation of a snapshot."""
IDLE_SECONDS: Final = 300.0
"""Time without calls after which a shared link, and with it the server's process, is closed."""
RETIRE_DELAY: Final = 1.0
"""Time for which a replaced upstream still takes calls, for calls that were resolved just before the activation."""
RETIRE_SECONDS: Final = 60.0
"""Time for calls in progress to complete on a replaced upstream, after RETIRE_DELAY."""


PER_CLIENT: Final = "PerClient"


class Unreachable(Upstream):
    """Substitute for an upstream that cannot be created; fails every request with the reason."""

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


class _UpstreamConfig(msgspec.Struct, frozen=True):
    """Configuration of an upstream. The upstream is replaced when this changes."""

    endpoint: Endpoint
    credential: CredentialRef | None
    oauth: OAuthSettings | None
    traits: ServerTraits
    rate: float | None
    """Calls a second."""
    burst: int | None
    """Calls that are admitted at once after a pause."""
    per_client: bool
    sign_in: bool
    """Whether its only tool asks callers to sign in."""
    uid: str
    """`Catalog.uid` of a server with OAuth settings; else empty."""
    operations: dict[str, Operation]
    """By name of the tool, of a server behind an `OpenApiEndpoint`."""

    @property
    def personal(self) -> bool:
        """Whether calls go with tokens of persons."""
        return self.oauth is not None and (self.exchanges or self.oauth.of_person)

    @property
    def exchanges(self) -> bool:
        """Whether calls go with tokens that are exchanged for those of callers (RFC 8693)."""
        return self.oauth is not None and self.oauth.grant == TOKEN_EXCHANGE

    @property
    def key_variable(self) -> str:
        """Environment variable that has the key of a process's person; empty for a server without one."""
        return "" if self.oauth is None or self.oauth.user_key is None else self.oauth.user_key.env

    def has_tokens_of(self, other: _UpstreamConfig) -> bool:
        """Whether access tokens of another configuration are good for this one."""
        own = self.endpoint, self.credential, self.oauth, self.uid
        return own == (other.endpoint, other.credential, other.oauth, other.uid)


class _Connection(NamedTuple):
    """Upstream of one server, with its source of access tokens."""

    upstream: Upstream
    credentials: ServerCredentials | None = None
    """Access tokens per call; None if `upstream` has the credential of all requests."""
    consent: ServerConsent | None = None
    """Consent of persons; None if the server does not want persons to sign in."""
    arguments: Mapping[str, Mapping[str, str]] = {}
    """Values of hidden arguments, by tool and argument."""
    complete: bool = True
    """False if `upstream` is a substitute that the next `sync` tries to replace."""

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await self.upstream.aclose(grace, replaced=replaced)
        if self.consent is not None and isinstance(self.consent.flow, ConsentFlow):
            await self.consent.flow.aclose()
        if self.credentials is not None:
            await self.credentials.aclose()


class _ServerTokens(NamedTuple):
    """Access tokens of one server, and what its sign-in needs, as `_Connection` has them."""

    credentials: ServerCredentials | None = None
    consent: ServerConsent | None = None


class _Entry(msgspec.Struct):
    """Connection of one server, with the configuration that it was created from and its guard."""

    config: _UpstreamConfig
    connection: _Connection
    guard: Guard


class UpstreamAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Access of the gateway to servers. With `children` None the gateway cannot run child processes; with
    `shared_children` the operator runs them.
    """

    client: eras.Client
    installation: str
    """Value of `Via` in requests (RFC 9110, 7.6.3)."""
    credentials: Credentials
    resolve: Callable[[ServerKey], Resolve]
    """Returns the resolver for a server's host."""
    children: ChildHost | None
    shared_children: bool
    local: Callable[[int], Upstream]
    """Creates the upstream of the gateway's own tools, for the given number of concurrent calls."""
    keep_tokens: Callable[[bool], None] = lambda _: None
    """Called with whether a server needs the raw tokens of callers (RFC 8693)."""
    observe_grant: Callable[[ServerKey, Identity, GrantFailed | None, float], None] = lambda *_: None
    """`ObserveOutcome` of the credentials of a server."""
    forget_grants: Callable[[ServerKey], None] = lambda _: None
    """Called when a server's credentials are replaced or removed: earlier outcomes say nothing about the new ones."""
    complete: CompleteElicitation = forward_nothing
    """Forwards the end of an elicitation between the calls of a client."""
    is_own_audience: Callable[[str], bool] = lambda _: False
    """Whether this gateway accepts tokens of an audience."""
    links: SignInLinks
    """Links at which persons sign in at servers."""
    grants: GrantStore | None
    """Grants that persons made for servers; None if none can be stored."""


class Registry:
    """Owner of all upstreams and their guards.

    `lost` is called with the reason each time that a server cannot be reached. With `sharing`, all replicas share the
    rate limits.
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
        """Seconds without calls after which a shared link is closed."""
        self._via = via.header(access.installation)
        self._credentials = access.credentials
        self._complete = access.complete
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
        self._keep_tokens = access.keep_tokens
        self._observe_grant = access.observe_grant
        self._forget_grants = access.forget_grants
        self._is_own_audience = access.is_own_audience
        self._links = access.links
        self._grants = access.grants
        self._installation = access.installation
        self._entries: dict[ServerKey, _Entry] = {}
        self._retiring: dict[asyncio.Task[None], _Connection] = {}
        self._system_tls: ssl.SSLContext | None = None

    @property
    def incomplete(self) -> bool:
        """Whether `sync` should be repeated although no document has changed."""
        return any(not entry.connection.complete for entry in self._entries.values())

    def gauges(self) -> dict[ServerKey, Gauges]:
        gauges = {}
        for key, entry in list(self._entries.items()):
            upstream = entry.connection.upstream.gauges()
            gauges[key] = upstream._replace(waiting=upstream.waiting + entry.guard.waiting)
        return gauges

    @property
    def guards(self) -> dict[ServerKey, Guard]:
        return {key: entry.guard for key, entry in list(self._entries.items())}

    def upstream(self, key: ServerKey) -> Upstream:
        return self._entries[key].connection.upstream

    def guard(self, key: ServerKey) -> Guard:
        return self._entries[key].guard

    def credentials(self, key: ServerKey) -> ServerCredentials | None:
        """Access tokens per call of a server; None if its upstream has the credential of all requests."""
        return self._entries[key].connection.credentials

    def secret_arguments(self, key: ServerKey) -> Mapping[str, Mapping[str, str]]:
        """Values of hidden arguments of a server's tools, by tool and argument."""
        return self._entries[key].connection.arguments

    def forget(self, server: ServerKey, person: bytes) -> None:
        """Implements `core.granted_tokens.GrantedTokens`."""
        entry = self._entries.get(server)
        if entry is not None and entry.connection.credentials is not None:
            entry.connection.credentials.forget(person)

    async def revoke(self, server: ServerKey, grant: StoredGrant) -> bool:
        """Implements `core.granted_tokens.GrantRevoker`."""
        consent = self.consent(server)
        flow = None if consent is None else consent.flow
        return isinstance(flow, ConsentFlow) and await flow.revoke(grant)

    def consent(self, key: ServerKey) -> ServerConsent | None:
        """Consent of persons for a server; None if it does not want persons to sign in, or was removed."""
        entry = self._entries.get(key)
        return None if entry is None else entry.connection.consent

    def consents(self) -> dict[ServerKey, ServerConsent]:
        """All servers that want persons to sign in."""
        return {
            key: entry.connection.consent
            for key, entry in list(self._entries.items())
            if entry.connection.consent is not None
        }

    async def review(self, server: ServerKey, person: bytes) -> None:
        """Implements `core.granted_tokens.GrantedTokens`."""
        entry = self._entries.get(server)
        if entry is not None and entry.connection.credentials is not None:
            in_use = entry.connection.upstream.has_sessions_of(person)
            await entry.connection.credentials.review(person, in_use=in_use)

    async def sync(self, servers: Mapping[ServerKey, Server]) -> None:
        """Create upstreams of new servers, replace changed ones, and retire those of removed servers.

        A server that cannot be reached does not delay the others.
        """
        configs = await in_turns(
            table_in_slices((key, self._config(server.catalog)) for key, server in servers.items())
        )
        changed = {
            key: config
            for key, config in configs.items()
            if key not in self._entries
            or self._entries[key].config != config
            or not self._entries[key].connection.complete
        }
        if any(config.exchanges for config in configs.values()):
            self._keep_tokens(True)  # before the first call that needs one
        reusable = {key: self._reusable_tokens(key, config) for key, config in changed.items()}
        made = await asyncio.gather(*(self._make(key, config, reusable[key]) for key, config in changed.items()))
        for key in [key for key in self._entries if key not in configs]:
            self._retire(key, self._entries.pop(key).connection)
            self._forget_grants(key)
        for (key, config), connection in zip(changed.items(), made, strict=True):
            entry = self._entries.get(key)
            if reusable[key] is None:
                self._forget_grants(key)
            if entry is not None:
                if entry.config == config and not connection.complete:
                    continue  # the retry failed again, so the old substitute stays
                before = entry.connection
                shared = before.credentials is connection.credentials
                self._retire(key, before._replace(credentials=None, consent=None) if shared else before)
            self._entries[key] = _Entry(config, connection, self._guard(key, config))
        self._keep_tokens(any(config.exchanges for config in configs.values()))

    async def aclose(self, grace: float) -> None:
        connections = [*(entry.connection for entry in self._entries.values()), *self._retiring.values()]
        self._entries.clear()
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        await asyncio.gather(*(connection.aclose(grace) for connection in connections))

    def _config(self, catalog: Catalog) -> _UpstreamConfig:
        modern = eras.era_of(catalog.protocol_version) is eras.Era.MODERN
        limit = min(catalog.limits.concurrency or self._settings.connections, self._settings.connections)
        return _UpstreamConfig(
            catalog.endpoint,
            catalog.credential,
            catalog.oauth,
            ServerTraits(modern, limit),
            rate=catalog.limits.calls_per_second,
            burst=catalog.limits.burst,
            per_client=catalog.session == PER_CLIENT,
            sign_in=catalog.sign_in,
            uid="" if catalog.oauth is None else catalog.uid,
            operations={tool.name: tool.operation for tool in catalog.tools if tool.operation is not None},
        )

    def _guard(self, key: ServerKey, config: _UpstreamConfig) -> Guard:
        local = isinstance(config.endpoint, LocalEndpoint)
        bounds = AdmissionLimits(
            config.traits.limit,
            config.rate,
            self._settings.waiting,
            self._settings.queue_seconds,
            breaks=not local,
            burst=config.burst,
        )
        loop = asyncio.get_running_loop()
        return Guard(
            str(key),
            bounds,
            Timing(loop.call_later),
            sharing=self._sharing,
            lost=lambda reason: self._lost(key, reason),
            ping=Pinger(lambda: self.upstream(key), self._client, time.monotonic, PING_SECONDS),
        )

    def _reusable_tokens(self, key: ServerKey, config: _UpstreamConfig) -> _ServerTokens | None:
        """The source of access tokens that a changed configuration keeps, so that not every person needs a grant."""
        entry = self._entries.get(key)
        if entry is None or not config.has_tokens_of(entry.config):
            return None
        return _ServerTokens(entry.connection.credentials, entry.connection.consent)

    async def _make(self, key: ServerKey, config: _UpstreamConfig, reusable: _ServerTokens | None) -> _Connection:
        """Connect a server, with the source of access tokens `reusable` unless that is None."""
        try:
            credential = Credential()
            if config.credential is not None:
                async with asyncio.timeout(CREDENTIAL_SECONDS):
                    credential = await self._credentials.read(config.credential)
            tokens = reusable or self._server_tokens(key, config, credential)
            upstream = await self._build_upstream(key, config, credential, tokens.credentials)
            return _Connection(upstream, tokens.credentials, tokens.consent, credential.arguments)
        except (CredentialUnreadable, TimeoutError) as error:
            why = str(error) or f"the credential was not read within {CREDENTIAL_SECONDS:g} s"
            log.warning("Server %s cannot be called, as its credential cannot be read: %s", key, why)
            unreadable = f"the gateway cannot read the credential of the server {key}; its log has the reason"
            return _Connection(Unreachable(unreadable), complete=False)
        except (McpError, ssl.SSLError, ValueError) as error:
            log.warning("Server %s cannot be called: %s", key, error)
            return _Connection(Unreachable(f"the server {key} cannot be called; the gateway's log has the reason"))

    def _server_tokens(self, key: ServerKey, config: _UpstreamConfig, credential: Credential) -> _ServerTokens:
        endpoint, oauth = config.endpoint, config.oauth
        kinds = ChildEndpoint if config.key_variable else HttpEndpoint | OpenApiEndpoint
        if oauth is None or not isinstance(endpoint, kinds):
            return _ServerTokens()

        def observe(subject: TokenSubject, seconds: float) -> None:  # `credentials` are made after the source
            credentials.granted(subject, seconds)

        access = token_access(
            endpoint,
            self._resolve(key),
            server=str(key),
            server_uid=config.uid,
            make_tls=self._tls,
            observe=observe,
            forgotten=lambda person: self._end_sessions_of(key, person),
            is_own_audience=self._is_own_audience,
        )
        source = TokenSource(oauth, credential, access, self._grants)
        credentials = ServerCredentials(
            key,
            oauth,
            source,
            links=self._links,
            allowed=self._settings.token_exchange_allowed,
            observe=partial(self._observe_grant, key),
        )
        if not oauth.of_person or self._grants is None:
            return _ServerTokens(credentials)

        def session(token: AccessToken) -> McpSession:
            sent = Credential(headers={**headers_beside(credential, oauth), **token.header})
            network = NetworkAccess(sent, self._resolve(key), self._installation)
            return network_session(str(key), endpoint, network)

        flow = make_flow(oauth, credential, access, self._grants)
        sessions = None if isinstance(endpoint, OpenApiEndpoint) else session
        consent = ServerConsent(oauth, config.uid, endpoint, self._installation, flow, source, sessions)
        return _ServerTokens(credentials, consent)

    async def _build_upstream(
        self, key: ServerKey, config: _UpstreamConfig, credential: Credential, credentials: ServerCredentials | None
    ) -> Upstream:
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
                name = f"{key} for client {next(self._numbers)}"
                return self._child(name, config, endpoint, credential, features, key_in(line) if line else "")

            sessions = self._per_client(key, config, child)
            if config.key_variable or (per_client and self._children is not None):
                return sessions
            return GatedUpstream(self._child(key, config, endpoint, credential), sessions)
        make = await (
            self._http(key, config, endpoint, credential, credentials)
            if isinstance(endpoint, HttpEndpoint)
            else self._link(key, config, endpoint, credential)
        )
        return self._per_client(key, config, lambda features, _: make(features)) if per_client else make(None)

    def _per_client(
        self, key: ServerKey, config: _UpstreamConfig, make: Callable[[bytes, bytes], Upstream]
    ) -> PerClientUpstream:
        return PerClientUpstream(
            str(key),
            make,
            modern=config.traits.modern,
            settings=self._settings.per_client,
            counts=self._shares,
            by_credential=bool(config.key_variable),
        )

    def end_session(self, session: bytes) -> None:
        """End all server sessions of a client session."""
        for entry in self._entries.values():
            entry.connection.upstream.end_session(session)

    def _end_sessions_of(self, key: ServerKey, person: bytes) -> None:
        """End the sessions of a person with a server: servers bind sessions to accounts."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.connection.upstream.end_sessions_of(person)

    def _child(
        self,
        key: Hashable,
        config: _UpstreamConfig,
        endpoint: ChildEndpoint,
        credential: Credential,
        features: bytes | None = None,
        person_key: str = "",
    ) -> Upstream:
        """Upstream of one process; with `person_key`, of the person who entered that key."""
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
            shared=self._shared and features is None,
            client_stream=None if features is None else ClientStream(features),
        )

    async def _http(
        self,
        key: ServerKey,
        config: _UpstreamConfig,
        endpoint: HttpEndpoint,
        credential: Credential,
        credentials: ServerCredentials | None,
    ) -> Callable[[bytes | None], Upstream]:
        target = Target.from_url(endpoint.url, endpoint.host_header)
        tls = await self._tls(endpoint.ca_bundle) if target.tls else None
        idle = NEVER if config.per_client else IDLE_SESSION_SECONDS
        health = PodHealthTable(random.random)
        access = HttpAccess(
            {**headers_beside(credential, config.oauth), **self._via},
            tls,
            self._resolve(key),
            credentials,
            self._settings.per_client.most if config.personal else MAX_SESSIONS,
            self._complete,
            credential.arguments,
        )
        return lambda _: HttpUpstream(target, config.traits, self._client, access, session_idle=idle, health=health)

    async def _openapi(
        self, key: ServerKey, config: _UpstreamConfig, endpoint: OpenApiEndpoint, credential: Credential
    ) -> Upstream:
        access = ApiAccess(
            credential=credential,
            headers=self._via,
            tls=await self._tls(endpoint.ca_bundle),
            system_tls=await self._tls(None),
            resolve=self._resolve(key),
        )
        return OpenApiUpstream(endpoint, config.operations, access, limit=config.traits.limit)

    async def _link(
        self, key: ServerKey, config: _UpstreamConfig, endpoint: EventsEndpoint | TcpEndpoint, credential: Credential
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
            client_stream = None if features is None else ClientStream(features)
            # `PerClientUpstream` closes the links of clients
            idle = self.link_seconds if client_stream is None else NEVER
            side = ClientSide(self._client)
            if client_stream is not None:
                side = ClientSide(self._client, client_stream.offering, client_stream.relay)
            link = StreamClient(str(key), opener, StreamPolicy(legacy=not config.traits.modern, idle=idle), side=side)
            shared = LinkUpstream(link, config.traits, client_stream=client_stream, mask=Mask(credential))
            return (
                shared
                if client_stream is not None
                else GatedUpstream(shared, self._per_client(key, config, lambda features, _: make(features)))
            )

        return make

    async def _tls(self, ca_bundle: str | None) -> ssl.SSLContext:
        """TLS context, created in a thread because reading the system's certificates takes tens of milliseconds."""
        if ca_bundle is not None:
            return await asyncio.to_thread(ssl.create_default_context, cadata=ca_bundle)
        if self._system_tls is None:
            self._system_tls = await asyncio.to_thread(ssl.create_default_context)
        return self._system_tls

    def _retire(self, key: ServerKey, connection: _Connection) -> None:
        task = asyncio.get_running_loop().create_task(self._close_later(key, connection), name=f"retire {key}")
        self._retiring[task] = connection
        task.add_done_callback(self._retiring.pop)

    async def _close_later(self, key: ServerKey, connection: _Connection) -> None:
        await asyncio.sleep(RETIRE_DELAY)
        await connection.aclose(RETIRE_SECONDS, replaced=key in self._entries)
