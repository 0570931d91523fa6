"""Authenticates access tokens that the gateway's own authorization server issued.

A token (RFC 9068) contains issuer, subject and claims of a person as the provider gave them, so that its identity
equals the identity of the provider's token. Only the agent differs: it is the client that the gateway has verified. A
token is valid for one resource and the paths below it (RFC 8707).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key
from joserfc.jws import JWSRegistry

from fairlead_gateway.core.identity import Identity, Kind, ServiceAccount
from fairlead_gateway.identity.authenticator import Revoke, Verdict
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.jwt_authenticator import (
    BAD_SIGNATURE,
    EXPIRED,
    MAX_TOKEN,
    NOBODY,
    NOT_YET,
    OTHER_AUDIENCE,
    OTHER_ISSUER,
    UNKNOWN_SIGNER,
    UNREADABLE,
    invalid_token,
    json_of,
    time_of,
)
from fairlead_gateway.identity.names import Issuers
from fairlead_gateway.identity.refusal import UNAVAILABLE, CredentialRefusal
from fairlead_gateway.identity.request_authentication import PLAIN_PATH
from fairlead_gateway.identity.token_identity import (
    scope_refusal,
    service_account_identity,
    token_identity,
    words_of,
)

ALGORITHM: Final = "ES256"
JWT_TYPE: Final = "at+jwt"
"""`typ` of the header (RFC 9068 section 2.1)."""
PERSON_CLAIM: Final = "fairlead_person"
"""Claim with the person: `iss`, `sub` and the other claims of the provider."""
AGENT_CLAIM: Final = "fairlead_agent"
"""Claim with the name of the client in policies; missing for a client that chose its name."""
ANYBODY_CLAIM: Final = "fairlead_anybody"
"""Claim that is true for a client that no administrator named; missing for other clients."""
SESSION_CLAIM: Final = "sid"
"""Claim with the session. The token becomes invalid when the session ends."""
CLIENT_CLAIM: Final = "client_id"
"""Claim with the client (RFC 9068 section 2.2)."""
WORKLOAD_CLAIM: Final = "fairlead_workload"
"""Claim with the ServiceAccount of a token that is not for a person: `namespace`, `name`, `uid` and `groups`."""
SKEW_SECONDS: Final = 30.0
"""Tolerated difference between the clocks of two replicas."""
MAX_SECONDS: Final = 600.0
"""Maximum lifetime of a token, in seconds."""
MAX_ENDED: Final = 65_536
"""Maximum number of ended sessions that are remembered, each until all of its tokens have expired. If there are more,
the oldest is forgotten, and all tokens that are as old as its tokens are rejected; clients then refresh them.
"""
ENDED: Final = invalid_token("the sign-in of this token has ended: sign in again")


class SessionOfToken(NamedTuple):
    """Session of an access token, with its person and client."""

    person: bytes
    """Key of the person (`Identity.person`)."""
    session: str
    client_id: str


class WorkloadClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Value of the claim `fairlead_workload`."""

    namespace: str
    name: str
    uid: str
    groups: tuple[str, ...]


class OwnKeys(Protocol):
    """Public keys of the gateway's tokens."""

    def find(self, kid: str | None) -> Key | None:
        """The key with an id; None if there is no such key, or none yet."""
        ...

    async def refetch(self) -> bool:
        """Read the keys again, unless they were read just now. True if all keys are certainly known."""
        ...


