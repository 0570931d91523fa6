"""Registry of all upstreams by server.

An upstream is created with its server, and replaced when its configuration changes. `sync` has to be called before each
activation. This module reads the credential of a server and gives it only to the upstream of that server.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

import msgspec

from fairlead_api.documents.catalog import (
    Catalog,
    ChildEndpoint,
    Credential,
    HttpEndpoint,
    LocalEndpoint,
    OpenApiEndpoint,
    TcpEndpoint,
)
from fairlead_api.meta import ServerKey
from fairlead_api.slices import table_in_slices
from fairlead_gateway.core.credentials import CredentialUnreadable
from fairlead_gateway.core.ports import Gauges, Upstream
from fairlead_gateway.core.server import Server
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.rate import Sharing
from fairlead_gateway.upstream.guard import Guard, Timing
from fairlead_gateway.upstream.outbound_credentials import ServerCredentials
from fairlead_gateway.upstream.ping import PING_SECONDS, Pinger
from fairlead_gateway.upstream.server_consent import ServerConsent, additional_headers, make_flow, token_access
from fairlead_gateway.upstream.server_facts import AdmissionLimits, ServerTraits
from fairlead_gateway.upstream.settings import UpstreamSettings
from fairlead_gateway.upstream.upstream_access import UpstreamAccess
from fairlead_gateway.upstream.upstream_config import UpstreamConfig
from fairlead_gateway.upstream.upstream_factory import Unreachable, UpstreamFactory
from fairlead_gateway.yielding import in_turns
from fairlead_mcp import eras
from fairlead_mcp.errors import McpError
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.consent import ConsentFlow
from fairlead_mcp.oauth.stored_grant import StoredGrant
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.oauth.token_source import TokenSource
from fairlead_mcp.opening import NetworkAccess, network_session
from fairlead_mcp.session import McpSession

log = logging.getLogger(__name__)

CREDENTIAL_SECONDS: Final = 2.0
"""Timeout for reading a credential, which delays the activation of a snapshot."""
RETIRE_DELAY: Final = 1.0
"""Time for which a replaced upstream still takes calls, for calls that were resolved just before the activation."""
RETIRE_SECONDS: Final = 60.0
"""Time for calls in progress to complete on a replaced upstream, after RETIRE_DELAY."""


PER_CLIENT: Final = "PerClient"


class _Connection(NamedTuple):
    """Upstream of one server, with its access tokens."""

    upstream: Upstream
    credentials: ServerCredentials | None = None
    """Access tokens per call; None if `upstream` has the credential of all requests."""
    consent: ServerConsent | None = None
    """Consent of users; None if users do not sign in to the server."""
    arguments: Mapping[str, Mapping[str, str]] = {}
    """Values of hidden arguments, by tool and argument."""
    is_complete: bool = True
    """False if `upstream` is a substitute that the next `sync` tries to replace."""

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await self.upstream.aclose(grace, replaced=replaced)
        if self.consent is not None and isinstance(self.consent.flow, ConsentFlow):
            await self.consent.flow.aclose()
        if self.credentials is not None:
            await self.credentials.aclose()


class _ServerTokens(NamedTuple):
    """Access tokens of one server and the consent of its users. A new `_Connection` may reuse both."""

    credentials: ServerCredentials | None = None
    consent: ServerConsent | None = None


class _Entry(msgspec.Struct):
    """Connection of one server, with the configuration that it was created from and its guard."""

    config: UpstreamConfig
    connection: _Connection
    guard: Guard


class Registry:
    """Owner of all upstreams and their guards.

    `on_unreachable` is called with the reason each time that a server cannot be reached. With `sharing`, all replicas
    share the rate limits.
    """

    def __init__(
        self,
        access: UpstreamAccess,
        settings: UpstreamSettings,
        *,
        shares: ShareCounts | None,
        sharing: Sharing | None,
        on_unreachable: Callable[[ServerKey, str], None],
    ) -> None:
        self.factory = UpstreamFactory(access, settings, shares)
        self._credentials = access.credentials
        self._client = access.client
        self._settings = settings
        self._sharing = sharing
        self._resolve = access.resolve
        self._on_unreachable = on_unreachable
        self._keep_tokens = access.keep_tokens
        self._observe_grant = access.observe_grant
        self._forget_grants = access.forget_grants
        self._is_own_audience = access.is_own_audience
        self._links = access.links
        self._session_subject = access.session_subject
        self._grants = access.grants
        self._installation = access.installation
        self._entries: dict[ServerKey, _Entry] = {}
        self._retiring: dict[asyncio.Task[None], _Connection] = {}

    @property
    def incomplete(self) -> bool:
        """Whether `sync` should be repeated although no document has changed."""
        return any(not entry.connection.is_complete for entry in self._entries.values())

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

    def forget(self, server: ServerKey, person: bytes, reason: str = "") -> None:
        """Implements `core.granted_tokens.GrantedTokens`."""
        entry = self._entries.get(server)
        if entry is not None and entry.connection.credentials is not None:
            entry.connection.credentials.forget(person, reason)

    async def revoke(self, server: ServerKey, grant: StoredGrant) -> bool:
        """Implements `core.granted_tokens.GrantRevoker`."""
        consent = self.consent(server)
        flow = None if consent is None else consent.flow
        return isinstance(flow, ConsentFlow) and await flow.revoke(grant)

    def consent(self, key: ServerKey) -> ServerConsent | None:
        """Consent of users for a server; None if users do not sign in to it, or it was removed."""
        entry = self._entries.get(key)
        return None if entry is None else entry.connection.consent

    def needs_grants(self, key: ServerKey) -> bool:
        """Whether calls of a server need a grant of each user. True even if the gateway cannot store grants."""
        entry = self._entries.get(key)
        return entry is not None and entry.config.oauth is not None and entry.config.oauth.of_person

    def consents(self) -> dict[ServerKey, ServerConsent]:
        """All servers that users sign in to."""
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
        """Create upstreams of new servers, replace changed ones, and retire the upstreams of removed servers.

        A server that cannot be reached does not delay the others.
        """
        configs = await in_turns(
            table_in_slices((key, self._config(server.catalog)) for key, server in servers.items())
        )
        changed_configs = {
            key: config
            for key, config in configs.items()
            if key not in self._entries
            or self._entries[key].config != config
            or not self._entries[key].connection.is_complete
        }
        if any(config.exchanges for config in configs.values()):
            self._keep_tokens(True)  # before the first call that needs one
        reusable = {key: self._reusable_tokens(key, config) for key, config in changed_configs.items()}
        connections = await asyncio.gather(
            *(self._make(key, config, reusable[key]) for key, config in changed_configs.items())
        )
        for key in [key for key in self._entries if key not in configs]:
            self._retire(key, self._entries.pop(key).connection)
            self._forget_grants(key)
        for (key, config), connection in zip(changed_configs.items(), connections, strict=True):
            entry = self._entries.get(key)
            if reusable[key] is None:
                self._forget_grants(key)
            if entry is not None:
                if entry.config == config and not connection.is_complete:
                    continue  # reading the credential failed again, so the old substitute stays
                old_connection = entry.connection
                shares_tokens = old_connection.credentials is connection.credentials
                self._retire(
                    key, old_connection._replace(credentials=None, consent=None) if shares_tokens else old_connection
                )
            self._entries[key] = _Entry(config, connection, self._guard(key, config))
        self._keep_tokens(any(config.exchanges for config in configs.values()))

    async def aclose(self, grace: float) -> None:
        connections = [*(entry.connection for entry in self._entries.values()), *self._retiring.values()]
        self._entries.clear()
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        await asyncio.gather(*(connection.aclose(grace) for connection in connections))

    def _config(self, catalog: Catalog) -> UpstreamConfig:
        modern = eras.era_of(catalog.protocol_version) is eras.Era.MODERN
        limit = min(catalog.limits.concurrency or self._settings.connections, self._settings.connections)
        return UpstreamConfig(
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

    def _guard(self, key: ServerKey, config: UpstreamConfig) -> Guard:
        is_local = isinstance(config.endpoint, LocalEndpoint)
        bounds = AdmissionLimits(
            config.traits.limit,
            config.rate,
            self._settings.waiting,
            self._settings.queue_seconds,
            breaks=not is_local,
            burst=config.burst,
        )
        loop = asyncio.get_running_loop()
        return Guard(
            str(key),
            bounds,
            Timing(loop.call_later),
            sharing=self._sharing,
            on_unreachable=lambda reason: self._on_unreachable(key, reason),
            ping=Pinger(lambda: self.upstream(key), self._client, time.monotonic, PING_SECONDS),
        )

    def _reusable_tokens(self, key: ServerKey, config: UpstreamConfig) -> _ServerTokens | None:
        """Access tokens of the current connection, if they stay valid with a changed configuration. Reusing them saves
        every user a new grant. None if they do not stay valid.
        """
        entry = self._entries.get(key)
        if entry is None or not config.has_tokens_of(entry.config):
            return None
        return _ServerTokens(entry.connection.credentials, entry.connection.consent)

    async def _make(self, key: ServerKey, config: UpstreamConfig, reusable: _ServerTokens | None) -> _Connection:
        """Connect a server, with the access tokens `reusable` if they are not None."""
        try:
            credential = Credential()
            if config.credential is not None:
                async with asyncio.timeout(CREDENTIAL_SECONDS):
                    credential = await self._credentials.read(config.credential)
            tokens = reusable or self._server_tokens(key, config, credential)
            upstream = await self.factory.build(key, config, credential, tokens.credentials)
            return _Connection(upstream, tokens.credentials, tokens.consent, credential.arguments)
        except (CredentialUnreadable, TimeoutError) as error:
            reason = str(error) or f"the credential was not read within {CREDENTIAL_SECONDS:g} s"
            log.warning("Server %s cannot be called, as its credential cannot be read: %s", key, reason)
            message = f"the gateway cannot read the credential of the server {key}; its log has the reason"
            return _Connection(Unreachable(message), is_complete=False)
        except (McpError, ssl.SSLError, ValueError) as error:
            log.warning("Server %s cannot be called: %s", key, error)
            return _Connection(Unreachable(f"the server {key} cannot be called; the gateway's log has the reason"))

    def _server_tokens(self, key: ServerKey, config: UpstreamConfig, credential: Credential) -> _ServerTokens:
        endpoint, oauth = config.endpoint, config.oauth
        endpoint_types = ChildEndpoint | TcpEndpoint if config.key_variable else HttpEndpoint | OpenApiEndpoint
        if oauth is None or not isinstance(endpoint, endpoint_types):
            return _ServerTokens()

        def observe(subject: TokenSubject, seconds: float) -> None:  # `credentials` are created after the source
            credentials.report_grant(subject, seconds)

        access = token_access(
            endpoint,
            self._resolve(key),
            server=str(key),
            server_uid=config.uid,
            make_tls=self.factory.tls,
            observe=observe,
            on_forget=lambda person: self._end_sessions_of(key, person),
            is_own_audience=self._is_own_audience,
        )
        source = TokenSource(oauth, credential, access, self._grants)
        credentials = ServerCredentials(
            key,
            oauth,
            source,
            links=self._links,
            session_subject=self._session_subject,
            allowed=self._settings.token_exchange_allowed,
            observe=partial(self._observe_grant, key),
        )
        if not oauth.of_person or self._grants is None:
            return _ServerTokens(credentials)

        def session(token: AccessToken) -> McpSession:
            token_credential = Credential(headers={**additional_headers(credential, oauth), **token.header})
            network = NetworkAccess(token_credential, self._resolve(key), self._installation)
            return network_session(str(key), endpoint, network)

        flow = make_flow(oauth, credential, access, self._grants)
        sessions = None if isinstance(endpoint, OpenApiEndpoint) else session
        consent = ServerConsent(oauth, config.uid, endpoint, self._installation, flow, source, sessions)
        return _ServerTokens(credentials, consent)

    def end_session(self, session: bytes) -> None:
        """End all server sessions of a client session."""
        for entry in self._entries.values():
            entry.connection.upstream.end_session(session)

    def _end_sessions_of(self, key: ServerKey, person: bytes) -> None:
        """End the sessions of a user with a server, because servers bind sessions to accounts."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.connection.upstream.end_sessions_of(person)

    def _retire(self, key: ServerKey, connection: _Connection) -> None:
        task = asyncio.get_running_loop().create_task(self._close_later(key, connection), name=f"retire {key}")
        self._retiring[task] = connection
        task.add_done_callback(self._retiring.pop)

    async def _close_later(self, key: ServerKey, connection: _Connection) -> None:
        await asyncio.sleep(RETIRE_DELAY)
        await connection.aclose(RETIRE_SECONDS, replaced=key in self._entries)
