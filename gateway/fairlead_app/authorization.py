"""Creates the authorization server in front of the providers, if the identity file has `authorizationServer`.

It is created in three steps: `authorization_trust` reads the settings; `own_token_parts` makes the keys of its tokens,
which the authenticator needs, when there is a store of grants; `authorization_service` makes the endpoints.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from fairlead_api.bad_setting import BadSetting
from fairlead_gateway.grants.store import ClosableGrantStore
from fairlead_gateway.identity.authorization_server import AuthorizationServer, OidcProviderClient
from fairlead_gateway.identity.issuers_file import CredentialIssuers, Issuer
from fairlead_gateway.identity.names import Issuers
from fairlead_gateway.identity.settings import IdentitySettings
from fairlead_mcp.addresses import is_loopback
from fairlead_mcp.credential_hosts import is_confidential
from fairlead_mcp.http.dial import Resolve

if TYPE_CHECKING:
    from fairlead_authorization.clients.directory import Clients
    from fairlead_authorization.clients.fetching import Fetch
    from fairlead_authorization.clients.registration import Registrations
    from fairlead_authorization.protocol.application import AuthorizationApi
    from fairlead_authorization.protocol.parts import AuthorizationParts, IdentityAssertions
    from fairlead_authorization.protocol.provider import IdentityProviderClient
    from fairlead_authorization.sessions.provider_revocations import ProviderRevocations
    from fairlead_authorization.sessions.session_ends import SessionEnds
    from fairlead_authorization.sessions.session_record import SessionTimes
    from fairlead_authorization.sessions.signing_keys import SigningKeys
    from fairlead_authorization.sessions.spent_assertions import SpentAssertions
    from fairlead_authorization.sessions.subject_tokens import SubjectTokens
    from fairlead_gateway.identity.authenticator import Authenticator
    from fairlead_gateway.identity.client_sign_ins import ClientSignIns
    from fairlead_gateway.identity.jwt_authenticator import Tokens
    from fairlead_gateway.identity.own_tokens import OwnTokens
    from fairlead_kube.client import Kube
    from fairlead_web.guard import RequestGuard

log = logging.getLogger("fairlead_gateway")

_HOUR: Final = 3_600.0


class AuthorizationTrust(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the authorization server."""

    server: AuthorizationServer
    issuer: str
    """URL of the gateway, without a slash at the end."""
    providers: tuple[IdentityProviderClient, ...]
    issuers: tuple[Issuer, ...]
    """Issuers of users."""
    scopes: tuple[str, ...]
    names: Issuers
    tokens: Tokens
    """Verifies tokens of the providers."""
    workloads: Authenticator | None = None
    """Verifies tokens of ServiceAccounts that are exchanged; None if none are exchanged."""


