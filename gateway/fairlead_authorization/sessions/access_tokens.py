"""Issues access tokens: JWTs that the gateway signs (RFC 9068), for one resource (RFC 8707)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from joserfc import jwt

from fairlead_authorization.sessions.session import ClientSession
from fairlead_authorization.sessions.signing_keys import SigningKeys
from fairlead_gateway.identity.own_tokens import (
    AGENT_CLAIM,
    ALGORITHM,
    JWT_TYPE,
    MAX_SECONDS,
    PERSON_CLAIM,
    SESSION_CLAIM,
)
from fairlead_gateway.identity.token_identity import jwt_person


class IssuedAccessToken(NamedTuple):
    """A signed access token."""

    value: str
    expires_in: int
    """Seconds from now."""

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

    async def issue(self, session: ClientSession, scopes: Sequence[str] | None = None) -> IssuedAccessToken:
        """Token for a session, with fewer scopes if `scopes` says so. A session without an id is not stored, as that of
        an assertion, and its token cannot be ended before it expires. Raises SessionsAway.
        """
        signer = await self._keys.signer()
        now = int(self._now())
        ends = min(now + self._seconds, session.ends_at)
        person = session.person
        claims: dict[str, Any] = {
            "iss": self._address,
            "aud": session.access.resource,
            "sub": jwt_person(person.issuer, person.subject).decode("utf-8", "replace"),
            "client_id": session.client_id,
            "scope": " ".join(session.access.scopes if scopes is None else scopes),
            "iat": now,
            "exp": int(ends),
            "jti": secrets.token_urlsafe(12),
            PERSON_CLAIM: {**person.claims, "iss": person.issuer, "sub": person.subject},
        }
        if session.id:
            claims[SESSION_CLAIM] = session.id
        if session.agent is not None:
            claims[AGENT_CLAIM] = session.agent
        header = {"alg": ALGORITHM, "typ": JWT_TYPE, "kid": signer.id}
        return IssuedAccessToken(jwt.encode(header, claims, signer.key, algorithms=[ALGORITHM]), int(ends) - now)
