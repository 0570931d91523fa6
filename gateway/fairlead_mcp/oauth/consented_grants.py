"""Access tokens by the refresh tokens of users who consented (RFC 6749 section 6), which a store keeps.

A provider that rotates refresh tokens gives each one once, and may end a consent whose refresh token it sees twice. So

- a replica claims the grant before it renews it, by compare-and-set; others wait until it is done or the claim ends;
- the new refresh token replaces the old one, by compare-and-set, before the access token is used;
- a renewal that began runs to its end, whatever becomes of the calls that wait for it; a pair that the store did not
  take is written as soon as it does, and before the next renewal.

Where a renewal did not rotate, those of the next STEADY_SECONDS neither claim nor write the grant, unless something
changes. Those after them do, so that the store seals each grant that is used with its newest key.

A process that is killed between the provider's answer and the write leaves the old refresh token in the store. A
provider that takes it once more, as many do for some seconds, gives another pair; at the others the person signs in
again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import OAuthSettings
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.client_authentication import ClientAuthentication
from fairlead_mcp.oauth.client_registrations import ClientRegistrations, reading_grants
from fairlead_mcp.oauth.consented_clients import ConsentedClients, issuer_of
from fairlead_mcp.oauth.errors import (
    ACCESS_DENIED,
    GRANT_STORE,
    INTERACTION_REQUIRED,
    INVALID_CLIENT,
    INVALID_GRANT,
    INVALID_REQUEST,
    ISSUER_MISMATCH,
    SIGN_IN_REQUIRED,
    UNAUTHORIZED_CLIENT,
    GrantFailed,
)
from fairlead_mcp.oauth.grants import refresh_parameters
from fairlead_mcp.oauth.issuer_client import IssuerClient, TokenForm
from fairlead_mcp.oauth.named_hosts import guard_named_hosts
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, StoredGrant, UnreadableGrant, VersionedGrant
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_answer import IssuedToken
from fairlead_mcp.oauth.token_grants import GrantRequest, TokenGrants
from fairlead_mcp.oauth.token_http import REQUEST_SECONDS
from fairlead_mcp.oauth.unsaved_grants import UnsavedGrants

CLAIM_SECONDS: Final = 15.0
"""Time for which a replica renews a grant alone; longer than the request and the write take."""
SKEW_SECONDS: Final = 120.0
"""Difference of the clocks of two replicas that makes no difference."""
PAUSE_SECONDS: Final = 0.1
"""Time between two looks at a grant that another replica renews."""
STEADY_SECONDS: Final = 86_400.0
"""Time for which it is taken for granted that an authorization server does not rotate a refresh token."""
_ATTEMPTS: Final = 4
"""Renewals of which each lost its race against a change of the grant."""
_ASK_AGAIN: Final = frozenset({ACCESS_DENIED, INTERACTION_REQUIRED, INVALID_REQUEST})
"""Causes for which the person signs in again, although the grant may still be good: errors of a provider's own, as
GitHub's `bad_refresh_token`, count as INVALID_REQUEST.
"""
_REGISTRATION_GONE: Final = frozenset({INVALID_CLIENT, UNAUTHORIZED_CLIENT})


class ConsentedGrants(TokenGrants):
    """Renews the access tokens of all users who consented for one server."""

    def __init__(self, settings: OAuthSettings, credential: Credential, access: TokenAccess, store: GrantStore) -> None:
        """Raises GrantFailed if the client of the settings cannot authenticate."""
        if settings.client_id:
            ClientAuthentication(settings, credential)
        self._settings = settings
        self._access = access = guard_named_hosts(settings, access)
        self._store = store
        self._clients = ConsentedClients(settings, credential, access)
        self._registrations = ClientRegistrations(access, store)
        self._renewals: dict[GrantKey, asyncio.Task[AccessToken]] = {}
        self._consents: OrderedDict[bytes, float] = OrderedDict()
        """`granted_at` of the consent that a person's last token is of."""
        self._unsaved = UnsavedGrants(store)

    def check(self, subject: TokenSubject) -> None:
        if not subject.person:
            raise sign_in_required("the server is called for users who signed in at it, and the caller is not one")

    async def token(self, request: GrantRequest) -> AccessToken:
        key = GrantKey(request.subject.person, self._access.server)
        while True:
            renewal = self._renewals.get(key)
            joined = renewal is not None
            if renewal is None:
                renewal = self._renewals[key] = asyncio.get_running_loop().create_task(self._renew(key, request))
                renewal.add_done_callback(lambda task: self._end(key, task))
            token = await asyncio.shield(renewal)  # which goes on without waiters, or the new pair might be lost
            if not joined or request.step_up <= token.scopes:
                return token

    async def has_consent(self, person: bytes) -> bool:
        key = GrantKey(person, self._access.server)
        try:
            stored = await self._store.read(key)
        except UnreadableGrant:  # there is one, of a replica that has another key by now
            return True
        if stored is None:
            return False
        if self._consents.get(person, stored.grant.granted_at) != stored.grant.granted_at:
            return False
        self.note_consent(person, stored.grant)
        return True

    def note_consent(self, person: bytes, grant: StoredGrant) -> None:
        self._consents[person] = grant.granted_at
        self._consents.move_to_end(person)
        if len(self._consents) > self._access.max_tokens:
            self._consents.popitem(last=False)

    def forget(self, person: bytes) -> None:
        self._consents.pop(person, None)

    def doubt(self) -> None:
        self._clients.doubt()

    async def aclose(self) -> None:
        if self._renewals:
            _, late = await asyncio.wait([*self._renewals.values()], timeout=REQUEST_SECONDS)
            for renewal in late:
                renewal.cancel()
        await self._unsaved.aclose()
        await self._clients.aclose()

    # Internals

    def _end(self, key: GrantKey, task: asyncio.Task[AccessToken]) -> None:
        del self._renewals[key]
        if not task.cancelled():
            task.exception()  # or asyncio would log it, if no waiter is left

    async def _renew(self, key: GrantKey, request: GrantRequest) -> AccessToken:
        for _ in range(_ATTEMPTS):
            claimed, client = await self._claim(key, request)
            issued = await self._redeem(key, claimed, client)
            if issued is not None and await self._save(key, claimed, issued, request):
                self.note_consent(key.person, claimed.grant)
                return issued.access
        raise GrantFailed("the person's sign-in changes all the time: try again", cause=GRANT_STORE)

    async def _claim(self, key: GrantKey, request: GrantRequest) -> tuple[VersionedGrant, IssuerClient]:
        """Wait until no other replica renews the grant, and let others wait from now on, unless the grant is steady.
        Returns the grant with the version of the claim. Raises GrantFailed.

        The time in a claim is that of another clock. So a claim ends here when its record has not changed for
        CLAIM_SECONDS; the time only tells one of now from one that was left long ago.
        """
        seen, seen_at = "", 0.0
        while True:
            stored = self._usable(await self._read(key), request.step_up)
            grant = stored.grant
            client = self._clients.of(grant)
            await self._prepare(client, request.resource_metadata)
            now = self._access.clock()
            if abs(grant.renewing_until - now) <= CLAIM_SECONDS + SKEW_SECONDS:
                if stored.version != seen:
                    seen, seen_at = stored.version, self._access.monotonic()
                if self._access.monotonic() < seen_at + CLAIM_SECONDS:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
            if now < grant.steady_until:
                return stored, client
            claim = msgspec.structs.replace(grant, renewing_until=now + CLAIM_SECONDS)
            version = await self._write(key, claim, stored.version)
            if version is not None:
                return VersionedGrant(grant, version), client

    async def _prepare(self, client: IssuerClient, resource_metadata: str) -> None:
        """Find the token endpoint, before others have to wait. Raises GrantFailed."""
        try:
            await client.prepare(resource_metadata)
        except GrantFailed as error:
            if error.cause != ISSUER_MISMATCH or self._settings.issuer:
                raise
            raise sign_in_required(str(error)) from error

    def _usable(self, stored: VersionedGrant | None, step_up: frozenset[str]) -> VersionedGrant:
        """Raise GrantFailed unless the refresh token of the grant may be used."""
        problem = self.problem_of(None if stored is None else stored.grant, step_up)
        if problem or stored is None:
            raise sign_in_required(problem)
        return stored

    def sign_in_problem(self, person: bytes, grant: StoredGrant | None) -> str:
        return self.problem_of(grant)

    def problem_of(self, grant: StoredGrant | None, step_up: frozenset[str] = frozenset()) -> str:
        """Why a person with this grant has to sign in; empty if the grant may be used."""
        if grant is None:
            return f"you have not signed in at {self._access.server}"
        settings, now = self._settings, self._access.clock()
        missing = sorted(step_up.difference(grant.scopes))
        problem = ""
        if grant.server_address != self._access.address:
            problem = f"you signed in at {grant.server_address}, but the server is at {self._access.address} now"
        elif grant.server_uid != self._access.server_uid:
            problem = "the server was removed since you signed in, and is another one now"
        elif issuer_of(settings, grant.issuer) != grant.issuer:
            problem = f"you signed in at {grant.issuer}, but the server's sign-in is at {issuer_of(settings)} now"
        elif grant.token_url != settings.token_url:
            problem = "the token endpoint in the settings of the server is another one since you signed in"
        elif settings.client_id not in ("", grant.client_id):
            problem = "the gateway's client at the authorization server is another one since you signed in"
        elif not grant.refresh_token:
            problem = "your sign-in has ended, for the authorization server gave no refresh token that can be stored"
        elif 0 < grant.expires_at <= now or 0 < grant.client_expires_at <= now:
            problem = f"your sign-in at {self._access.server} has expired"
        elif missing:
            problem = f"{self._access.server} wants more access than you gave ({' '.join(missing)[:200]})"
        return problem

    async def _redeem(self, key: GrantKey, claimed: VersionedGrant, client: IssuerClient) -> IssuedToken | None:
        """Use the refresh token; None if the grant has changed meanwhile. Raises GrantFailed."""
        grant = claimed.grant
        form = TokenForm(
            refresh_parameters(grant.refresh_token, grant.resource),
            secrets=(grant.refresh_token,),
            known_scopes=grant.scopes,
        )
        try:
            return await client.request(form)
        except GrantFailed as error:
            if error.cause == INVALID_GRANT:
                if not await self._delete(key, claimed.version):
                    return None
                raise sign_in_required(str(error)) from error
            if grant.steady_until <= self._access.clock():
                with contextlib.suppress(GrantFailed):
                    await self._write(key, grant, claimed.version)
            if error.cause in _REGISTRATION_GONE and not self._settings.client_id:
                await self._registrations.forget(grant)
            elif error.cause not in _ASK_AGAIN:
                raise
            raise sign_in_required(str(error)) from error

    async def _save(self, key: GrantKey, claimed: VersionedGrant, issued: IssuedToken, request: GrantRequest) -> bool:
        """Replace the refresh token; False if the grant has changed meanwhile. Raises GrantFailed."""
        now = self._access.clock()
        renewed = renewed_grant(claimed.grant, issued, now)
        if request.for_call:
            renewed = renewed.used(now)
        if renewed == claimed.grant:
            current = await self._read(key)
            return current is not None and current.version == claimed.version
        try:
            if await self._write(key, renewed, claimed.version) is not None:
                return True
            current = await self._read(key)  # if ended meanwhile, it was revoked by the refresh token that was replaced
            if current is None or not current.grant.has_client_of(renewed):
                await self._clients.revoke(renewed)
            return False
        except GrantFailed:
            self._unsaved.add(key, VersionedGrant(renewed, claimed.version))
            raise

    async def _read(self, key: GrantKey) -> VersionedGrant | None:
        await self._unsaved.save(key)
        with reading_grants():
            return await self._store.read(key)

    async def _write(self, key: GrantKey, grant: StoredGrant, version: str) -> str | None:
        with reading_grants():
            return await self._store.write(key, grant, version)

    async def _delete(self, key: GrantKey, version: str) -> bool:
        with reading_grants():
            return await self._store.delete(key, version)


def sign_in_required(problem: str) -> GrantFailed:
    """Make the failure for a person who has to sign in."""
    text = problem if problem.endswith("sign in again") else f"{problem}: sign in"
    return GrantFailed(text, cause=SIGN_IN_REQUIRED)


def renewed_grant(grant: StoredGrant, issued: IssuedToken, now: float) -> StoredGrant:
    """The grant with a new refresh token, where the answer has one. What is too long to be stored is left out: its
    scopes, else the refresh token too.
    """
    rotated = issued.refresh_token not in ("", grant.refresh_token)
    renewed = msgspec.structs.replace(
        grant,
        refresh_token=issued.refresh_token or grant.refresh_token,
        scopes=tuple(sorted(issued.access.scopes)),
        renewed_at=now if rotated else grant.renewed_at,
        expires_at=issued.refresh_expires_at or (0.0 if rotated else grant.expires_at),
        renewing_until=0.0,
        steady_until=0.0 if rotated else grant.steady_until if now < grant.steady_until else now + STEADY_SECONDS,
    )
    if renewed.fits:
        return renewed
    shorter = msgspec.structs.replace(renewed, scopes=())
    return shorter if shorter.fits else msgspec.structs.replace(shorter, refresh_token="")