class OwnTokenParts(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of the gateway's own tokens, their authenticator, and the ends of their sessions."""

    keys: SigningKeys
    authenticator: OwnTokens
    ends: SessionEnds
    revocations: ProviderRevocations


class AuthorizationService:
    """The authorization server of a gateway, to be started and stopped once."""

    def __init__(
        self,
        parts: AuthorizationParts,
        api: AuthorizationApi,
        own_tokens: OwnTokenParts,
        store: ClosableGrantStore,
        subject_tokens: SubjectTokens,
        close_functions: Sequence[Callable[[], Awaitable[None]]],
    ) -> None:
        """`close_functions` are called in their order at the end."""
        from fairlead_authorization.sessions.ended_sessions import EndedSessions
        from fairlead_authorization.sessions.expired_sessions import ExpiredSessions

        self.parts = parts
        self.api = api
        self.subject_tokens = subject_tokens
        """Tokens of the providers, which are exchanged for tokens of servers."""
        self._own_tokens = own_tokens
        self._close_functions = close_functions
        self._ended = EndedSessions(store, own_tokens.authenticator.end_session)
        self._expired = ExpiredSessions(store, own_tokens.ends)

    async def start(self) -> None:
        """Read keys, and watch sessions from now on."""
        self._own_tokens.keys.start()
        self._own_tokens.revocations.start(self.parts.revoke)
        await self._ended.start()
        self._expired.start()

    async def aclose(self) -> None:
        for close in self._close_functions:
            await close()
        await self._expired.aclose()
        await self._ended.aclose()
        await self._own_tokens.keys.aclose()


def authorization_trust(
    identity: IdentitySettings,
    credential_issuers: CredentialIssuers,
    names: Issuers,
    tokens: Tokens | None,
    kube: Kube | None = None,
) -> AuthorizationTrust | None:
    """Check the settings; None without an authorization server. Raises BadSetting."""
    server = credential_issuers.authorization_server
    if server is None:
        return None
    assert tokens is not None, "the file has the issuers of the providers"
    issuer = _issuer(identity)
    if identity.anonymous == "allow":
        log.warning(
            "FAIRLEAD_ANONYMOUS is allow, so authorizationServer asks no client to sign in: set it to deny unless "
            "everybody who reaches the gateway may use it"
        )
    if any(trusted.issuer.rstrip("/") == issuer for trusted in credential_issuers.issuers):
        raise BadSetting(
            f"{identity.file}: {issuer} is FAIRLEAD_PUBLIC_URL, and so the authorization server itself: remove it from "
            "issuers"
        )
    return AuthorizationTrust(
        server=server,
        issuer=issuer,
        providers=tuple(_provider(identity.file, provider, credential_issuers) for provider in server.providers),
        issuers=credential_issuers.issuers,
        scopes=credential_issuers.scopes,
        names=names,
        tokens=tokens,
        workloads=_workloads(issuer, credential_issuers, kube),
    )


def _workloads(issuer: str, credential_issuers: CredentialIssuers, kube: Kube | None) -> Authenticator | None:
    """Create the authenticator of ServiceAccounts' tokens that are exchanged: for the authorization server or its token
    endpoint (RFC 7523 section 3), and tokens that the gateway accepts itself.
    """
    server, service_accounts = credential_issuers.authorization_server, credential_issuers.service_accounts
    if server is None or server.workloads == "deny" or service_accounts is None or kube is None:
        return None
    from fairlead_authorization.protocol.metadata import TOKEN
    from fairlead_gateway.identity.serviceaccounts import ServiceAccountTokens

    audiences = (*service_accounts.audiences, issuer, issuer + TOKEN)
    return ServiceAccountTokens(kube, audiences, service_accounts.seconds)


def own_token_parts(
    trust: AuthorizationTrust | None, store: ClosableGrantStore | None, clock: Callable[[], float]
) -> OwnTokenParts | None:
    """Create keys and authenticator; None without an authorization server. Raises BadSetting without a store."""
    if trust is None:
        return None
    if store is None:
        raise BadSetting(
            "authorizationServer stores the sign-ins of clients with grants, and no store of grants is configured: set "
            "FAIRLEAD_GRANTS to redis or secrets, or for one gateway FAIRLEAD_GRANTS_DIRECTORY to a directory"
        )
    from fairlead_authorization.sessions.provider_revocations import ProviderRevocations
    from fairlead_authorization.sessions.session_ends import SessionEnds
    from fairlead_authorization.sessions.signing_keys import SigningKeys
    from fairlead_gateway.identity.own_tokens import OwnTokens

    keys = SigningKeys(store, clock=clock)
    authenticator = OwnTokens(
        trust.issuer,
        keys,
        trust.issuers,
        scopes=trust.scopes,
        issuer_names=trust.names,
        workloads=trust.workloads is not None,
        now=time.time,
    )
    revocations = ProviderRevocations(store)
    ends = SessionEnds(store, authenticator.end_session, revocations.add)
    return OwnTokenParts(keys=keys, authenticator=authenticator, ends=ends, revocations=revocations)


def client_sign_ins(own_tokens: OwnTokenParts | None, store: ClosableGrantStore | None) -> ClientSignIns | None:
    """Sign-ins of clients, for their users; None without an authorization server."""
    if own_tokens is None or store is None:
        return None
    from fairlead_authorization.sessions.sign_ins import StoredSignIns

    return StoredSignIns(store, own_tokens.ends)


def authorization_service(
    trust: AuthorizationTrust,
    own_tokens: OwnTokenParts,
    store: ClosableGrantStore,
    guard: RequestGuard,
    *,
    session_key: bytes,
    resolve: Resolve,
    clock: Callable[[], float],
    documents: Fetch | None = None,
) -> AuthorizationService:
    """Create the authorization server. `documents` fetches documents of clients; by default only from hosts with
    public addresses. Raises BadSetting.
    """
    # imported here, as only gateways with an authorization server need Authlib
    from fairlead_authorization.protocol.application import AuthorizationApi
    from fairlead_authorization.protocol.browser_state import BrowserStates
    from fairlead_authorization.protocol.client_assertions import UsedAssertions
    from fairlead_authorization.protocol.metadata import CALLBACK
    from fairlead_authorization.protocol.parts import AuthorizationParts
    from fairlead_authorization.protocol.provider import OpenIdProvider
    from fairlead_authorization.sessions.access_tokens import AccessTokens
    from fairlead_authorization.sessions.spent_assertions import SpentAssertions
    from fairlead_authorization.sessions.stored_sessions import StoredSessions
    from fairlead_authorization.sessions.subject_tokens import SubjectTokens
    from fairlead_mcp.oauth.token_access import TokenAccess

    server = trust.server
    registrations = _registrations(server, session_key)
    clients = _clients(server, registrations, documents, resolve=resolve, clock=clock)
    access = TokenAccess("", resolve, monotonic=clock)
    sessions = StoredSessions(store, own_tokens.keys, own_tokens.ends, _session_times(server), clock=clock)
    spent_assertions = SpentAssertions(store, time.time)
    parts = AuthorizationParts(
        issuer=trust.issuer,
        scopes=trust.scopes,
        clients=clients,
        takes_documents=bool(server.client_hosts),
        registrations=registrations,
        sessions=sessions,
        tokens=AccessTokens(trust.issuer, own_tokens.keys, float(server.token_seconds)),
        keys=own_tokens.keys,
        own_tokens=own_tokens.authenticator,
        providers={
            provider.name: OpenIdProvider(provider, trust.tokens, f"{trust.issuer}{CALLBACK}{provider.name}", access)
            for provider in trust.providers
        },
        assertions=_assertions(trust, spent_assertions),
        used_assertions=UsedAssertions(spent_assertions, server.client_hosts),
        workloads=trust.workloads,
        states=BrowserStates(session_key, secure=trust.issuer.startswith("https:")),
        now=time.time,
        clock=clock,
    )
    subjects = SubjectTokens(sessions, parts.renew, own_tokens.authenticator.end_session)
    api = AuthorizationApi(parts, guard)
    close_functions = (subjects.aclose, sessions.aclose, own_tokens.revocations.aclose, api.aclose, clients.aclose)
    return AuthorizationService(parts, api, own_tokens, store, subjects, close_functions)


def _session_times(server: AuthorizationServer) -> SessionTimes:
    from fairlead_authorization.sessions.session_record import SessionTimes

    return SessionTimes(
        grace=float(server.grace_seconds),
        renewed=server.session_hours * _HOUR,
        unrenewed=server.unrenewed_hours * _HOUR,
    )


def _registrations(server: AuthorizationServer, session_key: bytes) -> Registrations | None:
    """Registration of clients by themselves; None if it is off."""
    from fairlead_authorization.clients.registration import Registrations

    if server.registration is None:
        return None
    if not session_key:
        log.warning(
            "FAIRLEAD_SESSION_KEY is not set: clients that register themselves have to register again after a restart"
        )
    return Registrations(server.registration, session_key)


def _clients(
    server: AuthorizationServer,
    registrations: Registrations | None,
    documents: Fetch | None,
    *,
    resolve: Resolve,
    clock: Callable[[], float],
) -> Clients:
    """Clients of the settings, those that registered themselves, and those with a document at their URL."""
    from fairlead_authorization.clients.configured import configured_clients
    from fairlead_authorization.clients.directory import Clients
    from fairlead_authorization.clients.document_clients import DocumentClients
    from fairlead_authorization.clients.fetching import DocumentFetcher
    from fairlead_mcp.egress import public_only
    from fairlead_mcp.oauth.token_access import load_tls

    fetch = documents or DocumentFetcher(public_only(resolve), lambda: load_tls(None), clock)
    agents = server.agent_names
    return Clients(
        configured_clients(server.clients, agents),
        registrations,
        DocumentClients(fetch, server.client_hosts, agents, clock),
    )


def _assertions(trust: AuthorizationTrust, spent_assertions: SpentAssertions) -> IdentityAssertions | None:
    """Trust in assertions of the issuers that the settings name; None if they name none."""
    from fairlead_authorization.protocol.parts import IdentityAssertions

    issuer_names = trust.server.assertions
    issuers = frozenset(issuer.issuer for issuer in trust.issuers if not set(issuer.names).isdisjoint(issuer_names))
    return IdentityAssertions(issuers, trust.tokens, spent_assertions) if issuers else None


def _issuer(identity: IdentitySettings) -> str:
    """Issuer of the authorization server. Raises BadSetting."""
    url = identity.public_url.rstrip("/")
    if not url:
        raise BadSetting(
            f"{identity.file}: authorizationServer needs the URL by which browsers and clients reach the gateway: set "
            "FAIRLEAD_PUBLIC_URL to it, such as https://tools.example.com"
        )
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise BadSetting(
            f"FAIRLEAD_PUBLIC_URL is {url!r}, which must be an https URL with authorizationServer: without TLS anybody "
            "on the network path can read codes and tokens"
        )
    return url


def _provider(
    file: Path | None, settings: OidcProviderClient, credential_issuers: CredentialIssuers
) -> IdentityProviderClient:
    """The gateway as a client of a provider. Raises BadSetting."""
    from fairlead_authorization.protocol.provider import IdentityProviderClient

    issuer = next(trusted for trusted in credential_issuers.issuers if settings.issuer in trusted.names)
    if not is_confidential(issuer.issuer):
        raise BadSetting(
            f"{file}: authorizationServer: people cannot sign in at {issuer.issuer}, which must be an https URL "
            "unless it is on this machine or in this cluster"
        )
    return IdentityProviderClient(
        name=issuer.name or hashlib.blake2b(issuer.issuer.encode(), digest_size=6).hexdigest(),
        issuer=issuer,
        client_id=settings.client_id,
        client_secret=_secret(settings.client_secret_file, file),
        scopes=settings.scopes,
        prompt=settings.prompt,
        ca_bundle=_read(issuer.ca_file, file, "caFile") or None,
    )


def _secret(path: Path | None, file: Path | None) -> str:
    """The gateway's secret at a provider; empty without a file. Raises BadSetting."""
    secret = _read(path, file, "clientSecretFile").strip()
    if path is not None and not secret:
        raise BadSetting(
            f"{file}: clientSecretFile {path} is empty: write the secret of the gateway's client at the provider into "
            "it, or omit clientSecretFile if that client is public"
        )
    return secret


def _read(path: Path | None, file: Path | None, member: str) -> str:
    """Text of a file that the settings name; empty without one. Raises BadSetting."""
    if path is None:
        return ""
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"{file}: {member} {path} cannot be read: {error}") from error
