"""User sign-ins to servers: makes links, creates authorization requests, and stores grants.

For a server that requires a key of each user, the link leads to a form for the key.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Final

import msgspec

from fairlead_api.documents.oauth import UserKeySettings
from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.outbound import CallCredentials
from fairlead_gateway.core.sign_in import SignInLinks, SignInWait
from fairlead_gateway.grants.granted_server import granted_server
from fairlead_gateway.identity.persons import holder_of, name_of, person_of, require_person
from fairlead_gateway.sign_in.callback_ports import CallbackPorts
from fairlead_gateway.sign_in.pending import SIGN_IN_SECONDS, PendingSignIn, PendingSignIns
from fairlead_gateway.sign_in.required_sign_ins import RequiredSignIns
from fairlead_gateway.sign_in.site import CALLBACK, SignInSite
from fairlead_gateway.upstream.server_consent import ServerConsent
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.consent import Authorization, ConsentDestination, ConsentFlow
from fairlead_mcp.oauth.consented_clients import issuer_of
from fairlead_mcp.oauth.entered_keys import KeyEntry
from fairlead_mcp.oauth.errors import CLOSED, CONFIGURATION, GRANT_STORE, ISSUER_MISMATCH, SIGN_IN_REQUIRED, GrantFailed
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, StoredGrant, UnreadableGrant
from fairlead_mcp.waiting import wait_until_set

log = logging.getLogger(__name__)

ASK_SECONDS: Final = 20.0
"""Time limit of a request for a link. If the caller has a grant, its access token is renewed within that time."""
RETRY_SECONDS: Final = 1.0
"""Seconds between two attempts to read a store that is unavailable."""
_ADDRESS_MISSING: Final = (
    "this server wants each user to sign in, but the gateway does not know its own address for browsers: set "
    "FAIRLEAD_PUBLIC_URL (chart: gateway.settings.publicUrl), such as {} for browsers here"
)
_STORE_MISSING: Final = (
    "this server wants each user to sign in, but the gateway has no store for grants: set FAIRLEAD_GRANTS (chart: "
    "grants.store) or, on one machine, FAIRLEAD_GRANTS_DIRECTORY"
)
_CONSOLE_DISABLED: Final = (
    "this server wants each user to sign in, which needs the gateway's console, and that is off: set "
    "FAIRLEAD_CONSOLE=true"
)
_REMOVED_SERVER: Final = "the server was removed, or no longer asks users to sign in"


class SignInServices(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of sign-ins on the rest of the gateway."""

    site: SignInSite
    store: GrantStore | None
    """Grants that users made; None if none can be stored."""
    find_consent: Callable[[ServerKey], ServerConsent | None]
    """The consent flow or key entry of a server; None if users do not sign in to it."""
    needs_grants: Callable[[ServerKey], bool]
    """Whether calls of a server need a grant of each user. True even if the gateway cannot store grants."""
    all_consents: Callable[[], Mapping[ServerKey, ServerConsent]]
    """Consent flows and key entries of all servers."""
    find_credentials: Callable[[ServerKey], CallCredentials | None]
    """Access tokens of a server; None if it has none."""
    forget_key: Callable[[ServerKey, bytes], None]
    """Called with a server and a user when the user's previous key must not be used any more."""
    note_sign_in: Callable[[ServerKey, bytes], None]
    """Called with a server and a user after the user's consent."""
    clock: Callable[[], float]
    """Monotonic seconds."""


