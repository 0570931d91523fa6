"""Sessions of clients at several replicas with one store, over a provider that rotates refresh tokens.

world = SessionWorld(store)
replica = world.replica()
issued = await replica.sign_in("ada")
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Self

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.sessions.access_tokens import AccessTokens
from fairlead_authorization.sessions.provider_revocations import ProviderRevocations
from fairlead_authorization.sessions.session import (
    ClientSession,
    IdentityProviderUnavailable,
    IssuedRefreshToken,
    ProviderGrant,
    RenewalRefused,
    RenewedPerson,
    RequestedAccess,
    SignedInPerson,
    WaitingSession,
)
from fairlead_authorization.sessions.session_ends import SessionEnds
from fairlead_authorization.sessions.session_record import SessionTimes
from fairlead_authorization.sessions.sign_ins import StoredSignIns
from fairlead_authorization.sessions.signing_keys import SigningKeys
from fairlead_authorization.sessions.stored_sessions import StoredSessions
from fairlead_authorization.sessions.subject_tokens import SubjectTokens
from fairlead_gateway.core.identity import Identity, SubjectToken
from fairlead_gateway.identity.token_identity import jwt_person, jwt_principal
from fairlead_mcp.oauth.grants import ACCESS_TOKEN_TYPE
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, StoredGrant
from virtualtime import HandClock

NOW: Final = 1_800_000_000.0
HERE: Final = "https://tools.example.com"
ISSUER: Final = "https://login.example.com"
CLIENT: Final = RegisteredClient(
    id="https://claude.ai/client.json",
    kind="document",
    name="Claude",
    redirect_uris=("https://claude.ai/callback",),
    agent="claude.ai/client.json",
    digest="d1",
)
ACCESS: Final = RequestedAccess(
    redirect_uri="https://claude.ai/callback", challenge="c" * 43, resource=f"{HERE}/mcp", scopes=("tools",)
)
TIMES: Final = SessionTimes()


def person(subject: str = "ada", **claims: Any) -> SignedInPerson:
    return SignedInPerson(issuer=ISSUER, subject=subject, claims={"groups": ["players"], **claims})


def key_of(subject: str = "ada") -> bytes:
    return jwt_person(ISSUER, subject)


class RotatingProvider:
    """Issues each refresh token once, and ends the grant of a token that it sees twice."""

    def __init__(self, clock: Callable[[], float] = lambda: NOW) -> None:
        self.clock = clock
        self.away = False
        """Whether the provider cannot be reached."""
        self.groups = ["players"]
        self.grants: dict[str, str] = {}
        """Current refresh token by grant."""
        self.requests = 0
        self.lifetime = 300.0
        """Seconds from now for which tokens are valid."""
        self.answer_event: asyncio.Event | None = None
        """Event for which the provider waits before it answers; None to answer at once."""
        self.change_person: Callable[[SignedInPerson], SignedInPerson] | None = None
        """Returns the user that the provider names instead of the one who signed in; None for that user."""

    def grant(self) -> ProviderGrant:
        name = f"g{len(self.grants)}"
        self.grants[name] = f"{name}.0"
        return ProviderGrant(self.grants[name])

    def end(self, token: str) -> None:
        self.grants.pop(token.partition(".")[0], None)

    def tokens(self, subject: str) -> dict[str, SubjectToken]:
        """Tokens of an answer."""
        token = SubjectToken(f"access of {subject} {self.requests}", self.clock() + self.lifetime)
        return {ACCESS_TOKEN_TYPE: token}

    async def renew(self, who: SignedInPerson, refresh_token: str) -> RenewedPerson:
        self.requests += 1
        if self.answer_event is not None:
            await self.answer_event.wait()
        if self.away:
            raise IdentityProviderUnavailable("the provider does not answer")
        name, _, number = refresh_token.partition(".")
        if self.grants.get(name) != refresh_token:
            self.grants.pop(name, None)
            raise RenewalRefused
        self.grants[name] = f"{name}.{int(number) + 1}"
        now = person(who.subject, groups=self.groups)
        answer = now if self.change_person is None else self.change_person(now)
        return RenewedPerson(answer, ProviderGrant(self.grants[name]), self.tokens(who.subject))


class Replica:
    """One process with its sessions and keys."""

    def __init__(self, world: SessionWorld, store: GrantStore, times: SessionTimes) -> None:
        clock = world.clock
        self.store = store
        self.keys = SigningKeys(store, clock, clock)
        self.ended: list[str] = []
        """Sessions whose tokens this replica rejects."""
        self.revocations = ProviderRevocations(store)
        self.ends = SessionEnds(store, self.ended.append, self.revocations.add, clock)
        self.sessions = StoredSessions(store, self.keys, self.ends, times, clock, clock, world.pause)
        self.sign_ins = StoredSignIns(store, self.ends, clock)
        self.tokens = AccessTokens(HERE, self.keys, now=clock)
        self._provider = world.provider
        self._subjects = SubjectTokens(self.sessions, self._provider.renew, self.ended.append, clock)

    async def begin_session(self, subject: str = "ada", *, renewable: bool = True, **more: Any) -> WaitingSession:
        """A session that waits for the consent of a user who has just signed in."""
        grant = self._provider.grant() if renewable else ProviderGrant()
        return await self.sessions.begin(
            more.get("who", person(subject)), more.get("client", CLIENT), more.get("access", ACCESS), grant
        )

    async def code(self, subject: str = "ada", **more: Any) -> str:
        return await self.sessions.issue_code(await self.begin_session(subject, **more))

    async def sign_in(self, subject: str = "ada", **more: Any) -> IssuedRefreshToken:
        return await self.sessions.redeem(await self.code(subject, **more), CLIENT.id)

    async def refresh(self, token: str, client_id: str = CLIENT.id) -> IssuedRefreshToken:
        return await self.sessions.refresh(token, client_id, self._provider.renew)

    async def subject_token(self, session: ClientSession, subject: str = "ada", kind: str = ACCESS_TOKEN_TYPE) -> str:
        """The provider's token for a call that a user makes with a token of a session."""
        caller = Identity(kind="jwt", principal=jwt_principal(ISSUER, subject, None), session=session.id)
        return (await self._subjects.get(caller, kind)).value

    async def stored_record(self, session: ClientSession, subject: str = "ada") -> StoredGrant | None:
        versioned = await self.store.read(GrantKey(key_of(subject), f"session:{session.id}"))
        return None if versioned is None else versioned.grant


class SessionWorld:
    """Replicas whose waiting advances the common clock. `store` creates the store of a replica."""

    def __init__(self, store: Callable[[], GrantStore], times: SessionTimes = TIMES) -> None:
        self.clock = HandClock(NOW)
        self.provider = RotatingProvider(self.clock)
        self.replicas: list[Replica] = []
        self._store = store
        self._times = times

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        for replica in self.replicas:
            await replica.sessions.aclose()

    def replica(self) -> Replica:
        replica = Replica(self, self._store(), self._times)
        self.replicas.append(replica)
        return replica

    def later(self, seconds: float) -> None:
        self.clock.now += seconds

    async def pause(self, seconds: float) -> None:
        self.later(seconds)
        await asyncio.sleep(0)
