"""Issues access tokens: JWTs that the gateway signs (RFC 9068), for one resource (RFC 8707)."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from joserfc import jwt

from fairlead_authorization.sessions.session import ClientSession
from fairlead_authorization.sessions.signing_keys import SigningKeys
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.own_tokens import (
    AGENT_CLAIM,
    ALGORITHM,
    ANYBODY_CLAIM,
    CLIENT_CLAIM,
    JWT_TYPE,
    MAX_SECONDS,
    PERSON_CLAIM,
    SESSION_CLAIM,
    WORKLOAD_CLAIM,
)
from fairlead_gateway.identity.token_identity import jwt_person


class IssuedAccessToken(NamedTuple):
    """A signed access token."""

    value: str
    expires_in: int
    """Lifetime in seconds from now."""

    def __repr__(self) -> str:
        return f"IssuedAccessToken(expires_in={self.expires_in})"


class AccessTokens:
    """Issues tokens of the issuer `address`, each for at most `seconds`. `now` is in seconds since the epoch."""

    def __init__(
        self, address: str, keys: SigningKeys, seconds: float = MAX_SECONDS, now: Callable[[], float] = time.time
    ) -> None:
        self._address = address.rstrip("/")
        self._keys = keys
        self._seconds = min(seconds, MAX_SECONDS)
        self._now = now

    async def issue(
        self, session: ClientSession, scopes: Sequence[str] | None = None, *, of_anybody: bool = False
    ) -> IssuedAccessToken:
        """Issue a token for a session, with all scopes of the session or only `scopes`. `of_anybody`: no setting names
        the client. A session without an id (for an assertion) is not stored, so its token cannot be revoked. Raises
        SessionStoreUnavailable.
        """
        person = session.person
        claims: dict[str, Any] = {
            "aud": session.access.resource,
            "sub": jwt_person(person.issuer, person.subject).decode("utf-8", "replace"),
            CLIENT_CLAIM: session.client_id,
            "scope": " ".join(session.access.scopes if scopes is None else scopes),
            PERSON_CLAIM: {**person.claims, "iss": person.issuer, "sub": person.subject},
        }
        if session.id:
            claims[SESSION_CLAIM] = session.id
        if session.agent is not None:
            claims[AGENT_CLAIM] = session.agent
        if of_anybody:
            claims[ANYBODY_CLAIM] = True
        return await self._sign(claims, session.ends_at)

    async def issue_to_workload(self, workload: Identity, resource: str) -> IssuedAccessToken:
        """Issue a token for a ServiceAccount, which was identified by its own token. The issued token expires no later
        than the ServiceAccount's token. Raises SessionStoreUnavailable.
        """
        account = workload.service_account
        assert account is not None, "the identity of a workload has its ServiceAccount"
        member = {
            "namespace": account.namespace,
            "name": account.name,
            "uid": workload.credential,
            "groups": sorted(workload.groups),
        }
        claims = {"aud": resource, "sub": workload.principal, WORKLOAD_CLAIM: member}
        return await self._sign(claims, workload.expires_at)

    async def _sign(self, claims: Mapping[str, Any], ends_at: float) -> IssuedAccessToken:
        """Sign a token with `claims`, which expires at `ends_at` (seconds since the epoch) or earlier. Raises
        SessionStoreUnavailable.
        """
        signer = await self._keys.signer()
        await asyncio.sleep(0)  # lets calls run, because reading the session has taken some time
        now = int(self._now())
        ends = int(min(now + self._seconds, ends_at))
        common = {"iss": self._address, "iat": now, "exp": ends, "jti": secrets.token_urlsafe(12)}
        header = {"alg": ALGORITHM, "typ": JWT_TYPE, "kid": signer.id}
        value = jwt.encode(header, {**common, **claims}, signer.key, algorithms=[ALGORITHM])
        return IssuedAccessToken(value, ends - now)