class OwnTokens:
    """`Authenticator` of the gateway's own tokens. `address` is the URL of the gateway, which is their issuer;
    `issuers` are the providers of the users. `issuer_names` are all issuers that policies may name. `now` returns
    seconds since the epoch.
    """

    kind: Kind = "jwt"
    cache_seconds = float("inf")

    def __init__(
        self,
        address: str,
        keys: OwnKeys,
        issuers: Sequence[Issuer],
        *,
        scopes: Sequence[str] = (),
        issuer_names: Issuers | None = None,
        workloads: bool = False,
        now: Callable[[], float],
    ) -> None:
        """`workloads`: whether there are tokens of ServiceAccounts."""
        self._address = address.rstrip("/")
        self._keys = keys
        self._issuers = {issuer.issuer: issuer for issuer in issuers}
        self._scopes = tuple(scopes)
        self._issuer_names = issuer_names or Issuers(tokens=tuple(issuer.names for issuer in issuers))
        self._workloads = workloads
        self._now = now
        self._registry = JWSRegistry(strict_check_header=False)
        self._registry.max_header_length = self._registry.max_payload_length = MAX_TOKEN
        self._revoke: Revoke | None = None
        self._ended_sessions: dict[str, float] = {}
        """By ended session: when its last token expires, in seconds since the epoch; the earliest first."""
        self._issued_after = float("-inf")
        """Tokens of sessions that were issued before this time are rejected. In seconds since the epoch."""

    def recognizes(self, token: str) -> bool:
        parts = token.split(".")
        if len(parts) != 3 or len(token) > MAX_TOKEN:
            return False
        claims = json_of(parts[1])
        return claims is not None and claims.get("iss") == self._address

    def check(self, token: str) -> Verdict | None:
        claims = self._signed_claims(token)
        return self._check_claims(claims) if isinstance(claims, dict) else claims

    async def session_of(self, token: str) -> SessionOfToken | None:
        """The session of a valid token; None if the token is invalid or has no session."""
        claims = self._signed_claims(token)
        if claims is None:
            await self._keys.refetch()
            claims = self._signed_claims(token)
        identity = self._check_claims(claims) if isinstance(claims, dict) else claims
        if not isinstance(identity, Identity) or not isinstance(claims, dict):
            return None
        session, client_id = claims.get(SESSION_CLAIM), claims.get(CLIENT_CLAIM)
        if not isinstance(session, str) or not isinstance(client_id, str):
            return None
        return SessionOfToken(identity.person, session, client_id)

    def _signed_claims(self, token: str) -> dict[str, Any] | CredentialRefusal | None:
        """Claims of a token whose signature is valid; None if its key is unknown."""
        header = json_of(token.partition(".")[0])
        if header is None or len(token) > MAX_TOKEN or not isinstance(header.get("kid"), str):
            return UNREADABLE
        if header.get("alg") != ALGORITHM or header.get("typ") != JWT_TYPE:
            return invalid_token("tokens of this gateway have another typ or alg in their header than this token")
        key = self._keys.find(header["kid"])
        if key is None:
            return None
        try:
            return jwt.decode(token, key, algorithms=[ALGORITHM], registry=self._registry).claims
        except (JoseError, ValueError, TypeError, RecursionError):
            return BAD_SIGNATURE

    async def look_up(self, token: str) -> Verdict:
        """Check a token whose key is unknown, after the keys were read again."""
        keys_are_known = await self._keys.refetch()
        return self.check(token) or (UNKNOWN_SIGNER if keys_are_known else UNAVAILABLE)

    async def start(self, revoke: Revoke) -> None:
        self._revoke = revoke

    async def aclose(self) -> None:
        pass

    def end_session(self, session: str) -> None:
        """Reject the tokens of a session from now on."""
        now = self._now()
        while self._ended_sessions:
            earliest = next(iter(self._ended_sessions))
            if self._ended_sessions[earliest] > now:
                if len(self._ended_sessions) < MAX_ENDED:
                    break
                self._issued_after = max(self._issued_after, self._ended_sessions[earliest] - MAX_SECONDS)
            del self._ended_sessions[earliest]
        self._ended_sessions[session] = now + MAX_SECONDS + SKEW_SECONDS
        if self._revoke is not None:
            credential = self._credential(session)
            self._revoke(lambda identity: identity.credential == credential)

    def _check_claims(self, claims: Mapping[str, Any]) -> Verdict:
        """Check the claims of a token whose signature is valid."""
        now = self._now()
        expires_at, issued_at = time_of(claims.get("exp")), time_of(claims.get("iat"))
        if expires_at is None or issued_at is None:
            return UNREADABLE
        if expires_at <= now:
            return EXPIRED
        if issued_at - SKEW_SECONDS > now:
            return NOT_YET
        if claims.get("iss") != self._address:
            return OTHER_ISSUER
        resource = self._path(claims.get("aud"))
        if resource is None:
            return OTHER_AUDIENCE
        if WORKLOAD_CLAIM in claims:
            return self._workload(claims[WORKLOAD_CLAIM], resource, expires_at)
        session, agent, person = claims.get(SESSION_CLAIM, ""), claims.get(AGENT_CLAIM), claims.get(PERSON_CLAIM)
        if not isinstance(session, str) or not isinstance(agent, str | None) or not isinstance(person, dict):
            return UNREADABLE
        if session in self._ended_sessions or (session and issued_at <= self._issued_after):
            return ENDED
        issuer = self._issuers.get(str(person.get("iss")))
        if issuer is None:
            return invalid_token("the gateway does not accept users of this provider any more")
        if not isinstance(person.get("sub"), str) or not person["sub"]:
            return NOBODY
        scopes = frozenset(words_of(claims.get("scope")))
        return scope_refusal(scopes, self._scopes) or token_identity(
            person,
            issuer,
            self._issuer_names,
            agent=agent or None,
            scopes=scopes,
            credential=self._credential(session),
            expires_at=expires_at,
            resource=resource,
            issued_here=True,
            of_anybody=agent is None or claims.get(ANYBODY_CLAIM) is True,
            session=session,
        )

    def _workload(self, member: Any, resource: str, expires_at: float) -> Verdict:
        """Identity of a ServiceAccount; equal to the identity of the ServiceAccount's own token."""
        if not self._workloads:
            return invalid_token("the gateway does not exchange tokens of ServiceAccounts any more")
        try:
            workload = msgspec.convert(member, WorkloadClaim)
        except msgspec.ValidationError:
            return UNREADABLE
        account = ServiceAccount(workload.namespace, workload.name)
        identity = service_account_identity(account, workload.groups, workload.uid, expires_at)
        return msgspec.structs.replace(identity, resource=resource, issued_here=True)

    def _path(self, audience: Any) -> str | None:
        """Path of the resource that is the token's only audience; None if the audience is not a URL of this gateway."""
        if not isinstance(audience, str):
            return None
        resource = audience.rstrip("/")
        path = resource.removeprefix(self._address)
        if not resource.startswith(self._address) or PLAIN_PATH.fullmatch(path) is None:
            return None
        return path

    def _credential(self, session: str) -> str:
        return f"{self._address} {session}"