class SignIns(SignInLinks, SignInWait):
    """Sign-ins of one gateway."""

    def __init__(self, services: SignInServices, pending: PendingSignIns) -> None:
        self._services = services
        self._pending = pending
        self.required = RequiredSignIns(services.store, services.all_consents, pending)
        """Sign-ins that users have to complete before calls can be made."""
        self._ports = CallbackPorts(lambda: services.site.base_url() + CALLBACK)
        self._watch_task: asyncio.Task[None] | None = None
        self._revocations = TaskSet()

    def start(self) -> None:
        """Begin to notice sign-ins at other replicas. Must be called in the event loop."""
        store = self._services.store
        if store is not None:
            work = self._watch(store.changes())
            self._watch_task = asyncio.get_running_loop().create_task(work, name="sign-ins elsewhere")

    @property
    def site(self) -> SignInSite:
        return self._services.site

    async def link(self, identity: Identity, server: ServerKey, challenge: Challenge | None) -> str:
        person = require_person(identity)
        if self._services.store is None:
            raise GrantFailed(_STORE_MISSING, cause=SIGN_IN_REQUIRED)
        if not self.site.base_url():
            raise GrantFailed(_ADDRESS_MISSING.format(self.site.loopback()), cause=SIGN_IN_REQUIRED)
        if not (self.site.is_local or self.site.has_console):
            raise GrantFailed(_CONSOLE_DISABLED, cause=SIGN_IN_REQUIRED)
        pending = self._pending.open(person, holder_of(identity), server, challenge, name_of(identity))
        return self.site.link(server, pending.id)

    def requires(self, server: ServerKey) -> bool:
        """Whether a server requires users to sign in, and the gateway can store their grants."""
        return self._services.find_consent(server) is not None

    def require_store(self, server: ServerKey) -> None:
        """Raises GrantFailed if a server requires users to sign in, but the gateway cannot store their grants."""
        if self._services.store is None and self._services.needs_grants(server):
            raise GrantFailed(_STORE_MISSING, cause=SIGN_IN_REQUIRED)

    def address_of(self, server: ServerKey) -> str:
        """URL or program of a server. Raises GrantFailed if users do not sign in to it."""
        return self._consent(server).address

    def key_of(self, server: ServerKey) -> UserKeySettings | None:
        """The key that users enter for a server; None if they sign in to the server, or need neither."""
        consent = self._services.find_consent(server)
        return None if consent is None else consent.settings.user_key

    def has_token(self, identity: Identity, server: ServerKey) -> bool:
        """Whether the caller has a valid access token for a server."""
        credentials = self._services.find_credentials(server)
        try:
            return credentials is not None and credentials.find_cached(identity) is not None
        except GrantFailed:
            return False

    def _is_refused(self, identity: Identity, server: ServerKey) -> bool:
        """Whether the server refuses the caller's newest access token."""
        consent = self._services.find_consent(server)
        return consent is not None and consent.source.refuses(person_of(identity))

    async def is_signed_in(self, identity: Identity, server: ServerKey) -> bool:
        """Whether the caller has signed in to a server, at any replica.

        A grant that can no longer be used does not count: a call has opened a new sign-in, the grant has no refresh
        token, or it belongs to another URL of the server.
        """
        if self._is_refused(identity, server):
            return False
        if self.has_token(identity, server):
            return True
        grant = await self._read_grant(GrantKey(person_of(identity), str(server)))
        consent = self._services.find_consent(server)
        if grant is None or consent is None:
            return False
        return not self.required.reason(person_of(identity), server, consent, grant)

    async def ask(self, identity: Identity, server: ServerKey) -> None:
        """Open a sign-in of the caller, unless the caller's grant still gives an access token. Clears the failure of an
        earlier attempt. Raises Timeout, and GrantFailed if there is neither a token nor a sign-in.
        """
        credentials = self._services.find_credentials(server)
        if credentials is None:
            raise GrantFailed(_REMOVED_SERVER, cause=CLOSED)
        if self._is_refused(identity, server):
            await self.link(identity, server, None)
        elif self.has_token(identity, server):
            return
        else:
            try:
                await credentials.acquire(identity, self._services.clock() + ASK_SECONDS)
            except GrantFailed as error:
                if not error.sign_in_url:
                    raise
        pending = self.of_caller(identity, server)
        if pending is not None:
            pending.failure = ""

    def find(self, ident: str) -> PendingSignIn | None:
        """The open sign-in with an id."""
        return self._pending.find(ident)

    def admit_browser(self, pending: PendingSignIn) -> str:
        """Make the cookie of a browser that proved to be the user's."""
        return self._pending.admit_browser(pending)

    def admits(self, pending: PendingSignIn, cookie: str) -> bool:
        """Whether a cookie comes from a browser that was admitted."""
        return self._pending.admits(pending, cookie)

    def of_answer(
        self, path: str, answer: Mapping[str, str], cookies: Mapping[str, str]
    ) -> tuple[PendingSignIn, Authorization] | None:
        """The open sign-in and the authorization request to which an answer of an authorization server belongs. The
        browser with these cookies must have begun the sign-in, and returned to the path of the redirect URI.
        """
        sign_in = self._pending.of_answer(answer.get("state", ""), cookies)
        consent = None if sign_in is None else self._services.find_consent(sign_in[0].server)
        if sign_in is None or consent is None:
            return None
        return sign_in if path == self.site.callback_path(sign_in[0].server, consent.settings) else None

    def of_caller(self, identity: Identity, server: ServerKey) -> PendingSignIn | None:
        """The caller's open sign-in to a server."""
        return self._pending.of_owner(person_of(identity), server)

    async def destination(self, pending: PendingSignIn) -> ConsentDestination:
        """Destination of an open sign-in. Raises GrantFailed."""
        with _report_failures(pending):
            return await self._flow(pending.server).destination(pending.ticket.challenge)

    async def _request(self, pending: PendingSignIn) -> Authorization:
        """Make an authorization request for an open sign-in; register a client if needed. Raises GrantFailed."""
        settings = self._consent(pending.server).settings
        return await self._flow(pending.server).begin(
            self.site.redirect_uri(pending.server, settings),
            challenge=pending.ticket.challenge,
            client_document_url=self.site.client_document(pending.server),
            scopes=await self._granted_scopes(pending),
        )

    async def _granted_scopes(self, pending: PendingSignIn) -> frozenset[str]:
        """Scopes that the user granted before, if the server now requires more."""
        store, challenge = self._services.store, pending.ticket.challenge
        if store is None or challenge is None or not challenge.lacks_scopes:
            return frozenset()
        try:
            record = await store.read(GrantKey(pending.person, str(pending.server)))
        except GrantStoreError:
            return frozenset()
        return frozenset() if record is None else frozenset(record.grant.scopes)

    async def begin(self, pending: PendingSignIn) -> tuple[Authorization, str]:
        """Begin an attempt. Returns the request and the cookie value that its answer needs. Raises GrantFailed."""
        with _report_failures(pending):
            authorization = await self._request(pending)
            cookie = self._pending.admit_browser(pending, authorization)
            port = self.site.registered_port(self._consent(pending.server).settings)
            if port and not self.site.listens_at(port):
                await self._ports.open(port, pending.id, SIGN_IN_SECONDS)
        pending.failure = ""
        return authorization, cookie

    async def finish(self, pending: PendingSignIn, authorization: Authorization, answer: Mapping[str, str]) -> str:
        """Process the answer of the authorization server: store the grant, and let waiting calls continue. Returns a
        remark for the user, or an empty text. Raises GrantFailed; the link then remains valid.
        """
        self._pending.mark_answered(authorization)
        with _report_failures(pending):
            consent = self._consent(pending.server)
            self._check_port(pending.server, consent, authorization, answer)
            grant, token = await self._flow(pending.server).finish(authorization, answer)
        remark = await self._store_grant(pending, consent, msgspec.structs.replace(grant, holder=pending.holder))
        consent.source.adopt(pending.person, token, None if remark else grant)
        self._pending.close(pending)
        self._ports.release(pending.id)
        self._services.note_sign_in(pending.server, pending.person)
        return remark

    async def enter_key(self, identity: Identity, server: ServerKey, key: str) -> None:
        """Store the key that a caller entered for a server, replace an earlier one, and let waiting calls continue.
        Raises UnusableKey, and GrantFailed if the key cannot be stored.
        """
        person = require_person(identity)
        await self._store_key(server, person, holder_of(identity), key)
        pending = self._pending.of_owner(person, server)
        if pending is not None:
            self._pending.close(pending)

    async def enter_key_at(self, pending: PendingSignIn, key: str) -> None:
        """Like `enter_key`, for the user of an open sign-in, whose link then becomes invalid."""
        await self._store_key(pending.server, pending.person, pending.holder, key)
        self._pending.close(pending)

    async def _store_key(self, server: ServerKey, person: bytes, holder: str, key: str) -> None:
        flow, store = self._consent(server).flow, self._services.store
        if not isinstance(flow, KeyEntry):
            raise GrantFailed(f"users sign in at the server {server}; it takes no keys of users", cause=CONFIGURATION)
        if store is None:
            raise GrantFailed(_STORE_MISSING, cause=SIGN_IN_REQUIRED)
        grant = flow.grant_of(key, holder)
        try:
            await store.write(GrantKey(person, str(server)), grant)
        except GrantStoreError as error:
            raise GrantFailed(f"the key could not be stored: {error}", cause=GRANT_STORE) from error
        self._services.forget_key(server, person)
        self._services.note_sign_in(server, person)

    def _check_port(
        self, server: ServerKey, consent: ServerConsent, authorization: Authorization, answer: Mapping[str, str]
    ) -> None:
        """Check an answer that does not name its authorization server (RFC 9207). If another authorization server's
        answers arrive at the same port, the answer may come from that server (RFC 9700 section 4.4): raises
        GrantFailed.
        """
        port = self.site.registered_port(consent.settings)
        if not port or "iss" in answer:
            return
        for key, other_consent in self._services.all_consents().items():
            is_shared = key != server and self.site.registered_port(other_consent.settings) == port
            if is_shared and issuer_of(other_consent.settings) != authorization.issuer:
                raise GrantFailed(
                    f"the answer does not name {authorization.issuer} as its issuer, and the server {key} has the same "
                    f"callbackPort, {port}: give each a port of its own, or set issuer at both if it is the same",
                    cause=ISSUER_MISMATCH,
                )

    async def _store_grant(self, pending: PendingSignIn, consent: ServerConsent, grant: StoredGrant) -> str:
        """Store a grant. If it cannot be stored, its access token can still be used; then returns a remark for the
        user.
        """
        store = self._services.store
        assert store is not None, "without a store there is no link"
        key = GrantKey(pending.person, str(pending.server))
        previous_grant = await self._read_grant(key)
        try:
            await store.write(key, grant)
        except GrantStoreError as error:
            log.warning("A user's grant for the server %s could not be stored: %s", pending.server, error)
            return (
                f"You will be asked again when the access token expires, as the gateway could not store this: {error}"
            )
        if previous_grant is not None and not previous_grant.has_client_of(grant):
            self._revocations.start(_revoke(consent, previous_grant), f"revoke a grant for {pending.server}")
        return ""

    async def wait(self, identity: Identity, server: ServerKey, seconds: float) -> bool:
        pending = self.of_caller(identity, server)
        return pending is None or await wait_until_set(pending.ended, seconds)

    async def _watch(self, changes: AsyncIterator[GrantKey]) -> None:
        """End open sign-ins that were completed at another replica; their links have been used."""
        async for key in changes:
            try:
                await self._end_if_granted(key)
            except Exception:
                log.exception("A sign-in at another replica was not noticed")

    async def _end_if_granted(self, key: GrantKey) -> None:
        """End the open sign-in of a changed grant if the grant is newer than the sign-in. Waits while the store is
        unavailable.
        """
        server, store = granted_server(key), self._services.store
        if server is None or store is None:
            return
        while self._pending.of_owner(key.person, server) is not None:
            try:
                record = await store.read(key)
            except UnreadableGrant:
                return
            except GrantStoreError:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                pending = self._pending.of_owner(key.person, server)  # may have changed during the read
                if pending is not None and record is not None and record.grant.granted_at >= pending.opened_at:
                    self._pending.close(pending)
                return

    async def _read_grant(self, key: GrantKey) -> StoredGrant | None:
        """The user's stored grant; None if there is no readable grant."""
        store = self._services.store
        try:
            record = None if store is None or not key.person else await store.read(key)
        except GrantStoreError:
            return None
        return None if record is None else record.grant

    async def aclose(self) -> None:
        if self._watch_task is not None:
            self._watch_task.cancel()
            await asyncio.gather(self._watch_task, return_exceptions=True)
        await self._revocations.cancel()
        await self._ports.aclose()

    def _flow(self, server: ServerKey) -> ConsentFlow:
        """The consent flow of a server. Raises GrantFailed for a server without one."""
        flow = self._consent(server).flow
        if not isinstance(flow, ConsentFlow):
            raise GrantFailed(f"the server {server} requires a key of each user, not a sign-in", cause=CONFIGURATION)
        return flow

    def _consent(self, server: ServerKey) -> ServerConsent:
        consent = self._services.find_consent(server)
        if consent is None:
            raise GrantFailed(_REMOVED_SERVER, cause=CLOSED)
        return consent


async def _revoke(consent: ServerConsent, grant: StoredGrant) -> None:
    """Revoke a grant that was replaced, if its authorization server supports that."""
    if isinstance(consent.flow, ConsentFlow) and not await consent.flow.revoke(grant):
        log.info("A grant that a new sign-in replaced was not revoked at %s and may still be valid there", grant.issuer)


@contextlib.contextmanager
def _report_failures(pending: PendingSignIn) -> Iterator[None]:
    """Tell calls that wait for a sign-in why a step of it failed."""
    try:
        yield
    except GrantFailed as error:
        pending.fail(str(error))
        raise
