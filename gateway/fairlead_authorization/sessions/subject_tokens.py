"""Tokens of the provider for the users of sessions, which are exchanged for tokens of servers (RFC 8693).

A token that the gateway issued is valid only at the gateway. So for a caller with such a token, the provider's token is
sent to other authorization servers. It is obtained with the session's refresh token when a call needs it, and is never
stored.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from fairlead_authorization.sessions.renewals import CLAIM_SECONDS
from fairlead_authorization.sessions.session import (
    IdentityProviderUnavailable,
    NotRenewable,
    Renew,
    RenewedPerson,
    SessionRefused,
    SessionStore,
    SessionStoreUnavailable,
)
from fairlead_gateway.core.identity import Identity, SubjectToken
from fairlead_mcp.oauth.errors import (
    CLOSED,
    GRANT_STORE,
    NO_SUBJECT_TOKEN,
    PROVIDER_ERROR,
    SUBJECT_TOKEN_EXPIRED,
    GrantFailed,
)
from fairlead_mcp.oauth.shared_task import SharedTask, TaskStopped
from fairlead_mcp.oauth.token_cache import SKEW_PART, SKEW_SECONDS

MAX_SESSIONS: Final = 2_048
"""Maximum number of sessions whose tokens or last failure are cached."""
PAUSE_SECONDS: Final = 1.0
"""Time for which any answer is used again without another request, even a failure or an expired token."""
_Key: TypeAlias = tuple[bytes, str]
"""Key of the person, and id of the session."""


class _LastAnswer(NamedTuple):
    """Last answer of the provider for a session."""

    tokens: Mapping[str, SubjectToken]
    failure: GrantFailed | None
    at: float
    """Seconds since the epoch."""


class SubjectTokens:
    """Provider's tokens of the sessions in `sessions`. `renew` asks the provider; `reject_tokens` is called with the id
    of a session that has ended, and rejects its tokens; `now` returns seconds since the epoch.
    """

    def __init__(
        self,
        sessions: SessionStore,
        renew: Renew,
        reject_tokens: Callable[[str], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._sessions = sessions
        self._renew = renew
        self._reject_tokens = reject_tokens
        self._now = now
        self._answers: OrderedDict[_Key, _LastAnswer] = OrderedDict()
        self._flights: dict[_Key, SharedTask[_LastAnswer]] = {}

    async def get(self, identity: Identity, token_type: str) -> SubjectToken:
        """Implements `core.identity.SessionSubject`."""
        key = (identity.person, identity.session)
        answer = self._answers.get(key)
        if answer is None or not self._is_fresh(answer, token_type):
            answer = await self._renew_shared(key)
        if answer.failure is not None:
            raise answer.failure.copy()
        token = answer.tokens.get(token_type)
        if token is None:
            raise GrantFailed(
                f"the identity provider gives no token of the type {token_type} when a sign-in is renewed: correct "
                "subjectTokenType of the server",
                cause=NO_SUBJECT_TOKEN,
            )
        return token

    async def aclose(self) -> None:
        """Wait for requests in progress, and forget all tokens."""
        await asyncio.gather(*[flight.aclose(CLAIM_SECONDS) for flight in self._flights.values()])
        self._answers.clear()

    # Internals

    def _is_fresh(self, answer: _LastAnswer, token_type: str) -> bool:
        """Whether the last answer can still be used."""
        now = self._now()
        if now < answer.at + PAUSE_SECONDS:
            return True
        token = answer.tokens.get(token_type) or next(iter(answer.tokens.values()), None)
        if token is None:
            return False
        return now < token.expires_at - min(SKEW_SECONDS, SKEW_PART * (token.expires_at - answer.at))

    async def _renew_shared(self, key: _Key) -> _LastAnswer:
        """The provider's next answer. Concurrent callers wait for one request. Raises GrantFailed after `aclose`."""
        flight = self._flights.get(key)
        if flight is None or not flight.running:
            # completes even without waiters: otherwise, the provider's new refresh token could be lost
            flight = self._flights[key] = SharedTask(self._request(key), "subject token", completes=True)
        try:
            return await flight.result()
        except TaskStopped:
            raise GrantFailed("the gateway is stopping: try again", cause=CLOSED) from None

    async def _request(self, key: _Key) -> _LastAnswer:
        try:
            return await self._renew_tokens(key)
        finally:
            self._flights.pop(key, None)

    async def _renew_tokens(self, key: _Key) -> _LastAnswer:
        """Ask the provider, and cache its answer."""
        renewal: RenewedPerson | None = None
        failure: GrantFailed | None = None
        try:
            renewal = await self._sessions.renew(*key, self._renew)
        except SessionRefused as error:
            self._reject_tokens(key[1])
            failure = GrantFailed(str(error), cause=SUBJECT_TOKEN_EXPIRED)
        except NotRenewable as error:
            failure = GrantFailed(
                f"{error}, so the gateway cannot exchange a token of the user for a token of the server: have the "
                "provider issue refresh tokens",
                cause=NO_SUBJECT_TOKEN,
            )
        except IdentityProviderUnavailable as error:
            failure = GrantFailed(str(error), cause=PROVIDER_ERROR)
        except SessionStoreUnavailable as error:
            failure = GrantFailed(str(error), cause=GRANT_STORE)
        answer = self._answers[key] = _LastAnswer({} if renewal is None else renewal.tokens, failure, self._now())
        self._answers.move_to_end(key)
        if len(self._answers) > MAX_SESSIONS:
            self._answers.popitem(last=False)
        return answer
