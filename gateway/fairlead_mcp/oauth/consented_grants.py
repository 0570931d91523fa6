"""Renews access tokens by the stored refresh tokens of users who have consented (RFC 6749 section 6).

A provider that rotates refresh tokens issues a new one with each renewal, and may end a consent if it receives an old
one. Therefore

- a replica claims a grant by compare-and-set before it renews it; other replicas wait for the end of the renewal or of
  the claim;
- the new refresh token replaces the old one in the store, by compare-and-set, before the access token is used;
- a renewal is completed even if no call waits for it. A refresh token that could not be stored is written as
  soon as the store is available, and before the next renewal.

If a renewal did not rotate the refresh token, the renewals of the next STEADY_SECONDS neither claim nor write the
grant, unless something changes. The next renewal after that writes it, so that a grant that is in use is sealed with
the newest key of the store.

If a process is killed between the provider's answer and the write, the store still has the old refresh token. Many
providers accept it for some more seconds; at other providers, the user has to sign in again.
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
from fairlead_mcp.oauth.client_registrations import ClientRegistrations, translate_store_errors
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
"""Duration of a claim, longer than the request and the write take."""
SKEW_SECONDS: Final = 120.0
"""Tolerated difference between the clocks of two replicas."""
PAUSE_SECONDS: Final = 0.1
"""Time between two reads of a grant that another replica renews."""
STEADY_SECONDS: Final = 86_400.0
"""Time for which an authorization server that did not rotate a refresh token is assumed not to rotate it."""
_ATTEMPTS: Final = 4
"""Maximum number of renewals for one request; a concurrent change of the grant makes a renewal useless."""
_SIGN_IN_CAUSES: Final = frozenset({ACCESS_DENIED, INTERACTION_REQUIRED, INVALID_REQUEST})
"""Causes for which the user has to sign in again although the grant may be valid. Error codes that are not in RFC 6749,
such as GitHub's `bad_refresh_token`, count as INVALID_REQUEST.
"""
_UNKNOWN_CLIENT_CAUSES: Final = frozenset({INVALID_CLIENT, UNAUTHORIZED_CLIENT})


class ConsentedGrants(TokenGrants):
    """Renews the access tokens of all users who have consented for one server."""

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
        """`granted_at` of the consent from which each person's last token is, by person."""
        self._ended: OrderedDict[bytes, str] = OrderedDict()
        """Why grants of persons ended, until they sign in again; a sentence for each."""
        self._unsaved = UnsavedGrants(store)

    def check(self, subject: TokenSubject) -> None:
        if not subject.person:
            raise sign_in_required("calls of the server need the sign-in of a user, and the caller is not a user")

    async def token(self, request: GrantRequest) -> AccessToken:
        key = GrantKey(request.subject.person, self._access.server)
        while True:
            renewal = self._renewals.get(key)
            is_shared = renewal is not None
            if renewal is None:
                renewal = self._renewals[key] = asyncio.get_running_loop().create_task(self._renew(key, request))
                renewal.add_done_callback(lambda task: self._end(key, task))
            # the renewal is not cancelled with its waiters, or a new refresh token might be lost
            token = await asyncio.shield(renewal)
            if not is_shared or request.step_up <= token.scopes:
                return token

    async def has_consent(self, person: bytes) -> bool:
        key = GrantKey(person, self._access.server)
        try:
            stored = await self._store.read(key)
        except UnreadableGrant:  # a grant exists, sealed by a replica that already has a newer key
            return True
        if stored is None:
            return False
        if self._consents.get(person, stored.grant.granted_at) != stored.grant.granted_at:
            return False
        self.note_consent(person, stored.grant)
        return True

    def note_consent(self, person: bytes, grant: StoredGrant) -> None:
        self._ended.pop(person, None)
        self._consents[person] = grant.granted_at
        self._consents.move_to_end(person)
        if len(self._consents) > self._access.max_tokens:
            self._consents.popitem(last=False)

    def note_end(self, person: bytes, reason: str) -> None:
        self._ended[person] = reason
        if len(self._ended) > self._access.max_tokens:
            self._ended.popitem(last=False)

    def forget(self, person: bytes) -> None:
        self._consents.pop(person, None)

    def invalidate_discovery(self) -> None:
        self._clients.invalidate_discovery()

    async def aclose(self) -> None:
        if self._renewals:
            _, unfinished = await asyncio.wait([*self._renewals.values()], timeout=REQUEST_SECONDS)
            for renewal in unfinished:
                renewal.cancel()
        await self._unsaved.aclose()
        await self._clients.aclose()

    def _end(self, key: GrantKey, task: asyncio.Task[AccessToken]) -> None:
        del self._renewals[key]
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it if no waiter is left

    async def _renew(self, key: GrantKey, request: GrantRequest) -> AccessToken:
        for _ in range(_ATTEMPTS):
            claimed_grant, client = await self._claim(key, request)
            tokens = await self._redeem(key, claimed_grant, client)
            if tokens is not None and await self._save(key, claimed_grant, tokens, request):
                self.note_consent(key.person, claimed_grant.grant)
                return tokens.access
        raise GrantFailed("the stored sign-in of the user keeps changing: try again", cause=GRANT_STORE)

    async def _claim(self, key: GrantKey, request: GrantRequest) -> tuple[VersionedGrant, IssuerClient]:
        """Wait until no other replica renews the grant, and claim it, unless it is steady. Returns the grant with the
        version of the claim. Raises GrantFailed.

        The time in another replica's claim comes from another clock. A claim is therefore over when its record has not
        changed for CLAIM_SECONDS on this replica's clock. Its time only distinguishes a current claim from one of a
        replica that ended long ago.
        """
        version_read, read_at = "", 0.0
        while True:
            stored = self._require_usable(key.person, await self._read(key), request.step_up)
            grant = stored.grant
            client = self._clients.for_grant(grant)
            await self._prepare(client, request.resource_metadata)
            now = self._access.clock()
            if abs(grant.renewing_until - now) <= CLAIM_SECONDS + SKEW_SECONDS:
                if stored.version != version_read:
                    version_read, read_at = stored.version, self._access.monotonic()
                if self._access.monotonic() < read_at + CLAIM_SECONDS:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
            if now < grant.steady_until:
                return stored, client
            claim = msgspec.structs.replace(grant, renewing_until=now + CLAIM_SECONDS)
            version = await self._write(key, claim, stored.version)
            if version is not None:
                return VersionedGrant(grant, version), client

    async def _prepare(self, client: IssuerClient, resource_metadata: str) -> None:
        """Find the token endpoint before the grant is claimed, so that other replicas wait less. Raises GrantFailed."""
        try:
            await client.prepare(resource_metadata)
        except GrantFailed as error:
            if error.cause != ISSUER_MISMATCH or self._settings.issuer:
                raise
            raise sign_in_required(str(error)) from error

    def _require_usable(self, person: bytes, stored: VersionedGrant | None, step_up: frozenset[str]) -> VersionedGrant:
        """Return the grant if its refresh token may be used; otherwise raise GrantFailed."""
        problem = self.sign_in_problem(person, None) if stored is None else self.grant_problem(stored.grant, step_up)
        if problem or stored is None:
            raise sign_in_required(problem)
        return stored

    def sign_in_problem(self, person: bytes, grant: StoredGrant | None) -> str:
        if grant is None and person in self._ended:
            return self._ended[person]
        return self.grant_problem(grant)

    def grant_problem(self, grant: StoredGrant | None, step_up: frozenset[str] = frozenset()) -> str:
        """Why a user with this grant has to sign in; empty if the grant may be used. `step_up` are scopes that the
        server requires.
        """
        if grant is None:
            return f"you have not signed in at {self._access.server}"
        settings, now = self._settings, self._access.clock()
        missing = sorted(step_up.difference(grant.scopes))
        problem = ""
        if grant.server_address != self._access.address:
            problem = f"you signed in at {grant.server_address}, but the server is at {self._access.address} now"
        elif grant.server_uid != self._access.server_uid:
            problem = "the server that you signed in at was removed, and another one has its name now"
        elif issuer_of(settings, grant.issuer) != grant.issuer:
            problem = f"you signed in at {grant.issuer}, but the server's sign-in is at {issuer_of(settings)} now"
        elif grant.token_url != settings.token_url:
            problem = "the token endpoint in the server's settings has changed since you signed in"
        elif settings.client_id not in ("", grant.client_id):
            problem = "the gateway's client at the authorization server has changed since you signed in"
        elif not grant.refresh_token:
            problem = (
                "your sign-in has ended, because the authorization server sent no refresh token that can be stored"
            )
        elif 0 < grant.expires_at <= now or 0 < grant.client_expires_at <= now:
            problem = f"your sign-in at {self._access.server} has expired"
        elif missing:
            problem = f"{self._access.server} requires more access than you granted ({' '.join(missing)[:200]})"
        return problem

    async def _redeem(self, key: GrantKey, claimed_grant: VersionedGrant, client: IssuerClient) -> IssuedToken | None:
        """Use the refresh token; None if the grant has changed in the meantime. Raises GrantFailed."""
        grant = claimed_grant.grant
        form = TokenForm(
            refresh_parameters(grant.refresh_token, grant.resource),
            secrets=(grant.refresh_token,),
            known_scopes=grant.scopes,
        )
        try:
            return await client.request(form)
        except GrantFailed as error:
            if error.cause == INVALID_GRANT:
                if not await self._delete(key, claimed_grant.version):
                    return None
                ended = f"your sign-in at {self._access.server} has expired or was ended at the authorization server"
                self.note_end(key.person, ended)
                raise sign_in_required(str(error)) from error
            if grant.steady_until <= self._access.clock():
                with contextlib.suppress(GrantFailed):
                    await self._write(key, grant, claimed_grant.version)
            if error.cause in _UNKNOWN_CLIENT_CAUSES and not self._settings.client_id:
                await self._registrations.forget(grant)
            elif error.cause not in _SIGN_IN_CAUSES:
                raise
            raise sign_in_required(str(error)) from error

    async def _save(
        self, key: GrantKey, claimed_grant: VersionedGrant, tokens: IssuedToken, request: GrantRequest
    ) -> bool:
        """Store the new refresh token; False if the grant has changed in the meantime. Raises GrantFailed."""
        now = self._access.clock()
        new_grant = renewed_grant(claimed_grant.grant, tokens, now)
        if request.for_call:
            new_grant = new_grant.with_use(now)
        if new_grant == claimed_grant.grant:
            current = await self._read(key)
            return current is not None and current.version == claimed_grant.version
        try:
            if await self._write(key, new_grant, claimed_grant.version) is not None:
                return True
            # if the user has ended the consent in the meantime, only the replaced refresh token was revoked
            current = await self._read(key)
            if current is None or not current.grant.has_client_of(new_grant):
                await self._clients.revoke(new_grant)
            return False
        except GrantFailed:
            self._unsaved.add(key, VersionedGrant(new_grant, claimed_grant.version))
            raise

    async def _read(self, key: GrantKey) -> VersionedGrant | None:
        await self._unsaved.save(key)
        with translate_store_errors():
            return await self._store.read(key)

    async def _write(self, key: GrantKey, grant: StoredGrant, version: str) -> str | None:
        with translate_store_errors():
            return await self._store.write(key, grant, version)

    async def _delete(self, key: GrantKey, version: str) -> bool:
        with translate_store_errors():
            return await self._store.delete(key, version)


def sign_in_required(problem: str) -> GrantFailed:
    """The failure for a user who has to sign in."""
    text = problem if problem.endswith("sign in again") else f"{problem}: sign in"
    return GrantFailed(text, cause=SIGN_IN_REQUIRED)


def renewed_grant(grant: StoredGrant, tokens: IssuedToken, now: float) -> StoredGrant:
    """The grant after a renewal, with the new refresh token if there is one. If it is too long to be stored, its scopes
    are dropped, and if necessary the refresh token too.
    """
    is_rotated = tokens.refresh_token not in ("", grant.refresh_token)
    new_grant = msgspec.structs.replace(
        grant,
        refresh_token=tokens.refresh_token or grant.refresh_token,
        scopes=tuple(sorted(tokens.access.scopes)),
        renewed_at=now if is_rotated else grant.renewed_at,
        expires_at=tokens.refresh_expires_at or (0.0 if is_rotated else grant.expires_at),
        renewing_until=0.0,
        steady_until=0.0 if is_rotated else grant.steady_until if now < grant.steady_until else now + STEADY_SECONDS,
    )
    if new_grant.fits:
        return new_grant
    shorter = msgspec.structs.replace(new_grant, scopes=())
    return shorter if shorter.fits else msgspec.structs.replace(shorter, refresh_token="")
